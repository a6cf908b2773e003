"""The sections of a report. A section is one module here, one template and one line in `SECTIONS`."""

from __future__ import annotations

from pinprof.report.data import Explained
from pinprof.report.forms import Forms
from pinprof.report.section import Section
from pinprof.report.sections.activity import ActivityEntry
from pinprof.report.sections.blame import WhoWaits
from pinprof.report.sections.blocks import BlocksSection
from pinprof.report.sections.calls import CallsSection
from pinprof.report.sections.causes import Causes
from pinprof.report.sections.findings import Findings
from pinprof.report.sections.flame import Flamegraph
from pinprof.report.sections.hero import Hero, HowMuch
from pinprof.report.sections.ledger import LedgerSection
from pinprof.report.sections.lines import LinesSection
from pinprof.report.sections.machine import Machine
from pinprof.report.sections.memory import Memory
from pinprof.report.sections.opportunities import WhatToChange
from pinprof.report.sections.phases import Phases
from pinprof.report.sections.pulse import Pulse
from pinprof.report.sections.quality import Quality
from pinprof.report.sections.ranges import Ranges
from pinprof.report.sections.ranges.walls import Walls
from pinprof.report.sections.reproduce import Reproduce
from pinprof.report.sections.singles import Singles
from pinprof.report.sections.timeline import OverTime
from pinprof.report.sections.torch_memory import TorchSection
from pinprof.report.sections.transfers import Transfers
from pinprof.report.sections.uvm import ManagedMemory

SECTIONS: tuple[type[Section[Explained]], ...] = (
    Hero, WhatToChange, HowMuch, Phases, OverTime, WhoWaits, Causes, Ranges, Walls, LinesSection, CallsSection,
    Transfers, ManagedMemory, LedgerSection, TorchSection, Memory, BlocksSection, Flamegraph, Findings, Quality,
    Machine, Reproduce, ActivityEntry, Singles,
)  # fmt: skip
"""In the order of the page."""

ANSWER = Forms[Explained]((Hero, WhatToChange, Phases, Findings))
"""What the terminal's answer is made of."""
LIVE = Forms[Explained](
    (Hero, WhatToChange, Findings, Pulse, Causes, LinesSection, WhoWaits, Memory, CallsSection, Transfers)
)
"""What `pinprof top` shows of a window."""
REPORT = Forms[Explained](SECTIONS, brief=(Hero, Phases, WhatToChange, Causes, Quality), design="page.recorded")
