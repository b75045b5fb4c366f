"""Miss-ratio curves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

from . import _lowmark
from ._error import whole, wrong
from ._result import Table

Trace: TypeAlias = str | PathLike[str] | Iterable[Any]
"""A trace file, or keys: an array of whole numbers from numpy, pyarrow, polars or pandas, a list,
any iterable."""


class Policy(Protocol):
    """An eviction policy in Python, for experiments. It is made with the number of its slots.

    A slot is in the policy from :meth:`admit` until :meth:`evict` returns it. ``object`` is the
    number of the requested object, from 0, in the order of first requests. A method
    ``miss(object)`` is optional: it is called before space is made for an object that is not in the
    cache.
    """

    def __init__(self, slots: int) -> None: ...

    def admit(self, slot: int, object: int) -> None:
        """A page of ``object`` was read into ``slot``."""

    def access(self, slot: int) -> None:
        """The page in ``slot`` was used."""

    def evict(self) -> int:
        """Removes a slot, whose page is to be evicted, and returns it."""

    def remove(self, slot: int) -> None:
        """The page in ``slot`` was deleted; only traces with deletions call this."""


@dataclass(frozen=True)
class Curves:
    """Miss ratios by policy and size."""

    table: Table
    """One row per policy and size."""
    json: dict[str, Any]
    """The document of ``lowmark mrc --json``."""
    text: str
    """The output of ``lowmark mrc``."""

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
    """Returns how misses depend on cache size and policy.

    ``trace`` is a file, or keys, each of which is a request for one page: whole numbers from 0 on,
    in an array from numpy, pyarrow, polars or pandas, in a list, in any iterable. An array of
    64-bit numbers is read in place. ``sizes`` are pages, ``[1000, 2000]`` or ``"1000..100000:50"``,
    per cent of the requested objects, ``"10%"``, or for a file also bytes, ``"512MiB"``. ``policy``
    is a name of ``lowmark policies``, several of them, ``"all"``, or a class written in Python
    (:class:`Policy`), which is some hundred times slower.
    """
    whole("jobs", jobs, 1)
    path, keys = _trace(trace)
    text = sizes if isinstance(sizes, str) else ",".join(str(int(n)) for n in sizes)
    own = policy if isinstance(policy, type) else None
    if own is not None and (writes or sample is not None):
        raise wrong(f"a policy in Python ({own.__name__}) has no sample and no writes; accepted: neither")
    names = ["lru"] if own else [policy] if isinstance(policy, str) else list(policy)  # type: ignore[arg-type]
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
    if own is not None:
        return _own(own.__name__, _lowmark.misses(own, path, keys, _sizes(path, keys, options), options))
    table, shown, document = _lowmark.mrc(path, keys, options)
    return Curves(Table(table), json.loads(document), shown)


def _trace(trace: Trace) -> tuple[str | PathLike[str] | None, object]:
    if isinstance(trace, (str, PathLike)):
        return trace, None
    if hasattr(trace, "__arrow_c_array__") or hasattr(trace, "__arrow_c_stream__"):
        return None, _arrow(trace)
    try:
        view = memoryview(trace)  # type: ignore[arg-type]
    except TypeError:
        return None, _one_by_one(trace)
    if view.ndim != 1:
        raise wrong(f"an array of {view.ndim} dimensions; accepted: one key after the other")
    if view.format.lstrip("@=<>") not in tuple("bBhHiIlLqQnN"):
        raise wrong(f"an array of `{view.format}`; accepted: whole numbers")
    return None, trace


def _one_by_one(trace: Iterable[Any]) -> object:
    array = getattr(trace, "__array__", None)
    if not callable(array):
        return trace if isinstance(trace, (list, tuple)) else list(trace)
    import numpy

    return _trace(numpy.asarray(trace))[1]


def _arrow(trace: Any) -> memoryview:
    """Returns the numbers of an Arrow array without a copy."""
    import pyarrow

    stream = hasattr(trace, "__arrow_c_stream__")
    try:
        array = pyarrow.chunked_array(trace) if stream else pyarrow.array(trace)
    except (pyarrow.ArrowException, TypeError, ValueError) as e:
        raise wrong(f"{type(trace).__name__}: {e}; accepted: one column") from None
    if not pyarrow.types.is_integer(array.type) or array.null_count:
        nulls = f" with {array.null_count} nulls" if array.null_count else ""
        raise wrong(f"keys of {array.type}{nulls}; accepted: whole numbers")
    if array.type not in (pyarrow.uint64(), pyarrow.int64()):
        array = array.cast(pyarrow.int64())
    if stream:
        array = array.chunk(0) if array.num_chunks == 1 else pyarrow.concat_arrays(array.chunks)
    kind: Literal["q", "Q"] = "Q" if array.type == pyarrow.uint64() else "q"
    if not len(array):
        return memoryview(b"").cast(kind)
    return memoryview(array.buffers()[1]).cast("B").cast(kind)[array.offset : array.offset + len(array)]


def _sizes(path: str | PathLike[str] | None, keys: object, options: _Options) -> list[int]:
    """Returns the sizes of a curve to which the extension resolves ranges and shares."""
    if all(n.strip().isdecimal() for n in options.sizes.split(",")):
        return [int(n) for n in options.sizes.split(",")]
    _, _, document = _lowmark.mrc(path, keys, options)
    return [point["size"] for point in json.loads(document)["curves"][0]["points"]]


class _Raw:
    """A table made by pyarrow, with the interface of the extension's tables."""

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
