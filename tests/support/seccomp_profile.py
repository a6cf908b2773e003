"""`python seccomp_profile.py PROFILE COMMAND …` runs a command behind a seccomp profile of a container runtime.

libseccomp makes the filter, as it does for the runtimes. It ends with UNAVAILABLE where libseccomp is missing.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

UNAVAILABLE = 87
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OPERATIONS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


class _Argument(ctypes.Structure):
    """`struct scmp_arg_cmp` of seccomp.h."""

    _fields_ = (("index", ctypes.c_uint), ("op", ctypes.c_int), ("value", ctypes.c_uint64), ("two", ctypes.c_uint64))


def load(profile: dict[str, Any]) -> None:
    """Put this process, and all that it starts, behind the profile."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ALLOW)))
    for rule in profile["syscalls"]:
        assert rule["action"] == "SCMP_ACT_ERRNO"
        given = [
            _Argument(one["index"], _OPERATIONS[one["op"]], one["value"], one.get("valueTwo", 0))
            for one in rule.get("args", ())
        ]
        arguments = (_Argument * len(given))(*given)
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            action = ctypes.c_uint32(_ERRNO | rule["errnoRet"])
            # A negative number is a call that this processor does not have.
            if number >= 0 and library.seccomp_rule_add_array(context, action, number, len(given), arguments):
                raise OSError(f"libseccomp refuses {name}")
    if library.seccomp_load(context):
        raise OSError("The filter cannot be loaded.")


def main(profile: str, *command: str) -> NoReturn:
    try:
        load(json.loads(Path(profile).read_text("utf-8")))
    except OSError as error:
        os.write(2, f"cannot be made here: {error}".encode())
        os._exit(UNAVAILABLE)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
