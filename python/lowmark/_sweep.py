"""Runs many cells, each once: on this machine or on a Ray cluster, with results stored under the
digest of all inputs."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from hashlib import sha256
from os import PathLike
from typing import Any, Literal, overload

from . import _lowmark, _toml
from ._error import failed, whole, wrong
from ._result import polars_frame
from ._run import Bar, Experiment, Given, How, given, looked_at, revision

Axes = Mapping[str, Iterable[Any]]

_FORM = 1
"""The format of stored cells; another number means another store."""
RETRIES = 3
"""How often a cell is started again after its worker died."""


@dataclass(frozen=True)
class Task:
    """A cell in the form that a worker takes: text and numbers only."""

    number: int
    given: Given
    build: str


@dataclass(frozen=True)
class Stored:
    """The place of a cell's result."""

    number: int
    key: str
    ran: bool
    """True if it was run for this sweep; False if the store already had it."""


class Store:
    """A folder or an object store of cells, each a Parquet file named by its key.

    A file appears under its name whole: it is written beside it and renamed, or put in one step if
    the store has no renames. Two writers of a cell write the same bytes.
    """

    def __init__(self, url: str) -> None:
        import fsspec

        self.url = url
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url)
            self._fs.makedirs(self._root, exist_ok=True)
        except Exception as e:  # stores of all kinds, each with errors of its own
            raise failed(
                f"the store `{url}` can't be used: {_said(e)}; accepted: a folder, or a URL of fsspec's"
            ) from None

    def has_place(self, executor: str) -> None:
        """Checks that the workers of the executor see the same store."""
        if executor != "local" and "memory" in _protocols(self._fs):
            raise wrong(f"`{self.url}` lies in this process alone; accepted: a store that every worker sees")

    def path(self, key: str) -> str:
        """Returns the file of a key."""
        return f"{self._root.rstrip('/')}/{key[:2]}/{key}.parquet"

    def has(self, key: str) -> bool:
        """Returns True if the store has a cell."""
        return bool(self._fs.exists(self.path(key)))

    def put(self, key: str, content: bytes) -> None:
        """Stores a cell."""
        path = self.path(key)
        try:
            self._fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            if "file" in _protocols(self._fs):
                _put_file(path, content)
            else:
                self._fs.pipe_file(path, content)
        except Exception as e:
            raise failed(f"a cell can't be put into the store `{self.url}`: {_said(e)}") from None

    def get(self, key: str) -> bytes:
        """Returns a cell's bytes."""
        try:
            content: bytes = self._fs.cat_file(self.path(key))
        except Exception as e:
            raise failed(f"a cell can't be read from the store `{self.url}`: {_said(e)}") from None
        return content

    def table(self, key: str) -> Any:
        """Returns a cell as a pyarrow table."""
        import pyarrow
        import pyarrow.parquet

        content = pyarrow.BufferReader(self.get(key))
        try:
            return pyarrow.parquet.read_table(content)
        except (pyarrow.ArrowException, OSError) as e:
            raise failed(
                f"the cell `{self.path(key)}` is damaged: {_said(e)}; accepted: what a sweep wrote (without the "
                "file, the next sweep writes it again)"
            ) from None


def _said(e: Exception) -> str:
    return (str(e) or type(e).__name__).splitlines()[0]


def _protocols(fs: Any) -> tuple[str, ...]:
    protocol = fs.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _put_file(path: str, content: bytes) -> None:
    """Writes a file that appears under its name whole. If the filesystem supports unnamed files, a
    killed writer leaves no file."""
    folder = os.path.dirname(path)
    try:
        nameless = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError:
        part = f"{path}.{uuid.uuid4().hex}.part"
        try:
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        return
    with open(nameless, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # With a directory descriptor `os.link` follows the symlink that names the open file.
            os.link(f"/proc/self/fd/{file.fileno()}", os.path.basename(path), dst_dir_fd=there, follow_symlinks=True)
        except FileExistsError:
            pass  # another writer of this cell, with the same bytes
        finally:
            os.close(there)


def key(task: Task) -> str:
    """Returns the key of a cell's result: the digest of all inputs it depends on, the same on any
    machine."""
    _, _, identity, _ = _lowmark.inspect(task.given, task.build)
    return sha256(f"lowmark sweep {_FORM}\n{identity}".encode()).hexdigest()


def content(task: Task, name: str, stop: _lowmark.Stop | None = None) -> bytes:
    """Runs a cell and returns its result as Parquet, with the same bytes on any machine."""
    import pyarrow
    import pyarrow.parquet

    how = How(1, None, None, None, False, 60, task.build, stop)
    raw = _lowmark.run(task.given, how, None)
    if raw.failed is not None:
        raise failed(raw.failed)
    table = pyarrow.table(raw.table("iterations"))
    about = {"lowmark": _FORM, "key": name, "experiment": raw.title, "axes": raw.axes}
    sink = pyarrow.BufferOutputStream()
    # For a row or a few with a hundred columns, metadata per column would be longer than the
    # values.
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
    """Runs a cell unless the store has it, and stores it: the whole work of a worker."""
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
    """Runs several cells one after the other as one task of the executor, to share the task's
    overhead."""
    return [work(task, url, stop) for task in tasks]


def _told(tasks: list[Task], url: str) -> list[Stored] | tuple[str, int]:
    """Does the same as :func:`_several`, with errors as values, because Ray wraps exceptions in its
    own text."""
    try:
        return _several(tasks, url)
    except _lowmark.Error as e:
        return str(e), getattr(e, "code", 1)


Progress = Callable[[int, int], object]


def _plain(value: Any) -> Any:
    """Converts numpy's scalars to Python's values."""
    item = getattr(value, "item", None)
    return item() if callable(item) and not isinstance(value, (list, tuple, Mapping)) else value


class Points(Sequence[dict[str, Any]]):
    """The settings of each cell, the last axis fastest; made on demand, as there may be 10⁶."""

    def __init__(self, axes: Axes, seeds: int | Sequence[int] | None) -> None:
        for axis, values in axes.items():
            if isinstance(values, (str, bytes, Mapping)):
                raise wrong(f"the axis {axis} is {values!r}; accepted: a list of values")
        self._axes = {str(k): [_plain(v) for v in values] for k, values in axes.items()}
        if seeds is not None and "seed" in self._axes:
            raise wrong("`seed` is an axis, and there are `seeds`; accepted: one of the two")
        if seeds is not None:
            if isinstance(seeds, int):
                whole("seeds", seeds, 1)
            self._axes["seed"] = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
        for seed in self._axes.get("seed", []):
            whole("seed", seed, 0)

    def each_value(self) -> Iterator[int]:
        """Yields indices of points that together contain every value of every axis, except seeds.
        """
        step = 1
        for axis, values in reversed(self._axes.items()):
            if axis != "seed":
                yield from range(step, step * len(values), step)
            step *= len(values)

    def __len__(self) -> int:
        return math.prod(len(values) for values in self._axes.values())

    def values(self, axis: str) -> list[Any]:
        """Returns the values of an axis."""
        return self._axes[axis]

    @overload
    def __getitem__(self, number: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, number: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, number: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        return self._point(range(len(self))[number])

    def _point(self, rest: int) -> dict[str, Any]:
        point: dict[str, Any] = {}
        for axis, values in reversed(self._axes.items()):
            rest, place = divmod(rest, len(values))
            point[axis] = values[place]
        return {axis: point[axis] for axis in self._axes}


class Several(Points):
    """Several sets of points, one after the other; all have the same axes."""

    def __init__(self, parts: Sequence[Points]) -> None:
        self._parts = parts
        self._axes = {}
        for part in parts:
            for axis, values in part._axes.items():
                self._axes.setdefault(axis, []).extend(values)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def _point(self, number: int) -> dict[str, Any]:
        for part in self._parts:
            if number < len(part):
                return part._point(number)
            number -= len(part)
        raise IndexError(number)

    def each_value(self) -> Iterator[int]:
        first = 0
        for part in self._parts:
            yield from (first + number for number in (0, *part.each_value()))
            first += len(part)


@dataclass(frozen=True)
class Limits:
    """Limits on concurrent work."""

    workers: int | None
    batch: int | None
    in_flight: int | None
    retries: int

    def size(self, cells: int) -> int:
        """Returns the number of cells in a batch."""
        return self.batch or max(1, min(16, cells // 64))


class Sweep:
    """A finished sweep: its cells and their results."""

    def __init__(
        self, points: Points, digests: bytearray, ran: int, store: Store, seconds: float
    ) -> None:
        self._digests = digests
        self.points = points
        """The settings of each cell, in the order of the axes."""
        self.store = store
        """The store with the results."""
        self.ran = ran
        """The number of cells run for this sweep; the store had the others."""
        self.seconds = seconds
        """Wall time in seconds."""

    @property
    def keys(self) -> list[str]:
        """Returns the keys of all cells."""
        return [self.key(number) for number in range(len(self))]

    def key(self, number: int) -> str:
        """Returns the key of a cell."""
        return self._digests[32 * number : 32 * number + 32].hex()

    def __len__(self) -> int:
        return len(self.points)

    def batches(self, cells: range | None = None) -> Iterator[Any]:
        """Yields the results of all or some cells one by one, each a pyarrow table with the axes in
        its first columns."""
        import pyarrow

        as_text: set[str] = set()
        for axis in self.points[0] if self.points else ():
            kinds = {type(value) for value in self.points.values(axis)}
            if not (len(kinds) == 1 and kinds <= {int, float, str, bool} or kinds == {int, float}):
                as_text.add(axis)
        for number in range(len(self)) if cells is None else cells:
            point = self.points[number]
            table = self.store.table(self.key(number))
            for i, (axis, value) in enumerate(point.items()):
                if axis in as_text and not isinstance(value, str):
                    value = _toml.value(value)
                column = pyarrow.array([value] * table.num_rows)
                if axis in table.column_names:
                    table = table.drop_columns([axis])
                table = table.add_column(i, axis, column)
            yield table.replace_schema_metadata(None)

    def to_arrow(self, cells: range | None = None) -> Any:
        """Returns all results in one pyarrow table, or those of some cells: one row per iteration;
        a figure that a cell lacks is null."""
        import pyarrow

        tables = list(self.batches(cells))
        if not tables:
            return pyarrow.table({})
        return pyarrow.concat_tables(tables, promote_options="permissive")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Returns all results as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Returns all results as a polars frame.

        :raises Error: polars is not installed.
        """
        return polars_frame(self.to_arrow())

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
    retries: int = RETRIES,
    progress: Progress | bool | None = None,
) -> Sweep:
    """Runs an experiment once for each combination of settings.

    ``axes`` maps keys of the experiment to their values, in the syntax of ``--set``:
    ``{"machine.cpus": [1, 2], "policies.mine.swappiness": [0, 60]}``; ``seeds`` adds an axis of
    seeds. Axes that the experiment's text varies stay inside a cell.

    A cell is a pure function of the inputs whose digest is its key: the experiment with its
    machines, policies and job files, its settings and seed, the contents of traces, root folders
    and kernel images, and the revision of lowmark. Its result is a Parquet file with that key as
    name in ``store``, a folder or an fsspec URL. So an interrupted sweep continues when it is
    called again, and two sweeps share cells.

    ``executor="ray"`` runs on the cluster that ``ray.init`` has connected to, or on one of this
    machine. A task requests one CPU and the estimated memory of the run, runs ``batch`` cells, and
    is started again elsewhere if its worker dies, at most ``retries`` times. At most ``in_flight``
    tasks are pending, so that the driver's memory does not grow with the sweep. ``store`` must be
    visible to every machine.
    """
    return swept(
        given(experiment, iterations=iterations),
        Points(axes, seeds),
        executor,
        store,
        Limits(workers, batch, in_flight, retries),
        progress,
    )


def swept(
    base: Given,
    points: Points,
    executor: str,
    store: str | PathLike[str],
    limits: Limits,
    progress: Progress | bool | None,
) -> Sweep:
    """Runs all points that the store does not have."""
    begun = time.monotonic()
    for name, number in {
        "workers": limits.workers,
        "batch": limits.batch,
        "in_flight": limits.in_flight,
    }.items():
        whole(name, number, 1)
    whole("retries", limits.retries, 0)
    engine = _ENGINES.get(str(executor))
    if engine is None:
        raise wrong(f'executor={executor!r}; accepted: "local", "ray"')
    url = str(store) if "://" in str(store) else os.path.abspath(os.fspath(store))
    place = Store(url)
    place.has_place(executor)
    tasks = _Tasks(_fixed(base), points)
    bar = _bar(progress)
    if not points:
        return Sweep(points, bytearray(), 0, place, 0.0)
    # Wrong values are reported before anything runs.
    key(tasks[0])
    for number in points.each_value():
        tasks.memory([tasks[number]])
    digests = bytearray(32 * len(points))
    done = ran = 0
    # Closed at once on any exception, so that no run goes on in the background.
    with contextlib.closing(engine(tasks, url, limits)) as finished:
        for some in finished:
            for one in some:
                digests[32 * one.number : 32 * one.number + 32] = bytes.fromhex(one.key)
                ran += one.ran
            done += len(some)
            bar(done, len(points))
    return Sweep(points, digests, ran, place, time.monotonic() - begun)


def _fixed(base: Given) -> Given:
    """Replaces an experiment's file by its text, so that all cells use its present contents,
    wherever they run."""
    if base.text is not None or not base.name.is_file():
        return base
    with contextlib.suppress(OSError, UnicodeDecodeError):  # which reading it says better
        return replace(base, text=base.name.read_text(encoding="utf-8"), name=base.name.resolve())
    return base


_Finished = Generator[list[Stored], None, None]


class _Tasks:
    """The tasks of a sweep, made on demand."""

    def __init__(self, base: Given, points: Points) -> None:
        self._base, self._points, self._build = base, points, revision()
        self._memory: dict[tuple[str, ...], int] = {}

    def __len__(self) -> int:
        return len(self._points)

    def __getitem__(self, number: int) -> Task:
        point = self._points[number]
        seed = point.pop("seed", None)
        settings = [f"{k}={_toml.value(v)}" for k, v in point.items()]
        cell = replace(self._base, set=[*self._base.set, *settings], seed=seed)
        return Task(number, cell, self._build)

    def batches(self, size: int) -> Iterator[list[Task]]:
        """Yields all tasks in batches."""
        for first in range(0, len(self), size):
            yield [self[n] for n in range(first, min(first + size, len(self)))]

    def memory(self, batch: list[Task]) -> int:
        """Returns the estimated memory of the largest run among some cells, which is the same for
        all seeds."""
        most = 0
        for task in batch:
            settings = tuple(task.given.set)
            if settings not in self._memory:
                if len(self._memory) >= 4096:
                    self._memory.clear()
                self._memory[settings] = _lowmark.need(task.given)
            most = max(most, self._memory[settings])
        return most


def _local(tasks: _Tasks, url: str, limits: Limits) -> _Finished:
    """Runs in threads of this process: runs do not hold the interpreter's lock."""
    workers = limits.workers or len(os.sched_getaffinity(0))
    most = limits.in_flight or 4 * workers
    # Each run checks for itself whether it fits; the sum has to fit as well.
    room = int(0.9 * _available())
    waiting = tasks.batches(limits.size(len(tasks)))
    stop = _lowmark.Stop()
    flying: dict[Future[list[Stored]], int] = {}
    batch = next(waiting, None)
    with ThreadPoolExecutor(workers, "lowmark") as pool:
        try:
            while batch is not None or flying:
                while batch is not None and len(flying) < most:
                    memory = tasks.memory(batch)
                    if flying and sum(sorted([*flying.values(), memory])[-workers:]) > room:
                        break
                    flying[pool.submit(_several, batch, url, stop)] = memory
                    batch = next(waiting, None)
                # With a timeout, so that Ctrl-C is noticed.
                for future in wait(flying, 0.2, FIRST_COMPLETED).done:
                    del flying[future]
                    yield future.result()
        finally:
            # After an exception: batches not yet started are cancelled, running ones end.
            stop.set()
            for future in flying:
                future.cancel()


def _available() -> int:
    """Returns the bytes of memory that this machine has available."""
    with open("/proc/meminfo") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["MemAvailable"].split()[0]) << 10


def _ray(tasks: _Tasks, url: str, limits: Limits) -> _Finished:
    """Runs on the workers of a Ray cluster."""
    try:
        import ray
    except ImportError:
        raise wrong("executor=\"ray\" needs Ray; accepted: pip install 'lowmark[ray]'") from None
    if not ray.is_initialized():
        # Ray's default is 15, at which its workers would hardly run beside other processes.
        os.environ.setdefault("RAY_worker_niceness", "0")
        ray.init(
            num_cpus=limits.workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
        )
    cpus = int(ray.cluster_resources().get("CPU", 1))
    most = limits.in_flight or 4 * max(cpus, 1)
    run = ray.remote(_told)
    waiting = tasks.batches(limits.size(len(tasks)))
    kinds: dict[int, Any] = {}
    flying: list[Any] = []
    try:
        while True:
            while len(flying) < most and (batch := next(waiting, None)) is not None:
                memory = tasks.memory(batch)
                if memory not in kinds:
                    kinds[memory] = run.options(
                        num_cpus=1,
                        memory=_asked(ray, memory),
                        max_retries=limits.retries,
                        # Ray would retry exceptions that a cell raises itself.
                        retry_exceptions=False,
                    )
                flying.append(kinds[memory].remote(batch, url))
            if not flying:
                return
            ready, flying = ray.wait(flying, num_returns=1)
            for one in ready:
                try:
                    done: list[Stored] | tuple[str, int] = ray.get(one)
                except ray.exceptions.RayError as e:
                    raise failed(
                        f"Ray gave a task up after {limits.retries} retries: {_said(e)}; what is finished is in "
                        f"`{url}`; accepted: the same call, which goes on"
                    ) from None
                if isinstance(done, tuple):
                    raise failed(*done)
                yield done
    finally:
        for one in flying:
            ray.cancel(one, force=True)


def _asked(ray: Any, memory: int) -> int:
    """Returns the memory that a task requests: a round number, as Ray has a queue for each."""
    step = 1 << max(memory.bit_length() - 4, 20)
    rounded = -(-memory // step) * step
    largest = int(max((node["Resources"].get("memory", 0) for node in ray.nodes() if node["Alive"]), default=0))
    if memory > largest:
        # Ray would wait for such a machine to join.
        raise wrong(
            f"a run takes up to {memory >> 20} MiB of memory, and no machine of the cluster has more than "
            f"{largest >> 20} MiB; accepted: a smaller machine, or a larger one in the cluster"
        )
    return min(rounded, largest)


_ENGINES: dict[str, Callable[[_Tasks, str, Limits], _Finished]] = {"local": _local, "ray": _ray}
"""The executors, by name."""


def _bar(progress: Progress | bool | None) -> Progress:
    if progress is None:
        progress = looked_at()
    if not isinstance(progress, bool):
        return progress
    return Bar("cells") if progress else lambda done, total: None
