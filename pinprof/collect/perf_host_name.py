"""perf writes the machine's name into its file; a capture travels without it.

The header's feature bits say which sections follow the records, in the bits' order: a table of `u64 offset, bytes`.
Source: `tools/perf/Documentation/perf.data-file-format.txt` (HEADER_HOSTNAME = 3).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

_MAGIC = b"PERFILE2"
_HOST_NAME = 3
_DATA, _BITS = 40, 72
"""Where in the file's head the section of records and the feature bits stand."""
_LONGEST = 4096


def forget(path: Path) -> None:
    """Overwrite the host name in a finished perf.data with NULs; any other file stays as it is."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # perf wrote nothing
        return
    try:
        head = os.pread(file, 104, 0)
        if len(head) < 104 or head[:8] != _MAGIC:
            return
        begin, size = struct.unpack_from("<QQ", head, _DATA)
        bits = int.from_bytes(head[_BITS : _BITS + 8], "little")
        if not bits >> _HOST_NAME & 1:
            return
        entry = begin + size + 16 * (bits & (1 << _HOST_NAME) - 1).bit_count()
        place, length = struct.unpack("<QQ", os.pread(file, 16, entry))
        # The text stands behind its own length.
        if 4 < length <= _LONGEST:
            os.pwrite(file, bytes(length - 4), place + 4)
    except (OSError, OverflowError, struct.error):  # cut short by a full disk: there are no features then
        return
    finally:
        os.close(file)
