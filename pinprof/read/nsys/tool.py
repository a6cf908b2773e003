"""An Nsight Systems report (.nsys-rep, .qdrep) or raw stream (.qdstrm) → Capture, through nsys's own export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pinprof.base import files
from pinprof.data.model import Capture
from pinprof.machine import nsys
from pinprof.read.nsys import export as nsys_export
from pinprof.read.reader import Certainty, Reader, ReadOptions, by_head


def read(path: Path, options: ReadOptions) -> Capture:
    """The capture in a report; errors as of `nsys.export_sqlite` and `nsys_export.read`."""
    with files.temporary_folder() as folder:
        export = nsys.export_sqlite(path, folder)
        return replace(nsys_export.read(export, options), path=str(path))


READER = Reader("Nsight Systems report", by_head(nsys.is_report, Certainty.CERTAIN), read)
