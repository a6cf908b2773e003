"""A Dask scheduler and its workers as processes of their own, as a fleet's machines have them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler's address, and its workers; all end with the context."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    log = (folder / "log").open("wb")

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", *arguments], stdout=log, stderr=log, cwd=folder)

    processes = [start("distributed.cli.dask_scheduler", "--no-dashboard", "--port", "0", "--host", "127.0.0.1",
                       "--scheduler-file", str(file))]  # fmt: skip
    try:
        deadline = time.monotonic() + 200
        while not file.exists() or not file.read_text().endswith("}"):
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        processes += [start("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                            "--memory-limit", "2GB") for _ in range(workers)]  # fmt: skip
        yield address, processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
        log.close()
