from pathlib import Path

import numpy as np

from pinprof.data.model import USER, Capture, Event
from pinprof.read.assembly import UNRECORDED, StackBuilder, aggregated, foreign_capture
from pinprof.read.reader import Certainty, Reader, ReadOptions, by_head


def sniff(head: bytes) -> bool:
    return head.startswith(b"#toy ")


def read(path: Path, options: ReadOptions) -> Capture:
    """After the head: a line for each stack, `outermost;…;innermost FAULTS`."""
    stacks, faults = zip(*(line.rsplit(" ", 1) for line in path.read_text().splitlines()[1:]), strict=True)
    builder = StackBuilder()
    nodes = builder.stacks([[builder.frame(name, UNRECORDED, USER) for name in stack.split(";")] for stack in stacks])
    samples = aggregated(nodes, np.array([int(count) for count in faults], np.int64))
    return foreign_capture(str(path), "toy", [Event("toy-faults", "faults", None, None)], samples, builder.table())


READER = Reader("toy stacks", by_head(sniff, Certainty.LIKELY), read)
