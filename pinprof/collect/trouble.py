"""pinprof's own trouble while it records a program: the one place that decides what comes of it.

Whatever pinprof cannot do, the program runs, with its own output and exit status. What is missing, why, and what helps
is one line on standard error and a note in the capture; only `--strict` makes an exit status of it.

Everything that pinprof does around a program stands in a block of `Trouble.kept`. Errors that are the user's own, such
as an unknown option or a program that does not exist, pass through: they are raised before the program starts.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

from pinprof.base.errors import PinprofError, ProgramNotFound, UsageError, missing_package, system_error
from pinprof.base.terminal import say

UNRECORDED = "The program runs without a recording"
_INCOMPLETE = "The recording is not complete"


def _said(text: str) -> None:
    say(text, error=True)


class Trouble:
    """What pinprof could not do in one recording."""

    def __init__(self, tell: Callable[[str], None] = _said, *, strict: bool = False, raises: bool = False) -> None:
        """`strict`: it counts for the exit status. `raises`: it ends the recording, because no program waits for it."""
        self.raises = raises
        self._tell, self._strict = tell, strict
        self._met: dict[str, PinprofError] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the manifest."""
        return tuple(self._met)

    def status(self, program: int) -> int:
        """The exit status, by the program's own."""
        own = next((error.exit_code for error in self._met.values()), 0) if self._strict else 0
        return program or own

    def kept(self, lost: str = _INCOMPLETE) -> _Kept:
        """Do something of pinprof's own: where that fails, it is said that `lost`, and what comes next goes on."""
        return _Kept(self, lost)

    def met(self, error: Exception, lost: str = "") -> None:
        """Say what went wrong, once."""
        known = described(error)
        text = f"{lost}: {known}" if lost else str(known)
        if text in self._met:
            return
        # What one limit keeps from starting is many things, but one line to read.
        limited = known.slug == "limits" and any(other.slug == "limits" for other in self._met.values())
        again = limited and lost != UNRECORDED
        self._met[text] = known
        if known.slug == "internal":
            self._tell("".join(traceback.format_exception(error)).rstrip())
        if not again:
            self._tell(f"pinprof: {text} [{known.slug}]")


class _Kept:
    """A block of pinprof's own work."""

    def __init__(self, trouble: Trouble, lost: str) -> None:
        self._trouble, self._lost = trouble, lost

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if self._trouble.raises or not isinstance(error, Exception) or isinstance(error, UsageError | ProgramNotFound):
            return False
        self._trouble.met(error, self._lost)
        return True


def described(error: Exception) -> PinprofError:
    """An error in words: pinprof's, the system's, or one that pinprof should not have."""
    if isinstance(error, PinprofError):
        return error
    if isinstance(error, MemoryError):
        return PinprofError(
            "There is not enough memory.", "Free some, or raise the limit of the user or container.", "memory"
        )
    known = (
        system_error(error) if isinstance(error, OSError)
        else missing_package(error) if isinstance(error, ModuleNotFoundError)
        else None
    )  # fmt: skip
    return known or PinprofError(
        f"pinprof has an error of its own ({type(error).__name__}: {error}).",
        "Please report it with the lines above.",
        "internal",
    )
