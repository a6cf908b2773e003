"""Whether a program prints what it printed before."""

from __future__ import annotations

import re

_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class Reference:
    """The output of a run, with which those of others are compared."""

    def __init__(self, output: bytes, *, alike: bool) -> None:
        """`alike`: numbers that differ between runs of the program as it is, such as times, are not compared."""
        self._output, self._alike = output, alike
        self._free: set[int] = set()
        self.fixed = False
        """Whether the runs as is are over that show which numbers differ."""

    def holds(self, output: bytes) -> bool:
        """Whether the output is the same."""
        if output == self._output:
            return True
        if not self._alike or _NUMBER.sub(b"#", output) != _NUMBER.sub(b"#", self._output):
            return False
        numbers = zip(_NUMBER.finditer(output), _NUMBER.finditer(self._output), strict=True)
        differing = {at for at, (one, other) in enumerate(numbers) if one[0] != other[0]}
        if not self.fixed:
            self._free |= differing
        return differing <= self._free
