"""perf writes the machine's name into its file; a capture travels without it.

The header's feature bits say which sections follow the records, in the bits' order.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from pinprof.data.perf_format import DATA_OFFSET, DATA_SIZE, FEATURES, FILE_HEAD, HOSTNAME, MAGIC, SECTION

_LONGEST = 4096


def forget(path: Path) -> None:
    """Overwrite the host name in a finished perf.data with NULs; any other file stays as it is."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # perf wrote nothing
        return
    try:
        head = os.pread(file, FILE_HEAD.size, 0)
        if len(head) < FILE_HEAD.size or not head.startswith(MAGIC):
            return
        fields = FILE_HEAD.unpack(head)
        bits = fields[FEATURES][0]
        if not bits >> HOSTNAME & 1:
            return
        table = fields[DATA_OFFSET] + fields[DATA_SIZE]
        before = (bits & (1 << HOSTNAME) - 1).bit_count()
        place, length = SECTION.unpack(os.pread(file, SECTION.size, table + SECTION.size * before))
        # The text stands behind its own length.
        if 4 < length <= _LONGEST:
            os.pwrite(file, bytes(length - 4), place + 4)
    except (OSError, OverflowError, struct.error):  # cut short by a full disk: there are no features then
        return
    finally:
        os.close(file)
