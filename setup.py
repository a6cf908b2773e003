"""Builds the C libraries into the package where there is a C compiler; all else is in pyproject.toml.

With them the wheel is one for this platform and any Python 3; without them, one for every platform.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent

_spec = importlib.util.spec_from_file_location("pinprof_libraries", ROOT / "pinprof/libraries.py")
assert _spec is not None
assert _spec.loader is not None
libraries = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = libraries  # dataclasses look their module up there
_spec.loader.exec_module(libraries)


@functools.cache
def built() -> tuple[tuple[Path, str, bytes], ...]:
    """Place in the package, name prefix and bytes of each library; none where they cannot be compiled."""
    if not libraries.compiler():
        print("No C compiler: the C libraries are left out.", file=sys.stderr)
        return ()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for library in libraries.LIBRARIES:
            try:
                made = library.compile_into(Path(folder))
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"The {library.title} is left out: {error}\n{getattr(error, 'stderr', '')}", file=sys.stderr)
                continue
            place = library.source.parent.relative_to(ROOT) / made.name
            found.append((place, library.prefix, made.read_bytes()))
    return tuple(found)


class PlatformDistribution(Distribution):
    """One that knows its libraries."""

    def has_ext_modules(self) -> bool:
        """Whether what is built is of one platform."""
        return bool(built())


class BuildWithLibraries(build_py):
    """Python files, and the libraries beside their sources; in an editable install, inside the source."""

    def run(self) -> None:
        """Build both."""
        super().run()
        root = ROOT if self.editable_mode else Path(self.build_lib)
        for place, prefix, content in built():
            for old in (root / place).parent.glob(f"{prefix}*.so"):
                old.unlink()
            (root / place).write_bytes(content)


class PlatformWheel(bdist_wheel):
    """A wheel for any Python 3: the libraries know nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """`py3-none-PLATFORM`."""
        tag: Any = super().get_tag()
        return "py3", "none", tag[2]


setup(
    distclass=PlatformDistribution,
    cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": PlatformWheel},
)
