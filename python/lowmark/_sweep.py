"""Many cells, each once: on this machine or on a Ray cluster, with their results under the digest of all that they
depend on."""

from __future__ import annotations

import json
import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from hashlib import sha256
from os import PathLike
from typing import Any, Literal, overload

from . import _lowmark, _toml
from ._run import Bar, Experiment, Given, How, given, looked_at, revision

Axes = Mapping[str, Sequence[Any]]

_FORM = 1
"""Of what is stored; another number is another store."""
_RETRIES = 3
"""Times that a cell is begun anew when its worker dies."""


@dataclass(frozen=True)
class Task:
    """A cell as a worker takes it: nothing but text and numbers."""

    number: int
    given: Given
    build: str


@dataclass(frozen=True)
class Stored:
    """Where a cell's result is."""

    number: int
    key: str
    ran: bool
    """Whether it was run for this; otherwise it was there."""


class Store:
    """A folder or an object store of cells, each a Parquet file under its key.

    A file comes under its name at once and whole: written beside it and renamed, or by one put where the store has
    no renames. Two writers of one cell write the same bytes.
    """

    def __init__(self, url: str) -> None:
        import fsspec

        self.url = url
        self._fs, self._root = fsspec.core.url_to_fs(url)
        self._fs.makedirs(self._root, exist_ok=True)

    def path(self, key: str) -> str:
        """The file of a key."""
        return f"{self._root.rstrip('/')}/{key[:2]}/{key}.parquet"

    def has(self, key: str) -> bool:
        """Whether a cell is there."""
        return bool(self._fs.exists(self.path(key)))

    def put(self, key: str, content: bytes) -> None:
        """Puts a cell there."""
        path = self.path(key)
        self._fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        if not _is_local(self._fs):
            self._fs.pipe_file(path, content)
            return
        part = f"{path}.{uuid.uuid4().hex}.part"
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)

    def get(self, key: str) -> bytes:
        """A cell's bytes."""
        content: bytes = self._fs.cat_file(self.path(key))
        return content


def _is_local(fs: Any) -> bool:
    protocol = fs.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def key(task: Task) -> str:
    """What a cell's result is stored under: the digest of all that it depends on, on any machine."""
    _, _, identity, _ = _lowmark.inspect(task.given, task.build)
    return sha256(f"lowmark sweep {_FORM}\n{identity}".encode()).hexdigest()


def content(task: Task, name: str, stop: _lowmark.Stop | None = None) -> bytes:
    """Runs a cell; its result as Parquet, the same bytes wherever it runs."""
    import pyarrow
    import pyarrow.parquet

    how = How(1, None, None, None, False, 60, task.build, stop)
    raw = _lowmark.run(task.given, how, None)
    if raw.failed is not None:
        raise _raised(raw.failed, 1)
    table = pyarrow.table(raw.table("iterations"))
    about = {"lowmark": _FORM, "key": name, "experiment": raw.title, "axes": raw.axes}
    sink = pyarrow.BufferOutputStream()
    # A row or a few with a hundred columns: what else stands beside a column is longer than its values.
    with pyarrow.parquet.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        store_schema=False,
        write_statistics=False,
        use_dictionary=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"lowmark": json.dumps(about)})
    done: bytes = sink.getvalue().to_pybytes()
    return done


def work(task: Task, url: str, stop: _lowmark.Stop | None = None) -> Stored:
    """Runs a cell if it is not there, and puts it there: all that a worker does."""
    if revision() != task.build:
        raise _lowmark.Error(
            "a worker has another build of lowmark than the driver; accepted: the same wheel on all machines"
        )
    store = _store(url)
    name = key(task)
    if store.has(name):
        return Stored(task.number, name, False)
    store.put(name, content(task, name, stop))
    return Stored(task.number, name, True)


_stores: dict[str, Store] = {}


def _store(url: str) -> Store:
    if url not in _stores:
        _stores[url] = Store(url)
    return _stores[url]


def _several(
    tasks: list[Task], url: str, stop: _lowmark.Stop | None = None
) -> list[Stored]:
    """Some cells after each other: what one task of the engine does, so that its cost is shared."""
    return [work(task, url, stop) for task in tasks]


def _told(tasks: list[Task], url: str) -> list[Stored] | tuple[str, int]:
    """As :func:`_several`; an error is a value, for Ray wraps what is raised into words of its own."""
    try:
        return _several(tasks, url)
    except _lowmark.Error as e:
        return str(e), getattr(e, "code", 1)


def _raised(message: str, code: int) -> _lowmark.Error:
    error = _lowmark.Error(message)
    error.code = code
    return error


Progress = Callable[[int, int], object]


class Points(Sequence[dict[str, Any]]):
    """The settings of each cell, the last axis fastest: made when they are asked for, as there may be 10⁶."""

    def __init__(self, axes: Axes, seeds: int | Sequence[int] | None) -> None:
        self._axes = {str(k): list(v) for k, v in axes.items()}
        if seeds is not None:
            self._axes["seed"] = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)

    def __len__(self) -> int:
        return math.prod(len(values) for values in self._axes.values())

    @overload
    def __getitem__(self, number: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, number: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, number: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        rest = range(len(self))[number]
        point: dict[str, Any] = {}
        for axis, values in reversed(self._axes.items()):
            rest, place = divmod(rest, len(values))
            point[axis] = values[place]
        return {axis: point[axis] for axis in self._axes}


class Sweep:
    """A sweep that has been run: its cells and their results."""

    def __init__(
        self, points: Points, digests: bytearray, ran: int, store: Store, seconds: float
    ) -> None:
        self._digests = digests
        self.points = points
        """The settings of each cell, in the order of the axes."""
        self.store = store
        """Where they are."""
        self.ran = ran
        """How many cells were run for this sweep; the others were there."""
        self.seconds = seconds
        """Wall time."""

    @property
    def keys(self) -> list[str]:
        """What each cell is stored under."""
        return [self.key(number) for number in range(len(self))]

    def key(self, number: int) -> str:
        """What a cell is stored under."""
        return self._digests[32 * number : 32 * number + 32].hex()

    def __len__(self) -> int:
        return len(self.points)

    def batches(self) -> Iterator[Any]:
        """The cells' results one by one, each a pyarrow table with the axes in its first columns."""
        import pyarrow
        import pyarrow.parquet

        for number, point in enumerate(self.points):
            content = pyarrow.BufferReader(self.store.get(self.key(number)))
            table = pyarrow.parquet.read_table(content)
            for i, (axis, value) in enumerate(point.items()):
                plain = value if isinstance(value, (int, float, str, bool)) else _toml.value(value)
                column = pyarrow.array([plain] * table.num_rows)
                if axis in table.column_names:
                    table = table.drop_columns([axis])
                table = table.add_column(i, axis, column)
            yield table.replace_schema_metadata(None)

    def to_arrow(self) -> Any:
        """All results in one pyarrow table: a row an iteration; a figure that a cell lacks is null."""
        import pyarrow

        return pyarrow.concat_tables(list(self.batches()), promote_options="permissive")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """All results as pandas' frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All results as polars' frame."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def __repr__(self) -> str:
        return f"<lowmark.Sweep: {len(self)} cells, {self.ran} of them run, in {self.store.url}>"


def sweep(
    experiment: Experiment,
    axes: Axes,
    *,
    executor: Literal["local", "ray"] = "local",
    store: str | PathLike[str] = "sweep",
    seeds: int | Sequence[int] | None = None,
    iterations: int | None = None,
    workers: int | None = None,
    batch: int | None = None,
    in_flight: int | None = None,
    retries: int = _RETRIES,
    progress: Progress | bool | None = None,
) -> Sweep:
    """Runs an experiment once for each combination of settings.

    ``axes`` are keys of the experiment with the values that each is to have, as ``--set`` takes them:
    ``{"machine.cpus": [1, 2], "policies.mine.swappiness": [0, 60]}``; ``seeds`` adds one of seeds. What an
    experiment's own text varies stays inside a cell.

    A cell is a pure function of what its key is the digest of: the experiment as it is when its machines, policies
    and job files are read, its settings and seed, the contents of traces, root folders and kernel images, and the
    revision of lowmark. Its result is a Parquet file under that key in ``store``, a folder or a URL of fsspec's.
    So a sweep that was broken off goes on when it is called again, and two sweeps share cells.

    ``executor="ray"`` runs on the cluster that ``ray.init`` has connected to, or on one of this machine. A task
    asks for one CPU and the memory that the run is estimated to take, runs ``batch`` cells, and is begun again
    elsewhere when its worker dies, at most ``retries`` times. At most ``in_flight`` tasks are under way, so that
    the driver's memory does not grow with the sweep. ``store`` must be one that every machine sees.
    """
    begun = time.monotonic()
    url = str(store) if "://" in str(store) else os.path.abspath(os.fspath(store))
    place = Store(url)
    points = Points(axes, seeds)
    base = given(experiment, iterations=iterations)
    if base.text is None:
        base = replace(base, name=base.name.resolve())
    tasks = _Tasks(base, points)
    bar = _bar(progress)
    if not points:
        return Sweep(points, bytearray(), 0, place, 0.0)
    # One cell tells of wrong settings before anything runs, and what a run takes.
    _, _, _, memory = _lowmark.inspect(tasks[0].given, revision())
    digests = bytearray(32 * len(points))
    engine = {"local": _local, "ray": _ray}.get(executor)
    if engine is None:
        raise ValueError(f'executor={executor!r}; accepted: "local", "ray"')
    size = batch or max(1, min(16, len(points) // 64))
    done = ran = 0
    for some in engine(tasks, url, _Limits(workers, size, in_flight, retries, memory)):
        for one in some:
            digests[32 * one.number : 32 * one.number + 32] = bytes.fromhex(one.key)
            ran += one.ran
        done += len(some)
        bar(done, len(points))
    return Sweep(points, digests, ran, place, time.monotonic() - begun)


@dataclass(frozen=True)
class _Limits:
    workers: int | None
    batch: int
    in_flight: int | None
    retries: int
    memory: int


class _Tasks:
    """The tasks of a sweep, made when they are asked for."""

    def __init__(self, base: Given, points: Points) -> None:
        self._base, self._points, self._build = base, points, revision()

    def __len__(self) -> int:
        return len(self._points)

    def __getitem__(self, number: int) -> Task:
        point = self._points[number]
        seed = point.pop("seed", None)
        settings = [f"{k}={_toml.value(v)}" for k, v in point.items()]
        cell = replace(self._base, set=[*self._base.set, *settings], seed=seed)
        return Task(number, cell, self._build)

    def batches(self, size: int) -> Iterator[list[Task]]:
        """All of them, some at a time."""
        for first in range(0, len(self), size):
            yield [self[n] for n in range(first, min(first + size, len(self)))]


def _local(tasks: _Tasks, url: str, limits: _Limits) -> Iterator[list[Stored]]:
    """Threads of this process: runs do not hold the interpreter's lock."""
    cores = len(os.sched_getaffinity(0))
    # Each run looks for itself whether it fits; together they have to.
    fit = int(0.9 * _available()) // max(limits.memory, 1)
    workers = limits.workers or max(1, min(cores, fit))
    most = limits.in_flight or 4 * workers
    waiting = tasks.batches(limits.batch)
    stop = _lowmark.Stop()
    flying: set[Future[list[Stored]]] = set()
    with ThreadPoolExecutor(workers, "lowmark") as pool:
        try:
            while True:
                while len(flying) < most and (batch := next(waiting, None)) is not None:
                    flying.add(pool.submit(_several, batch, url, stop))
                if not flying:
                    return
                # Not for ever, so that Ctrl-C is heard.
                ready, flying = wait(flying, 0.2, FIRST_COMPLETED)
                for future in ready:
                    yield future.result()
        finally:
            # After an exception: what has not begun does not, what runs ends.
            stop.set()
            for future in flying:
                future.cancel()


def _available() -> int:
    """Bytes of memory that this machine has left."""
    with open("/proc/meminfo") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["MemAvailable"].split()[0]) << 10


def _ray(tasks: _Tasks, url: str, limits: _Limits) -> Iterator[list[Stored]]:
    """Workers of a Ray cluster."""
    import ray

    if not ray.is_initialized():
        ray.init(
            num_cpus=limits.workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
        )
    cpus = int(ray.cluster_resources().get("CPU", 1))
    most = limits.in_flight or 4 * max(cpus, 1)
    largest = max((node["Resources"].get("memory", 0) for node in ray.nodes() if node["Alive"]), default=0)
    if limits.memory > largest:
        # Ray would wait for such a machine to join.
        raise _raised(
            f"a run takes up to {limits.memory >> 20} MiB of memory, and no machine of the cluster has more than "
            f"{int(largest) >> 20} MiB; accepted: a smaller machine, or a larger one in the cluster",
            2,
        )
    run = ray.remote(_told).options(
        num_cpus=1,
        memory=limits.memory,
        max_retries=limits.retries,
        # What a cell itself raises would be raised again.
        retry_exceptions=False,
    )
    waiting = tasks.batches(limits.batch)
    flying: list[Any] = []
    try:
        while True:
            while len(flying) < most and (batch := next(waiting, None)) is not None:
                flying.append(run.remote(batch, url))
            if not flying:
                return
            ready, flying = ray.wait(flying, num_returns=1)
            for one in ready:
                done: list[Stored] | tuple[str, int] = ray.get(one)
                if isinstance(done, tuple):
                    raise _raised(*done)
                yield done
    finally:
        for one in flying:
            ray.cancel(one, force=True)


def _bar(progress: Progress | bool | None) -> Progress:
    if progress is None:
        progress = looked_at()
    if not isinstance(progress, bool):
        return progress
    return Bar("cells") if progress else lambda done, total: None
