"""Write an Nsight Systems SQLite export of any size: runtime calls, copies, UVM migrations, ranges.

The layout is that of schema 3.20.3. Calls come in pairs of a copy and a launch, each correlated with its GPU work;
migrations are what a managed allocation that is touched from both sides makes.

    python tests/bench/make_nsys_sqlite.py OUT.sqlite [--calls 1000000] [--copies 1000000] [--migrations 2000000]
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator
from pathlib import Path

PID, TID = 4242, 4243
GLOBAL_PID = 1 << 48 | PID << 24
GLOBAL_TID = GLOBAL_PID | TID
STEP_NS = 4_000
RANGE_EVERY = 1_000
STRINGS = {1: "cudaMemcpyAsync_v3020", 2: "cudaLaunchKernel_v7000", 3: "add_two(float*, long)", 4: "main"}

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER,
  domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER,
  int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL,
  callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER,
  dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER,
  migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
  launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,
  gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
  blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
  localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
  sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INTEGER NOT NULL, end INTEGER NOT NULL, globalPid INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, address INTEGER NOT NULL, numberOfPageFaults INTEGER NOT NULL,
  faultAccessType INTEGER NOT NULL);
"""


def runtime_rows(calls: int) -> Iterator[tuple[int | None, ...]]:
    """Alternating cudaMemcpyAsync and cudaLaunchKernel calls, one every STEP_NS."""
    for index in range(calls):
        start = index * STEP_NS
        yield start, start + 2_500, 0, GLOBAL_TID, index + 1, 1 + index % 2, 0, None


def copy_rows(copies: int, calls: int) -> Iterator[tuple[int | None, ...]]:
    """Copies by turns to and from the device, pinned and pageable, correlated with the calls that made them."""
    for index in range(copies):
        start = 1_000 + index * STEP_NS
        to_device, host_kind = index % 2 == 0, index // 2 % 2
        kinds = (host_kind, 2) if to_device else (2, host_kind)
        correlation = 2 * index % max(calls, 1) + 1
        head = (start, start + 1_400, 0, 1, None, 7, correlation, GLOBAL_PID, 65_536, 1 if to_device else 2)
        yield *head, None, *kinds, None, None, None, None, None, None, None, 1


def migration_rows(migrations: int) -> Iterator[tuple[int | None, ...]]:
    """Page-fault and speculative migrations, 4 KiB to 2 MiB, walking over 1 GiB in both directions."""
    for index in range(migrations):
        start = 2_000 + index * (STEP_NS // 2)
        size = 4096 << index % 10
        to_device = index // 1000 % 2 == 0
        address = 0x7F00_0000_0000 + index * 65_536 % (1 << 30)
        head = (start, start + 500 + size // 40, 0, 0, None, 0, 0, GLOBAL_PID, size, 11 if to_device else 12)
        yield *head, None, 7, 7, None, None, None, None, 2 + index % 2, None, address, None


def kernel_rows(kernels: int) -> Iterator[tuple[int | None, ...]]:
    """One kernel for every launch."""
    for index in range(kernels):
        start = STEP_NS + index * 2 * STEP_NS
        head = (start, start + 3_000, 0, 1, None, 7, 2 * index + 2, GLOBAL_PID, 3, 3, 3)
        yield *head, 1, 1, 16, 1024, 1, 1, 256, 1, 1, 0, 0, 0, 0, index, 32_768, None, 0


def fault_rows(groups: int) -> Iterator[tuple[int, ...]]:
    """GPU fault groups of three pages each."""
    for index in range(groups):
        start = 2_000 + index * STEP_NS * 4
        yield start, start + 900, GLOBAL_PID, 0, 0x7F00_0000_0000 + index * 65_536 % (1 << 30), 3, 1 + index % 2


def range_rows(calls: int) -> Iterator[tuple[int | str | None, ...]]:
    """Nested ranges `iteration > h2d` around every RANGE_EVERY calls, in domain 1."""
    tail = (None,) * 9
    yield 0, None, 75, None, None, None, "pinprof", GLOBAL_TID, None, None, 1, *tail
    for index in range(0, calls, RANGE_EVERY):
        start, end = index * STEP_NS, (index + RANGE_EVERY) * STEP_NS
        yield start, end - 10, 59, None, None, None, "iteration", GLOBAL_TID, None, None, 1, *tail
        yield start + 10, end - 20, 59, None, None, None, "h2d", GLOBAL_TID, None, None, 1, *tail


def write(path: Path, calls: int, copies: int, migrations: int) -> None:
    """Write the export; an existing file is replaced."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + SCHEMA)
        versions = [("EXPORT_PRODUCT_VERSION", "2025.3.2.0"), ("EXPORT_SCHEMA_VERSION", "3.20.3")]
        base.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", versions)
        base.execute("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COMMAND', '/opt/app/bench')")
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", STRINGS.items())
        base.execute("INSERT INTO ThreadNames VALUES (4, 20, ?)", (GLOBAL_TID,))
        for table, columns, rows in (
            ("CUPTI_ACTIVITY_KIND_RUNTIME", 8, runtime_rows(calls)),
            ("CUPTI_ACTIVITY_KIND_MEMCPY", 21, copy_rows(copies, calls)),
            ("CUPTI_ACTIVITY_KIND_MEMCPY", 21, migration_rows(migrations)),
            ("CUPTI_ACTIVITY_KIND_KERNEL", 28, kernel_rows(calls // 2)),
            ("CUDA_UM_GPU_PAGE_FAULT_EVENTS", 7, fault_rows(migrations // 8)),
            ("NVTX_EVENTS", 20, range_rows(calls)),
        ):
            base.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", rows)
    base.close()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--copies", type=int, default=1_000_000)
    parser.add_argument("--migrations", type=int, default=2_000_000)
    options = parser.parse_args()
    write(options.path, options.calls, options.copies, options.migrations)


if __name__ == "__main__":
    main()
