"""The name of `pinprof.scenario` in version 0.1; it goes with version 1."""

from __future__ import annotations

import warnings

from pinprof.scenario import *  # noqa: F403

warnings.warn("pinprof.workload is now pinprof.scenario.", DeprecationWarning, stacklevel=2)
