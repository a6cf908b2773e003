"""What nsys starts: fetches the program from pinprof, starts it, and lives as long as it; standard library only.

usage: python -I -S nsys_shim.py SOCKET

pinprof hands over, through its socket, the program's streams and the pipes of its gate, and as JSON its command,
environment, place and signal state. nsys's own environment, which it stores, is therefore a bare one. The program
becomes pinprof's child, although nsys is its ancestor: its parent exits at once, and pinprof adopts orphans
(PR_SET_CHILD_SUBREAPER). CPU sampling, which is inherited at fork, follows it all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

FILES = 5
"""Standard input, output and error, the gate's end to read, the failure's end to write."""
_LISTS = ("LD_PRELOAD", "LD_LIBRARY_PATH")
_SHELL = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"})


def main(path: str) -> None:
    """Start the program and wait until pinprof hangs up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        message, files, _, _ = socket.recv_fds(line, 1 << 16, FILES)
        while not message.endswith(b"\n"):
            more = line.recv(1 << 16)
            if not more:
                return
            message += more
        order = json.loads(message)
        own = os.getpid()
        child = os.fork()
        if child == 0:
            parent = os.getpid()
            if os.fork() == 0:
                _become(order, files, line, (parent, own))
            os._exit(0)
        for file in files:
            os.close(file)
        os.waitpid(child, 0)
        while line.recv(1):
            pass


def environment(wanted: dict[str, str], given: dict[str, str], received: dict[str, str]) -> dict[str, str]:
    """The program's own environment with what nsys added to the one it was given."""
    merged = dict(wanted)
    for name, value in received.items():
        if value == given.get(name) or name in _SHELL:
            continue
        if name in _LISTS:
            known = given.get(name, "").split(":")
            added = [part for part in value.split(":") if part and part not in known]
            merged[name] = ":".join([*added, *filter(None, [wanted.get(name)])])
        else:
            merged[name] = value
    return merged


def _become(order: dict[str, Any], files: list[int], line: socket.socket, parents: tuple[int, int]) -> NoReturn:
    """In the grandchild: wait until adopted and for the gate, then become the program."""
    *streams, gate, failure = files
    try:
        os.setpgid(0, 0)
        while os.getppid() == parents[0]:
            time.sleep(0.001)
        for place, file in enumerate(streams):
            os.dup2(file, place)
        for file in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            with contextlib.suppress(OSError):  # the directory's own, closed again
                os.set_inheritable(file, file <= 2)
        os.chdir(order["directory"])
        os.umask(order["umask"])
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is not None:
                signal.signal(number, signal.SIG_IGN if int(number) in order["ignored"] else signal.SIG_DFL)
        line.sendall(b"%d %d %d %d\n" % (os.getpid(), os.getppid(), *parents))
        if os.read(gate, 1):
            signal.pthread_sigmask(signal.SIG_SETMASK, order["mask"])
            merged = environment(order["environment"], order["given"], dict(os.environ))
            os.execve(order["executable"], order["command"], merged)  # noqa: S606 - the program itself, no shell
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1])
