"""Builds the NVTX injection library into the package where there is a C compiler; all else is in pyproject.toml.

With the library the wheel is one for this platform and any Python 3; without it, one for every platform.
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

PACKAGE = Path("pinprof/collect/nvtx")

_spec = importlib.util.spec_from_file_location("build_nvtx", Path(__file__).parent / PACKAGE / "build.py")
assert _spec is not None
assert _spec.loader is not None
nvtx = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(nvtx)


@functools.cache
def library() -> tuple[str, bytes] | None:
    """Name and bytes of the library; None where it cannot be compiled."""
    if not nvtx.compiler():
        print("No C compiler: the NVTX library is left out.", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = nvtx.compile_into(Path(folder))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"The NVTX library is left out: {error}\n{getattr(error, 'stderr', '')}", file=sys.stderr)
            return None
        return made.name, made.read_bytes()


class PlatformDistribution(Distribution):
    """One that knows its library."""

    def has_ext_modules(self) -> bool:
        """Whether what is built is of one platform."""
        return library() is not None


class BuildWithLibrary(build_py):
    """Python files, and the library beside them; in an editable install, inside the source."""

    def run(self) -> None:
        """Build both."""
        super().run()
        if made := library():
            name, content = made
            folder = (Path(__file__).parent if self.editable_mode else Path(self.build_lib)) / PACKAGE
            for old in folder.glob(f"{nvtx.LIBRARY_PREFIX}*.so"):
                old.unlink()
            (folder / name).write_bytes(content)


class PlatformWheel(bdist_wheel):
    """A wheel for any Python 3: the library knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """`py3-none-PLATFORM`."""
        tag: Any = super().get_tag()
        return "py3", "none", tag[2]


setup(
    distclass=PlatformDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
)
