"""Make a large perf.data: deep C stacks under Python, recorded by the real perf.

    python tests/bench/make_perf_data.py OUT.perf.data [--samples 260000] [--paths 4000]

A C library of 48 mutually recursive functions walks fixed pseudo-random paths about 20 calls deep, `--paths` of them
(0: every path is a new one, the worst case for whoever merges stacks); Python calls it through ctypes. perf samples it
on the CPU clock at a fixed period until the wished number of samples is there. kallsyms of this boot is saved beside
the file as OUT.perf.data.kallsyms.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FUNCTIONS = 48
DEPTH = 21
PERIOD_NS = 50_000

PROGRAM = """
import ctypes, sys
walk = ctypes.CDLL(sys.argv[1]).walk
walk.argtypes = [ctypes.c_ulong, ctypes.c_long]
def outer(paths, nanoseconds):
    return inner(paths, nanoseconds)
def inner(paths, nanoseconds):
    return walk(paths, nanoseconds)
for _ in range(10):
    outer(int(sys.argv[2]), int(sys.argv[3]) // 10)
"""


def c_source() -> str:
    """The library: `level_NN` calls one of all levels by the next bits of a random number, and works at the bottom."""
    names = [f"level_{number:02d}" for number in range(FUNCTIONS)]
    declarations = "".join(f"static unsigned long {name}(unsigned long, int);\n" for name in names)
    table = f"static unsigned long (*const table[])(unsigned long, int) = {{{', '.join(names)}}};\n"
    bodies = "".join(
        f"static __attribute__((noinline)) unsigned long {name}(unsigned long x, int depth) {{\n"
        f"  x = x * 6364136223846793005ul + {2 * number + 1};\n"
        "  if (depth == 0) { for (int i = 0; i < 400; i++) x = x * 2862933555777941757ul + 3037000493ul; return x; }\n"
        f"  unsigned long y = table[(x >> 40) % {FUNCTIONS}](x, depth - 1);\n"
        "  return y ^ (y >> 7);\n}\n"
        for number, name in enumerate(names)
    )
    return (
        f"#include <time.h>\n{declarations}{table}{bodies}"
        "unsigned long walk(unsigned long paths, long nanoseconds) {\n"
        "  static unsigned long number;\n"
        "  struct timespec a, b;\n  clock_gettime(CLOCK_MONOTONIC, &a);\n"
        "  do { for (int i = 0; i < 64; i++) {\n"
        "      unsigned long x = (paths ? number % paths : number) * 0x9e3779b97f4a7c15ul;\n      number++;\n"
        f"      table[(x >> 32) % {FUNCTIONS}](x, {DEPTH} - (int)(x >> 60) % 4); }}\n"
        "    clock_gettime(CLOCK_MONOTONIC, &b);\n"
        "  } while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < nanoseconds);\n  return number;\n}\n"
    )


def make(out: Path, samples: int, paths: int) -> None:
    """Record about `samples` samples into `out`; raises CalledProcessError if the compiler or perf fails."""
    with tempfile.TemporaryDirectory() as folder:
        # The library stays beside the recording: both pinprof and perf read its symbols.
        library = out.with_name(out.name + ".so")
        source = Path(folder) / "walk.c"
        source.write_text(c_source())
        flags = ["-O1", "-g0", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, "-o", library, source], check=True)
        program = [sys.executable, "-c", PROGRAM, str(library.resolve()), str(paths), str(samples * PERIOD_NS)]
        events = ["-e", f"cpu-clock/period={PERIOD_NS}/", "-g", "-k", "CLOCK_MONOTONIC", "-m", "1024"]
        subprocess.run(["perf", "record", "-q", *events, "-o", out, "--", *program], check=True)
    if Path("/proc/kallsyms").exists():
        with Path("/proc/kallsyms").open("rb") as kallsyms, Path(f"{out}.kallsyms").open("wb") as copy:
            shutil.copyfileobj(kallsyms, copy)


def main() -> None:
    """Parse the command line and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--samples", type=int, default=260_000)
    parser.add_argument("--paths", type=int, default=4000)
    options = parser.parse_args()
    make(options.out, options.samples, options.paths)


if __name__ == "__main__":
    main()
