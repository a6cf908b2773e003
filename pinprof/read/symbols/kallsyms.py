r"""Kernel symbols from a saved `/proc/kallsyms`: plain text, .gz or .xz.

A line is `ADDRESS TYPE NAME` with an optional `\t[MODULE]`; the core kernel's lines are sorted, modules' are not.
The file has 7 MB and 200,000 lines, so only what lies around the addresses that are asked for is parsed, as columns,
and names are decoded only for addresses that hit.

Addresses are looked up over all modules at once. perf first looks up the module by its mapped extent and then the
symbol inside it, which misnames `[nvidia_uvm]` where its pages lie inside the extent of `[nvidia]`.

Sources: kernel `kernel/kallsyms.c` (s_show), perf `tools/perf/util/symbol.c` (symbols__fixup_end, choose_best_symbol).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pinprof.base.errors import FormatError, unreadable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int32, Int64, UInt8, UInt64
from pinprof.read.packed import PackedError, unpacked

MAX_BYTES = 512 << 20
"""More than any kernel has symbols: a compressed file that grows beyond it is not a kallsyms."""

_PAGE = 4096
_LONGEST_FUNCTION = np.uint64(256 << 10)
"""No kernel function is longer; what follows is a gap between sections, not the function's body."""
_BLOCK = 4096
"""Bytes of text between two lines whose addresses are read first."""
_PADDING = 64
"""Zero bytes behind the text, so that eight-byte reads at its end stay inside the buffer."""
_NO_DIGIT = np.uint64(0xF0F0_F0F0_F0F0_F0F0)
_NIBBLE = np.full(256, 0xFF, np.uint8)
_NIBBLE[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


@dataclass(frozen=True)
class Kallsyms:
    """Text symbols ordered by address, one row per distinct address; intervals are half-open [start, end).

    Of several names at one address the last in the file is taken, as perf does: symbols__fixup_end leaves the earlier
    ones empty and choose_best_symbol prefers one with a length.
    """

    text: bytes
    starts: UInt64
    ends: UInt64
    name_at: Int64
    """Byte offset of the name in `text`."""
    name_end: Int64
    module_end: Int64
    """Byte offset behind the module's name, which begins two bytes behind `name_end`; equal to it for the core."""
    hidden: bool
    """Every address is zero: kptr_restrict kept them from whoever saved the file."""

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, ips: UInt64) -> Int32:
        """Per address the row of its symbol, -1 if it lies in none."""
        if not len(self):
            return np.full(len(ips), -1, np.int32)
        rows = np.searchsorted(self.starts, ips, side="right") - 1
        return np.where((rows >= 0) & (ips < self.ends[rows]), rows, -1).astype(np.int32)

    def name(self, row: int) -> str:
        """The symbol's name."""
        return self.text[self.name_at[row] : self.name_end[row]].decode("utf-8", "replace")

    def module(self, row: int) -> str:
        """The module's name in brackets, `[nvidia_uvm]`; `[kernel.kallsyms]` for the core kernel."""
        name = self.text[self.name_end[row] + 2 : self.module_end[row]].decode("utf-8", "replace")
        return f"[{name}]" if name else "[kernel.kallsyms]"


class KernelText:
    """The text of a kallsyms, parsed as far as somebody asks for its addresses."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        module = text.find(b"\t")
        self._core_end = len(text) if module < 0 else text.rfind(b"\n", 0, module) + 1
        """Where lines begin that are not sorted, modules'."""
        self._at = self._first_lines()
        """Where the blocks of the others begin."""
        self._address = self._addresses()
        """Their first addresses; none, or zeros alone, where all blocks have to be parsed to find anything."""
        self._parsed = np.zeros(len(self._at), np.bool_)
        """Which blocks the table has."""
        self._worked = 0
        """Bytes parsed."""
        self._table = _NONE
        self._searched = bool(self._address.any())
        self.readable = True
        """Whether any line is one of a kallsyms, or there is none at all."""
        if not self._searched:
            self.readable = self.parse()

    @property
    def hidden(self) -> bool:
        """Every address is zero: kptr_restrict kept them from whoever saved the file."""
        return not self._searched and self._table.hidden

    def parse(self) -> bool:
        """Have a table of the whole text, and whether any line is one; for who has time before addresses are known."""
        return self._parse(np.ones(len(self._at), np.bool_))

    def around(self, ips: UInt64) -> Kallsyms:
        """A table that finds for these addresses what one of the whole text finds; it may find less for others."""
        if self._searched:
            block = np.maximum(np.searchsorted(self._address, ips, side="right") - 1, 0)
            # Lines of one address may lie in several blocks, and the end of a symbol in the next one.
            first = np.maximum(np.searchsorted(self._address, self._address[block]) - 1, 0)
            edges = np.zeros(len(self._at) + 1, np.int64)
            np.add.at(edges, first, 1)
            np.add.at(edges, np.minimum(block + 2, len(self._at)), -1)
            wanted = self._parsed | (np.cumsum(edges)[:-1] > 0)
            if (wanted != self._parsed).any():
                self._parse(wanted)
        return self._table

    def _parse(self, blocks: Bool) -> bool:
        """Have a table of these blocks, and whether any line is one; all parses read no more than three such texts."""
        if self._worked > len(self._text):
            blocks = np.ones(len(blocks), np.bool_)
        bounds = [*self._at.tolist(), self._core_end]
        pieces = [self._text[bounds[block] : bounds[block + 1]] for block in np.flatnonzero(blocks).tolist()]
        part = b"".join([*pieces, self._text[self._core_end :]])
        self._worked += len(part)
        table = parse_kallsyms(part)
        self._table, self._parsed = _NONE if table is None else table, blocks
        return table is not None

    def _first_lines(self) -> Int64:
        """Where blocks of the core kernel's lines begin."""
        at = [0]
        while 0 < (following := self._text.find(b"\n", at[-1] + _BLOCK, self._core_end) + 1) < self._core_end:
            at.append(following)
        return np.array(at, np.int64)

    def _addresses(self) -> UInt64:
        """Each block's first address, ascending; none where the lines are not those of a kernel, or not sorted."""
        digits = 16 if self._text[16:17] == b" " else 8
        lines = [self._text[at : at + 16].ljust(16) for at in self._at.tolist()]
        words = np.frombuffer(b"".join(lines), "<u8")
        address, valid = _hex(words, np.arange(0, len(words), 2), digits, words_apart=1)
        usable = bool(valid.all() and (address[1:] >= address[:-1]).all())
        return address if usable else address[:0]


_NONE = Kallsyms(
    text=b"",
    starts=np.zeros(0, np.uint64),
    ends=np.zeros(0, np.uint64),
    name_at=np.zeros(0, np.int64),
    name_end=np.zeros(0, np.int64),
    module_end=np.zeros(0, np.int64),
    hidden=False,
)


def load_kallsyms(path: Path) -> KernelText:
    """Kernel symbols of a saved kallsyms; CaptureError if it cannot be read, FormatError if it is something else."""
    try:
        text = unpacked(path.read_bytes(), MAX_BYTES)
    except (OSError, PackedError) as error:
        remedy = "Give a copy of /proc/kallsyms saved as root on the recording machine with --kallsyms."
        raise unreadable(f"The kernel symbols {path}", error, remedy, "kallsyms") from error
    symbols = KernelText(text)
    if not symbols.readable:
        raise FormatError(
            str(path),
            expected="a line `ADDRESS TYPE NAME` as in /proc/kallsyms",
            found=repr(text[:24].decode("utf-8", "replace")),
            offset=0,
            remedy="Give a copy of /proc/kallsyms saved as root on the recording machine with --kallsyms.",
            slug="kallsyms",
        )
    return symbols


def parse_kallsyms(text: bytes) -> Kallsyms | None:
    """Symbols of kallsyms text; lines that are none are skipped, None if bytes are there but no line is one."""
    padded = text + bytes(_PADDING)
    chars = np.frombuffer(padded, np.uint8)
    words: UInt64 = np.ndarray(len(text) + _PADDING - 7, "<u8", padded, strides=(1,))
    line_end = np.flatnonzero(chars[: len(text)] == ord("\n"))
    line_at = np.concatenate([np.zeros(1, np.int64), line_end + 1])
    line_end = np.append(line_end, len(text))

    digits = 16 if text[16:17] == b" " else 8
    whole = (line_end - line_at) > digits + 3
    line_at, line_end = line_at[whole], line_end[whole]
    address, valid = _hex(words, line_at, digits)
    valid &= (chars[line_at + digits] == ord(" ")) & (chars[line_at + digits + 2] == ord(" "))
    if not valid.any() and text.strip():
        return None
    line_at, line_end, address = line_at[valid], line_end[valid], address[valid]
    hidden = bool(len(address)) and not address.any()
    name_at, name_end, module_end = line_at + digits + 3, line_end.copy(), line_end.copy()
    _split_modules(chars[: len(text)], line_at, name_end, module_end)

    order = np.argsort(address, kind="stable")
    module = _module_keys(words, name_end, module_end)[order]
    address = address[order]
    kind = chars[line_at + digits + 1][order] | 0x20
    marker = chars[name_at][order] == ord("$")  # arm64's mapping symbols: $x, $d
    rows = np.flatnonzero(((kind == ord("t")) | (kind == ord("w"))) & ~marker)
    if hidden:
        rows = rows[:0]
    rows = rows[np.append(np.diff(address[rows]) != 0, True)[: len(rows)]]
    starts = address[rows]
    picked = order[rows]
    return Kallsyms(
        text=text,
        starts=starts,
        ends=_ends(starts, module[rows], address, module),
        name_at=name_at[picked],
        name_end=name_end[picked],
        module_end=module_end[picked],
        hidden=hidden,
    )


def _hex(words: UInt64, at: Int64, digits: int, words_apart: int = 8) -> tuple[UInt64, Bool]:
    """Values of the 8 or 16 hexadecimal digits at each position, and whether all of them are digits.

    `words_apart`: how far apart two words lie that have no byte in common.
    """
    columns = np.stack([words[at + column * words_apart] for column in range(digits // 8)], axis=1)
    nibbles = _NIBBLE[columns.view(np.uint8)]
    valid = (nibbles.view(np.uint64) & _NO_DIGIT == 0).all(axis=1)
    value = nibbles[:, ::2] << 4 | nibbles[:, 1::2]
    return value.view(">u8" if digits == 16 else ">u4").ravel().astype(np.uint64), valid


def _split_modules(chars: UInt8, line_at: Int64, name_end: Int64, module_end: Int64) -> None:
    r"""Shorten `name_end` and `module_end` in place for the lines that end in `\t[MODULE]`."""
    tabs = np.flatnonzero(chars == ord("\t"))
    lines = np.searchsorted(line_at, tabs, side="right") - 1
    lines, first = np.unique(lines, return_index=True)
    lines, tabs = lines[lines >= 0], tabs[first][lines >= 0]  # tabs before the first symbol belong to no line
    named = (tabs < name_end[lines] - 3) & (tabs > line_at[lines])
    named &= (chars[np.minimum(tabs + 1, len(chars) - 1)] == ord("[")) & (chars[name_end[lines] - 1] == ord("]"))
    lines, tabs = lines[named], tabs[named]
    module_end[:] = name_end
    module_end[lines] -= 1
    name_end[lines] = tabs


def _module_keys(words: UInt64, name_end: Int64, module_end: Int64) -> UInt64:
    """A number per symbol that tells modules apart, from the bytes of the name; 0 for the core kernel."""
    key = np.zeros(len(name_end), np.uint64)
    rows = np.flatnonzero(module_end > name_end)
    at, length = name_end[rows] + 2, module_end[rows] - name_end[rows] - 2
    mixed = length.astype(np.uint64) + np.uint64(1)
    for column in range(0, min(int(length.max(initial=0)), _PADDING - 8), 8):
        left = np.clip(length - column, 0, 8).astype(np.uint64)
        mask = np.where(left > 0, ~np.uint64(0) >> (np.uint64(64) - np.uint64(8) * np.maximum(left, 1)), 0)
        word = words[np.minimum(at + column, len(words) - 1)] & mask.astype(np.uint64)
        mixed = (mixed ^ word) * np.uint64(0x9E37_79B9_7F4A_7C15)
    key[rows] = mixed
    return key


def _ends(starts: UInt64, module: UInt64, address: UInt64, modules: UInt64) -> UInt64:
    """Where each text symbol ends: at the next symbol of any type, or with its page at the end of its module.

    `starts` and `module` belong to the text symbols, `address` and `modules` to all symbols, both ordered by address.
    A start in the last page of the address space would wrap; such a symbol ends at the highest address.
    """
    following = np.searchsorted(address, starts, side="right")
    last = following == len(address)
    following = np.minimum(following, max(len(address) - 1, 0))
    top = ~np.uint64(0)
    next_start = np.where(last, top, address[following])
    page_end = (starts + np.uint64(2 * _PAGE - 1)) & ~np.uint64(_PAGE - 1)
    limit = np.where(last | (modules[following] != module), page_end, starts + _LONGEST_FUNCTION)
    return np.minimum(next_start, np.where(limit > starts, limit, top))
