"""Every error a user can meet, in one hierarchy.

    PinprofError            exit 1
    ├── UsageError          exit 2   a command line that cannot be meant
    ├── CaptureError                 a path without a capture, or one this version cannot read
    ├── FormatError                  a file whose bytes are not what its format says
    ├── CollectError                 recording failed or is not permitted
    │   └── ProgramNotFound exit 127 the program to record cannot be executed
    ├── TrialError                   a program that cannot be tried: it cannot be repeated, or tells no number
    ├── ToolMissing                  an external tool or an optional extra is not installed
    └── ScenarioError                a scenario failed, or computed a wrong result
        └── CudaError                a CUDA call returned an error code

Each message is two sentences: what is wrong (`problem`), and what to do (`remedy`). `slug` names the entry
in docs/messages.md that explains the error at length.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pinprof.base.terminal import printable_lines

_LONGEST_WORD, _LONGEST = 400, 1500
"""Characters. Words and sentences that are longer are not ours: a name in a recording, the text of a library."""


class PinprofError(Exception):
    """An error with a remedy; `main()` prints it without a traceback and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, problem: str, remedy: str, slug: str) -> None:
        super().__init__(legible(problem))
        self.problem = problem
        self.remedy = legible(remedy)
        self.slug = slug

    @property
    def problem(self) -> str:
        """What is wrong, `legible`."""
        return self._problem

    @problem.setter
    def problem(self, text: str) -> None:
        self._problem = legible(text)

    def __str__(self) -> str:
        return f"{self.problem} {self.remedy}".rstrip()


def legible(text: str) -> str:
    """A message that quotes hostile names: control characters spelled out, and what is endless cut in its middle."""
    words = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda found: _cut(found[0], _LONGEST_WORD), printable_lines(text))
    return _cut(words, _LONGEST)


def _cut(text: str, most: int) -> str:
    """A text of at most `most` characters, its beginning and its end."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[len(text) - most // 4 :]}"


class UsageError(PinprofError):
    """A command line that cannot be meant: an option that does not exist, a size of zero, an unknown scenario."""

    exit_code = 2


class CaptureError(PinprofError):
    """A path without a capture, or a capture this version of pinprof cannot read."""


def unreadable(what: object, error: OSError | ValueError, remedy: str = "", slug: str = "no-capture") -> CaptureError:
    """What to say of a file that the system does not let read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return CaptureError(f"{what} cannot be read: {reason}.", remedy or "Check the path and its permissions.", slug)


@contextmanager
def readable(what: object, remedy: str = "", slug: str = "no-capture") -> Iterator[None]:
    """Read a file inside: an OSError becomes a CaptureError."""
    try:
        yield
    except OSError as error:
        raise unreadable(what, error, remedy, slug) from error


class FormatError(PinprofError):
    """Bytes that are not what the format says; names what was expected, what was found and at which byte."""

    def __init__(self, path: object, *, expected: str, found: str, offset: int = 0, remedy: str, slug: str) -> None:
        super().__init__(f"{path}: expected {expected} at byte {offset}, found {found}.", remedy, slug)
        self.offset = offset


class CollectError(PinprofError):
    """Recording failed, or the system does not permit it."""


def unwritable(what: object, error: OSError, remedy: str = "Choose another place with -o.") -> CollectError:
    """What to say of a file that cannot be written; a full disk is named as such, whatever was written."""
    reason = error.strerror or str(error)
    problem = f"{what} cannot be written: {reason}."
    if is_full(error):
        return CollectError(problem, "Free some disk space, or choose another place with -o.", "disk-full")
    if error.errno == errno.EFBIG:
        return CollectError(problem, "Raise the limit of file sizes: `ulimit -f unlimited`.", "limits")
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM) and (known := system_error(error)):
        return CollectError(problem, known.remedy, known.slug)
    return CollectError(problem, remedy, "output")


def is_full(error: OSError) -> bool:
    """Whether there was no room left: on the disk, or for this user on it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def system_error(error: OSError) -> PinprofError | None:
    """What to say of an error of the system that can come from anywhere; None for those that must be ours."""
    place = f"{error.filename}: " if error.filename else ""
    problem = f"{place}{error.strerror}."
    if error.errno == errno.ENOENT and str(error.strerror).startswith("No usable temporary directory"):
        # As in a container whose root cannot be written to.
        return PinprofError(problem, "Set TMPDIR to a writable folder.", "output")
    if is_full(error):
        return PinprofError(problem, "With -o, choose a writable place with enough space.", "disk-full")
    if error.errno == errno.EAGAIN:
        remedy = "Raise the limit of processes with `ulimit -u` or in the container's settings."
        return PinprofError(f"{place}No more processes can be started: {error.strerror}.", remedy, "limits")
    if error.errno == errno.EMFILE:
        return PinprofError(problem, "Raise the limit of open files: `ulimit -n 65536`.", "limits")
    if error.errno == errno.ENFILE:
        return PinprofError(problem, "Raise the machine's limit of open files: `sudo sysctl fs.file-max`.", "limits")
    if error.errno == errno.ENOMEM:
        return PinprofError(problem, "Free some memory, or raise the container's limit.", "memory")
    if error.errno == errno.EROFS:
        return PinprofError(problem, "With -o, choose a writable place with enough space.", "output")
    if error.errno in (errno.EACCES, errno.EPERM):
        return PinprofError(problem, "Check its permissions, or choose another place with -o.", "output")
    return None


class ProgramNotFound(CollectError):
    """The program to record does not exist or cannot be executed; exits as a shell does."""

    exit_code = 127


class TrialError(PinprofError):
    """A program that cannot be tried: it cannot be repeated, or tells no number to compare."""


class ToolMissing(PinprofError):
    """An external tool or an optional extra is not installed."""


_DISTRIBUTIONS = {"jinja2": "Jinja2", "cuda": "'pinprof[cuda]'", "IPython": "ipython", "libcst": "'pinprof[fix]'"}
"""Packages whose distribution has another name."""


@contextmanager
def packages_named() -> Iterator[None]:
    """Import inside: where a Python package is not installed, ToolMissing names the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if missing := missing_package(error):
            raise missing from error
        raise


def missing_package(error: ModuleNotFoundError) -> ToolMissing | None:
    """The error that names the command which installs what could not be imported; None for a module of pinprof's."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "pinprof"):
        return None
    return ToolMissing(
        f"The Python package {package} is not installed.",
        f"Install it: pip install {_DISTRIBUTIONS.get(package, package)}",
        "python-package",
    )


class ScenarioError(PinprofError):
    """A scenario failed or computed a wrong result."""


class CudaError(ScenarioError):
    """A CUDA call returned an error; names the call, the code and its meaning."""

    def __init__(self, call: str, code: int, meaning: str, remedy: str) -> None:
        super().__init__(f"{call} failed with error {code}: {meaning}.", remedy, "cuda-error")
        self.call = call
        self.code = code
