"""Builds the C libraries into the package where there is a C compiler; all else is in pyproject.toml.

With them the wheel is one for any Python 3 on the processor that the compiler compiles for, and its tag says which
glibc they need (PEP 600), by the versions of the symbols that they bind. Without them it is one for every platform.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def loaded(name: str, path: Path) -> Any:
    """A module of this repository, without the package that it belongs to."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


libraries = loaded("pinprof_libraries", ROOT / "pinprof/machine/libraries.py")
readme = loaded("pinprof_readme", ROOT / "tools/readme.py")
VERSION = re.findall(r'^__version__ = "(.+)"$', (ROOT / "pinprof/__init__.py").read_text("utf-8"), re.MULTILINE)[0]


GLIBC = ("libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")
"""The only libraries that a manylinux wheel of ours may need."""
OLDEST_MINOR = 17
"""Of glibc: the oldest that pip knows a tag for on every processor."""


def manylinux_tag(libraries: list[Path]) -> str:
    """`manylinux_2_34_x86_64`: the oldest glibc on which all of these load; empty where they need another libc."""
    machines, minors = set(), {OLDEST_MINOR}
    for path in libraries:
        with path.open("rb") as file:
            elf = ELFFile(file)
            machines.add({"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}.get(elf["e_machine"], ""))
            for section in elf.iter_sections():
                if isinstance(section, DynamicSection):
                    needed = {tag.needed for tag in section.iter_tags("DT_NEEDED")}
                    if not needed <= set(GLIBC):
                        return ""
                elif isinstance(section, GNUVerNeedSection):
                    names = [each.name for _, versions in section.iter_versions() for each in versions]
                    matches = [re.fullmatch(r"GLIBC_2\.(\d+)(\.\d+)?", name) for name in names]
                    if not all(matches):
                        return ""
                    minors |= {int(match[1]) for match in matches if match}
    machine = machines.pop() if len(machines) == 1 else ""
    return f"manylinux_2_{max(minors)}_{machine}" if machine else ""


@functools.cache
def built() -> tuple[tuple[Path, str, bytes], ...]:
    """Place in the package, name prefix and bytes of each library; none where they cannot be compiled."""
    if not libraries.compiler():
        print("No C compiler: the C libraries are left out.", file=sys.stderr)
        return ()
    found = []
    machine = libraries.target_machine()
    with tempfile.TemporaryDirectory() as folder:
        for library in libraries.LIBRARIES:
            try:
                made = library.compile_into(Path(folder), machine)
            except (OSError, subprocess.SubprocessError) as error:
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
        platform = tag[2]
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / place.name for place, _, _ in built()]
            for path, (_, _, content) in zip(paths, built(), strict=True):
                path.write_bytes(content)
            if paths:
                platform = manylinux_tag(paths) or platform
        return "py3", "none", platform


setup(
    long_description=readme.for_index((ROOT / "README.md").read_text("utf-8"), VERSION),
    long_description_content_type="text/markdown",
    project_urls=readme.urls(),
    distclass=PlatformDistribution,
    cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": PlatformWheel},
)
