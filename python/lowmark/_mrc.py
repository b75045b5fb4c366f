"""Miss-ratio curves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol, TypeAlias

from . import _lowmark
from ._result import Table

Trace: TypeAlias = str | PathLike[str] | Iterable[int]


class Policy(Protocol):
    """An eviction policy in Python, for trying out. It is made with the number of its slots.

    A slot is in the policy from :meth:`admit` until :meth:`evict` returns it. ``object`` numbers what is asked for,
    from 0, in the order of first requests. A method ``miss(object)`` is optional: it is called before room is made
    for an object that is not there.
    """

    def __init__(self, slots: int) -> None: ...

    def admit(self, slot: int, object: int) -> None:
        """A page of ``object`` has been brought into ``slot``."""

    def access(self, slot: int) -> None:
        """The page in ``slot`` has been used."""

    def evict(self) -> int:
        """Takes out the slot whose page should leave."""

    def remove(self, slot: int) -> None:
        """The page in ``slot`` is gone for another reason; only traces with deletions call this."""


@dataclass(frozen=True)
class Curves:
    """Miss ratios by policy and size."""

    table: Table
    """A row a policy and size."""
    json: dict[str, Any]
    """As ``lowmark mrc --json``."""
    text: str
    """As ``lowmark mrc`` prints it."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Options:
    sizes: str
    policies: list[str]
    sample: str | None
    format: str | None
    unit: str
    lenient: bool
    ignore_size: bool
    writes: tuple[float, float, float] | None
    jobs: int | None


def mrc(
    trace: Trace,
    sizes: str | Sequence[int],
    policy: str | Sequence[str] | type[Policy] = "lru",
    *,
    sample: str | None = None,
    writes: bool = False,
    dirty_limit: float = 20.0,
    dirty_background: float = 10.0,
    write_rate: float = 100.0,
    format: str | None = None,
    unit: str = "auto",
    lenient: bool = False,
    ignore_size: bool = False,
    jobs: int | None = None,
) -> Curves:
    """How misses depend on the cache's size and policy.

    ``trace`` is a file, or an array of keys (numpy's, a list, any iterable of whole numbers from 0 on): each is a
    request for one page. ``sizes`` are pages, ``[1000, 2000]`` or ``"1000..100000:50"``, per cent of what is asked
    for, ``"10%"``, or of a file also bytes, ``"512MiB"``. ``policy`` is a name of
    ``lowmark policies``, several of them, ``"all"``, or a class written in Python (:class:`Policy`), which is some
    hundred times slower.
    """
    path, keys = _trace(trace)
    text = sizes if isinstance(sizes, str) else ",".join(str(int(n)) for n in sizes)
    if isinstance(policy, type):
        listed = all(n.strip().isdecimal() for n in text.split(","))
        plain = [int(n) for n in text.split(",")] if listed else _sizes(trace if path is not None else keys, text)
        points = _lowmark.misses(policy, path, keys, plain)
        return _own(policy.__name__, points)
    names = [policy] if isinstance(policy, str) else list(policy)
    options = _Options(
        text,
        names,
        sample,
        format,
        unit,
        lenient,
        ignore_size,
        (dirty_limit, dirty_background, write_rate) if writes else None,
        jobs,
    )
    table, shown, document = _lowmark.mrc(path, keys, options)
    return Curves(Table(table), json.loads(document), shown)


def _trace(trace: Trace) -> tuple[str | PathLike[str] | None, object]:
    if isinstance(trace, (str, PathLike)):
        return trace, None
    try:
        memoryview(trace)  # type: ignore[arg-type]
    except TypeError:
        return None, list(trace)
    return None, trace


def _sizes(trace: Any, text: str) -> list[int]:
    """What the extension makes of ranges and shares: the sizes of a curve."""
    curves = mrc(trace, text, "lru")
    return [point["size"] for point in curves.json["curves"][0]["points"]]


class _Raw:
    """A table that pyarrow has made, where the extension's would be."""

    def __init__(self, table: Any) -> None:
        self._table = table

    @property
    def column_names(self) -> list[str]:
        names: list[str] = self._table.column_names
        return names

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def _own(name: str, points: list[tuple[int, int, int]]) -> Curves:
    import pyarrow

    rows = [
        {"policy": name, "pages": s, "requests": r, "misses": m, "miss_ratio": m / r if r else 0.0}
        for s, r, m in points
    ]
    table = Table(_Raw(pyarrow.Table.from_pylist(rows)))  # type: ignore[arg-type]
    text = "".join(f"{r['pages']:>12} {r['miss_ratio']:.6f}\n" for r in rows)
    document = {
        "requests": points[0][1] if points else 0,
        "curves": [
            {
                "policy": name,
                "points": [
                    {"size": r["pages"], "misses": r["misses"], "miss_ratio": r["miss_ratio"]}
                    for r in rows
                ],
            }
        ],
    }
    return Curves(table, document, f"miss ratio of {name}\n{text}")
