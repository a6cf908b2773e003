"""Symbol tables that stay loaded between captures: portions of a recording that goes on, ranks of a launch."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from pinprof.base.lazy_dataclass import dataclass
from pinprof.read.symbols.kallsyms import KernelText, load_kallsyms

if TYPE_CHECKING:
    from pinprof.read.symbols.elf import ElfSymbols


@dataclass
class KeptSymbols:
    """What was loaded; a file that somebody writes to is another one."""

    _files: dict[tuple[Path, tuple[int, ...]], ElfSymbols | None] = field(default_factory=dict)
    _kernel: tuple[tuple[int, int], KernelText] | None = None

    def elf(self, path: Path, root: Path) -> ElfSymbols | None:
        """As `read_elf`; a file that is mapped under several names is loaded once."""
        from pinprof.read.symbols.elf import identity, read_elf

        try:
            key = root, identity(path.stat())
        except (OSError, ValueError):
            return None
        if key not in self._files:
            self._files[key] = read_elf(path, root)
        return self._files[key]

    def kallsyms(self, path: Path) -> KernelText:
        """As `load_kallsyms`; links to one file are loaded once."""
        try:
            found = path.stat()
        except OSError:
            return load_kallsyms(path)
        key = found.st_dev, found.st_ino
        if self._kernel is None or self._kernel[0] != key:
            self._kernel = key, load_kallsyms(path)
        return self._kernel[1]
