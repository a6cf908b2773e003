"""Functions known by their text alone: which object they lie in, and on which side of the kernel boundary.

Conventions read: the annotations of stackcollapse-perf.pl (`_[k]` kernel, `_[j]` JIT, `_[i]` inlined), functions
qualified by their object as DTrace does (``libc.so.6`malloc``), `[libc.so.6]` for an address without a symbol, and
py-spy's `function (file.py:12)`. Without annotations, all below a function that enters the kernel is kernel.
"""

from __future__ import annotations

import re

from pinprof.data.model import KERNEL, USER, Dso
from pinprof.read.assembly import UNKNOWN, UNRECORDED, StackBuilder, dso_of, is_kernel_entry, kernel_dso

BY_ENTRY = (
    "Kernel functions are identified by the function that enters the kernel, because the file does not mark them."
)
BY_NAME = (
    "Functions of NVIDIA kernel modules are identified by their names, because the file does not name their modules."
)

Context = tuple[int, bool]
"""What callers say about a function: the mode they run in, and whether the kernel was entered by a known function."""

OUTERMOST: Context = (USER, False)

_JIT, _VDSO_IMAGE = Dso("[jit]", "", "jit"), Dso("[vdso]", "", "vdso")
_QUALIFIED = re.compile(r"([^`\s:']+)`([^'].*)", re.DOTALL)
_BRACKETED = re.compile(r"\[([^\[\]]+)\]|\[\[([^\[\]]+)\]\]")
"""An object that stands for a function without a symbol; stackcollapse-perf.pl puts brackets around `[nvidia]`, too."""
_VDSO = re.compile(r"__vdso_\w+|\[?\[vdso\]\]?")
"""stackcollapse-perf.pl marks what the kernel maps into programs as kernel, though it runs in user mode."""
_PYTHON = re.compile(r".+ \((.+\.pyx?|<[^<>]+>)(?::\d+)?\)", re.DOTALL)


class FrameNames(dict[str, int]):
    """The text of a frame → its number, by the conventions of the tools that write text (see `folded`)."""

    def __init__(self, builder: StackBuilder) -> None:
        super().__init__()
        self.builder = builder
        self.entries: set[int] = set()
        self.inlined: set[str] = set()
        self.by_entry = False
        """Whether only the function that enters the kernel marks it."""
        self.by_name = False
        """Whether only a function's name says which kernel module it lies in."""

    def notes(self) -> list[str]:
        """Sentences about what had to be guessed."""
        return [BY_ENTRY] * self.by_entry + [BY_NAME] * self.by_name

    def chain(self, names: list[str]) -> list[int]:
        """Frame numbers of one stack, root first."""
        frames = [self[name] for name in names]
        if self.entries.isdisjoint(frames) and self.inlined.isdisjoint(names):
            return frames
        return self._with_context(names)

    def follow(self, name: str, context: Context) -> tuple[int, Context]:
        """The frame of a function called in this context, and the context of what it calls."""
        mode, entered = context
        entered = entered or self[name] in self.entries
        if name.endswith("_[k]"):
            mode = KERNEL
        elif not name.endswith("_[i]"):
            mode = KERNEL if entered else USER
            self.by_entry |= entered
        if mode == USER:
            return self[name], (mode, entered)
        inlined = name.endswith("_[i]")
        symbol = name.removesuffix("_[i]").removesuffix("_[k]") or name
        return self._kernel(symbol, inlined=inlined), (mode, entered)

    def _with_context(self, names: list[str]) -> list[int]:
        """A chain whose modes depend on the callers."""
        frames = []
        context = OUTERMOST
        for name in names:
            frame, context = self.follow(name, context)
            frames.append(frame)
        return frames

    def __missing__(self, name: str) -> int:
        text, mark = name[:-4], name[-4:]
        if mark == "_[k]" and text:
            frame = self._kernel(text)
        elif mark == "_[j]" and text:
            frame = self.builder.frame(text, _JIT, USER)
        elif mark == "_[i]" and text:
            self.inlined.add(name)
            frame = self._user(text, inlined=True)
        else:
            frame = self._user(name)
            if is_kernel_entry(name):
                self.entries.add(frame)
        self[name] = frame
        return frame

    def _kernel(self, symbol: str, *, inlined: bool = False) -> int:
        if _VDSO.fullmatch(symbol):
            return self.builder.frame(symbol.replace("[[", "[").replace("]]", "]"), _VDSO_IMAGE, USER, inlined=inlined)
        if bracketed := _BRACKETED.fullmatch(symbol):
            symbol = symbol if bracketed[1] else f"[{bracketed[2]}]"
            dso, mode = dso_of(symbol)
            if mode != KERNEL:
                dso = Dso(symbol, "", "module")
            elif dso.kind == "kernel" and bracketed[2]:
                symbol = "[unknown kernel]"
        elif qualified := _QUALIFIED.fullmatch(symbol):
            dso, symbol = dso_of(qualified[1])[0], qualified[2]
        else:
            dso = kernel_dso(symbol)
            self.by_name |= dso.kind == "module"
        return self.builder.frame(symbol, dso, KERNEL, inlined=inlined)

    def _user(self, symbol: str, *, inlined: bool = False) -> int:
        name, dso, mode = symbol, UNRECORDED, USER
        if bracketed := _BRACKETED.fullmatch(symbol):
            dso, mode = dso_of(
                symbol if symbol in ("[vdso]", "[vsyscall]", "[unknown]") else bracketed[1] or bracketed[2]
            )
            if mode == KERNEL:
                dso, mode = UNKNOWN, USER
        elif qualified := _QUALIFIED.fullmatch(symbol):
            name = qualified[2]
            dso, mode = dso_of(qualified[1])
        elif python := _PYTHON.fullmatch(symbol):
            dso = Dso(python[1], "", "file")
        return self.builder.frame(name, dso, mode, inlined=inlined)
