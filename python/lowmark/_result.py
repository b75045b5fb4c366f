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

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """A table of results: Arrow's memory, for whoever takes ``__arrow_c_stream__``.

    ``polars.DataFrame(table)``, ``pyarrow.table(table)``, ``duckdb.from_arrow(pyarrow.table(table))`` and
    ``pandas.DataFrame.from_arrow(table)`` take it as it is.
    """

    def __init__(self, raw: _lowmark.Table) -> None:
        self._raw = raw

    @property
    def column_names(self) -> list[str]:
        """The names of its columns, with units in brackets."""
        return self._raw.column_names

    def __len__(self) -> int:
        return len(self._raw)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._raw.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """As pyarrow's table, without a copy."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """As polars' frame, without a copy of numbers."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """As pandas' frame."""
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
    """A sentence a group and policy: by how much it differs from the baseline, and how sure that is."""
    text: str
    """What ``lowmark run`` prints: the answers, tables, warnings."""
    rows: Table
    """Every figure of every cell against the baseline's, with interval, change and p."""

    def __str__(self) -> str:
        return self.text


class Result:
    """What a run gave: the files of its results folder, and tables of them."""

    def __init__(self, raw: _lowmark.Results) -> None:
        self._raw = raw

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self._raw.title

    @property
    def axes(self) -> list[str]:
        """Keys of the experiment in which its cells differ."""
        return self._raw.axes

    @property
    def folder(self) -> Path | None:
        """The results folder, if there is one."""
        return self._raw.folder

    @property
    def complete(self) -> bool:
        """Whether every iteration is in it."""
        return self._raw.complete

    @property
    def failed(self) -> str | None:
        """What iterations failed with, if any did in this run."""
        return self._raw.failed

    @cached_property
    def summary(self) -> Table:
        """A row a cell and figure: n, mean, sd, min, median, max over the iterations that completed."""
        return self.table("summary")

    @cached_property
    def iterations(self) -> Table:
        """A row an iteration, a column a figure."""
        return self.table("iterations")

    @cached_property
    def tasks(self) -> Table:
        """Where tasks' time went: a row an iteration and class of tasks."""
        return self.table("tasks")

    @cached_property
    def latency(self) -> Table:
        """Allocation latency: a row an iteration and path."""
        return self.table("latency")

    @cached_property
    def rows(self) -> Table:
        """The rows of mm reports: a row a cell and figure, against the baseline."""
        return self.table("rows")

    @cached_property
    def series(self) -> Table:
        """Time series of each cell's first iteration: a row a value."""
        return self.table("series")

    def table(self, name: str) -> Table:
        """A table by its name."""
        return Table(self._raw.table(name))

    @cached_property
    def json(self) -> dict[str, Any]:
        """``results.json``."""
        document: dict[str, Any] = json.loads(self.files["results.json"])
        return document

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files of the results folder by their path in it, the same bytes as the command line's."""
        return _Files(self._raw)

    def compare(self) -> Comparison:
        """Which of its policies is better."""
        return Comparison(self._raw.answers(), self._raw.comparison, self.rows)

    def save(self, folder: str | PathLike[str], *, replace: bool = False) -> Path:
        """Writes its results folder, whole or not at all."""
        return self._raw.save(folder, replace)

    def export(
        self,
        *,
        openmetrics: str | PathLike[str] | None = None,
        jsonl: str | PathLike[str] | None = None,
        parquet: str | PathLike[str] | None = None,
        replace: bool = False,
    ) -> None:
        """Writes it in the forms of other tools, as ``lowmark export`` does: a file of OpenMetrics, a folder of JSON
        lines, one of Parquet."""
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
    """The results in a folder that ``lowmark run`` or :meth:`Result.save` has written."""
    return Result(_lowmark.load(folder))
