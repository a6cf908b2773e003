import re
from collections.abc import Iterator

import numpy as np

from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.catalogue import NATIVE, PYTHON, Entry, cure
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.units import format_bytes, format_ns

READS = re.compile(r"vfs_readv?")
PIECE = 1 << 20

CURE = Entry(
    "Map the file once, and use the mapping.",
    "mapping the file once",
    {
        NATIVE: "const char *p = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);  // once",
        PYTHON: "data = numpy.memmap(path, dtype, mode='r')  # once",
    },
)


def read(scene: Scene) -> Iterator[Candidate]:
    """Files that lie in memory and are copied from there by read(), by the place that reads."""
    rows = np.flatnonzero(scene.caused_by("copy.kernel") & scene.has(READS) & scene.in_work())
    now, then = (scene.rates.cost(measure, PIECE) for measure in ("file.read", "file.map-touch"))
    if now is None or then is None or not now.ns:
        return
    for group in scene.by_place(rows):
        site, cost = scene.site_of(group), scene.ns(group)
        size = round(cost / now.ns * PIECE)
        remains = then.times(size / PIECE)
        yield Candidate(
            title=f"{site.place} reads a file that lies in memory.",
            site=site,
            phase="work",
            rows=group,
            cost_ns=cost,
            remains=remains,
            cure=cure("map-file", scene.framework),
            bytes=size,
            basis=(
                f"By the time it takes, {format_bytes(size)} are read ({now.source}).",
                f"Touching as much of a mapping takes {format_ns(round(remains.ns))} ({then.source}).",
            ),
        )
