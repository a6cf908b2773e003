"""Symbol tables that stay loaded between captures: portions of a recording that goes on, ranks of a launch."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any

from pinprof.base.lazy_dataclass import dataclass
from pinprof.read.symbols.kallsyms import Kallsyms, load_kallsyms
from pinprof.read.symbols.sealed import UserKey


@dataclass
class KeptSymbols:
    """What was loaded; files that change meanwhile have another build id."""

    sources: dict[UserKey, Any] = field(default_factory=dict)
    """Of files with a build id, and of the vdso: what the resolver loaded, None where there was nothing."""
    _kernel: tuple[tuple[int, int], Kallsyms] | None = None

    def kallsyms(self, path: Path) -> Kallsyms:
        """As `load_kallsyms`; links to one file are loaded once."""
        try:
            found = path.stat()
        except OSError:
            return load_kallsyms(path)
        key = found.st_dev, found.st_ino
        if self._kernel is None or self._kernel[0] != key:
            self._kernel = key, load_kallsyms(path)
        return self._kernel[1]

    @staticmethod
    def keeps(key: UserKey) -> bool:
        """Whether a DSO's symbols stay the same: it is a file that says by its build id which, or the vdso."""
        _, build_id, kind, _ = key
        return kind == "vdso" or (kind == "file" and bool(build_id))
