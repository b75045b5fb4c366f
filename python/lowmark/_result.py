"""Results and their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _lowmark
from ._error import wrong

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def polars_frame(table: object) -> polars.DataFrame:
    """Converts a table of Arrow's to a polars frame.

    :raises Error: polars is not installed.
    """
    try:
        import polars
    except ImportError:
        raise wrong("to_polars needs polars; accepted: pip install 'lowmark[polars]'") from None
    return polars.DataFrame(table)


class Table:
    """A table of results in Arrow's memory, readable through ``__arrow_c_stream__``.

    ``polars.DataFrame(table)``, ``pyarrow.table(table)``,
    ``duckdb.from_arrow(pyarrow.table(table))`` and ``pandas.DataFrame.from_arrow(table)`` read it
    directly.
    """

    def __init__(self, raw: _lowmark.Table) -> None:
        self._raw = raw

    @property
    def column_names(self) -> list[str]:
        """Returns the names of the columns, with units in brackets."""
        return self._raw.column_names

    def __len__(self) -> int:
        return len(self._raw)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._raw.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """Converts to a pyarrow table, without a copy."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """Converts to a polars frame, without a copy of numbers.

        :raises Error: polars is not installed.
        """
        return polars_frame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Converts to a pandas frame."""
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        return f"<lowmark.Table: {len(self)} rows, {', '.join(self.column_names)}>"

    def _repr_html_(self) -> str | None:
        frame = self.to_pandas()
        html: str = frame.to_html(max_rows=20)
        return html


@dataclass(frozen=True)
class Comparison:
    """Which policy is better."""

    answers: list[str]
    """A sentence per group and policy: its difference from the baseline, and the confidence."""
    text: str
    """The text that ``lowmark run`` prints: the answers, tables, warnings."""
    rows: Table
    """Every figure of every cell compared with the baseline's, with interval, change and p."""

    def __str__(self) -> str:
        return self.text


class Result:
    """The results of a run: the files of its results folder, and tables of them."""

    def __init__(self, raw: _lowmark.Results) -> None:
        self._raw = raw

    @property
    def name(self) -> str:
        """Returns the experiment's name."""
        return self._raw.title

    @property
    def axes(self) -> list[str]:
        """Returns the keys of the experiment in which its cells differ."""
        return self._raw.axes

    @property
    def folder(self) -> Path | None:
        """Returns the results folder, if there is one."""
        return self._raw.folder

    @property
    def complete(self) -> bool:
        """Returns True if all iterations have finished."""
        return self._raw.complete

    @property
    def failed(self) -> str | None:
        """Returns the errors of failed iterations of this run, if any."""
        return self._raw.failed

    @cached_property
    def summary(self) -> Table:
        """Returns one row per cell and figure: n, mean, sd, min, median, max over the completed
        iterations."""
        return self.table("summary")

    @cached_property
    def iterations(self) -> Table:
        """Returns one row per iteration, with a column per figure."""
        return self.table("iterations")

    @cached_property
    def tasks(self) -> Table:
        """Returns the time of tasks by activity: one row per iteration and class of tasks."""
        return self.table("tasks")

    @cached_property
    def latency(self) -> Table:
        """Returns allocation latencies: one row per iteration and path."""
        return self.table("latency")

    @cached_property
    def rows(self) -> Table:
        """Returns the rows of mm reports: one row per cell and figure, compared with the baseline.
        """
        return self.table("rows")

    @cached_property
    def series(self) -> Table:
        """Returns time series of each cell's first iteration: one row per value."""
        return self.table("series")

    def table(self, name: str) -> Table:
        """Returns a table by its name."""
        return Table(self._raw.table(name))

    @cached_property
    def json(self) -> dict[str, Any]:
        """Returns the document ``results.json``."""
        document: dict[str, Any] = json.loads(self.files["results.json"])
        return document

    @property
    def files(self) -> Mapping[str, bytes]:
        """Returns the files of the results folder by path, with the same bytes as the command
        line's."""
        return _Files(self._raw)

    def compare(self) -> Comparison:
        """Returns which of the policies is better."""
        return Comparison(self._raw.answers(), self._raw.comparison, self.rows)

    def save(self, folder: str | PathLike[str], *, replace: bool = False) -> Path:
        """Writes the results folder, wholly or not at all."""
        return self._raw.save(folder, replace)

    def export(
        self,
        *,
        openmetrics: str | PathLike[str] | None = None,
        jsonl: str | PathLike[str] | None = None,
        parquet: str | PathLike[str] | None = None,
        replace: bool = False,
    ) -> None:
        """Exports to formats of other tools, as ``lowmark export`` does: a file of OpenMetrics, a
        folder of JSON lines, a folder of Parquet."""
        self._raw.export(openmetrics, jsonl, parquet, replace)

    def __repr__(self) -> str:
        where = f" in {self.folder}" if self.folder else ""
        return f"<lowmark.Result: {self.name}{where}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self._raw.comparison)}</pre>"


class _Files(Mapping[str, bytes]):
    def __init__(self, raw: _lowmark.Results) -> None:
        self._raw = raw

    def __getitem__(self, path: str) -> bytes:
        return self._raw.file(path)

    def __iter__(self) -> Any:
        return iter(self._raw.names())

    def __len__(self) -> int:
        return len(self._raw.names())


def load(folder: str | PathLike[str]) -> Result:
    """Reads the results in a folder that ``lowmark run`` or :meth:`Result.save` has written."""
    return Result(_lowmark.load(folder))
