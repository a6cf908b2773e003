"""The tables of a fleet, from Python, for DuckDB and pandas.

fleet = pinprof.open_fleet("pinprof-fleet")           # the folder that `pinprof fleet --store` wrote
fleet.captures                                        # a pandas DataFrame, one row per capture
fleet.sql("SELECT cause, sum(weight) FROM costs WHERE measure = 'wall' GROUP BY ALL")
fleet.connection                                      # the DuckDB connection, with a view for each table
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinprof.fleet import database
from pinprof.fleet.answer import answer_of
from pinprof.fleet.results import Answer

if TYPE_CHECKING:
    import pandas as pd


class Fleet:
    """The tables of a fleet (docs/fleet.md). Times are in nanoseconds, sizes in bytes."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Raise CaptureError if the folder has no fleet, and ToolMissing without the extra."""
        self.connection: Any = database.connect(Path(folder))
        """DuckDB's connection, with a view for each table."""

    def sql(self, query: str) -> pd.DataFrame:
        """The result of an SQL query; UsageError if it is not valid."""
        return database.frame(self.connection, query)

    @property
    def answer(self) -> Answer:
        """The content of the page: outliers, savings, distributions, changes."""
        return answer_of(self.connection)

    @property
    def captures(self) -> pd.DataFrame:
        """One row per capture; captures that cannot be read have the reason."""
        return self.sql("SELECT * FROM captures")

    @property
    def facts(self) -> pd.DataFrame:
        """`capture, dimension, value`: host, driver, kernel, labels."""
        return self.sql("SELECT * FROM facts")

    @property
    def costs(self) -> pd.DataFrame:
        """Cause × phase × range × line × call of every capture, with its weight."""
        return self.sql("SELECT * FROM costs")

    @property
    def calls(self) -> pd.DataFrame:
        """CUDA calls of every capture."""
        return self.sql("SELECT * FROM calls")

    @property
    def opportunities(self) -> pd.DataFrame:
        """The opportunities of every capture, with their savings."""
        return self.sql("SELECT * FROM opportunities")


def open_fleet(folder: str | os.PathLike[str] = "pinprof-fleet") -> Fleet:
    """Open the tables that `pinprof fleet` wrote to a folder; PinprofError if there are none."""
    return Fleet(folder)
