"""What recording may cost the program: a share of its time goes in, and what is recorded takes its price out."""

from __future__ import annotations

from pinprof.base.lazy_dataclass import dataclass

CREDIT_NS = 10_000_000
"""What an account holds at most, and when recording begins: thousands of events. It owes no more either: what came too
fast to be seen in time does not keep recording off for minutes.
"""


@dataclass
class Account:
    """Nanoseconds of the program's time that recording may still take; overdrawn below 0."""

    share: float
    """What goes in, of the time that passes."""
    held_ns: float = CREDIT_NS

    def settle(self, passed_ns: float, cost_ns: float) -> None:
        """Take in the time since the last call, and what recording cost in it."""
        self.held_ns = max(min(self.held_ns + self.share * passed_ns - cost_ns, CREDIT_NS), -CREDIT_NS)

    def until_ns(self, wanted_ns: float) -> float:
        """How long it takes until so much is held, if nothing is recorded."""
        return max(wanted_ns - self.held_ns, 0) / self.share
