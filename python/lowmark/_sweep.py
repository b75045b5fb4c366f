"""Many cells, each once: on this machine or on a Ray cluster, with their results under the digest of all that they
depend on."""

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
from ._run import Bar, Experiment, Given, How, given, looked_at, revision

Axes = Mapping[str, Iterable[Any]]

_FORM = 1
"""Of what is stored; another number is another store."""
RETRIES = 3
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
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url)
            self._fs.makedirs(self._root, exist_ok=True)
        except Exception as e:  # stores of all kinds, each with errors of its own
            raise failed(
                f"the store `{url}` can't be used: {_said(e)}; accepted: a folder, or a URL of fsspec's"
            ) from None

    def has_place(self, executor: str) -> None:
        """Holds that whoever runs cells sees the same store."""
        if executor != "local" and "memory" in _protocols(self._fs):
            raise wrong(f"`{self.url}` lies in this process alone; accepted: a store that every worker sees")

    def path(self, key: str) -> str:
        """The file of a key."""
        return f"{self._root.rstrip('/')}/{key[:2]}/{key}.parquet"

    def has(self, key: str) -> bool:
        """Whether a cell is there."""
        return bool(self._fs.exists(self.path(key)))

    def put(self, key: str, content: bytes) -> None:
        """Puts a cell there."""
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
        """A cell's bytes."""
        try:
            content: bytes = self._fs.cat_file(self.path(key))
        except Exception as e:
            raise failed(f"a cell can't be read from the store `{self.url}`: {_said(e)}") from None
        return content

    def table(self, key: str) -> Any:
        """A cell as pyarrow's table."""
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
    """A file under its name at once and whole. Where the filesystem has files without names, a writer that is killed
    leaves nothing."""
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
            # With a folder of its own `os.link` follows the link that names the file.
            os.link(f"/proc/self/fd/{file.fileno()}", os.path.basename(path), dst_dir_fd=there, follow_symlinks=True)
        except FileExistsError:
            pass  # another writer of this cell, with the same bytes
        finally:
            os.close(there)


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
        raise failed(raw.failed)
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


Progress = Callable[[int, int], object]


def _plain(value: Any) -> Any:
    """A value as Python has it: numpy's scalars are others."""
    item = getattr(value, "item", None)
    return item() if callable(item) and not isinstance(value, (list, tuple, Mapping)) else value


class Points(Sequence[dict[str, Any]]):
    """The settings of each cell, the last axis fastest: made when they are asked for, as there may be 10⁶."""

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
        """Places of points in which every value of every axis is met, but for those of seeds."""
        step = 1
        for axis, values in reversed(self._axes.items()):
            if axis != "seed":
                yield from range(step, step * len(values), step)
            step *= len(values)

    def __len__(self) -> int:
        return math.prod(len(values) for values in self._axes.values())

    def values(self, axis: str) -> list[Any]:
        """What an axis is to have."""
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
    """The points of several after each other; all have the same axes."""

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
    """How much is done at once."""

    workers: int | None
    batch: int | None
    in_flight: int | None
    retries: int

    def size(self, cells: int) -> int:
        """Cells of a batch."""
        return self.batch or max(1, min(16, cells // 64))


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

    def batches(self, cells: range | None = None) -> Iterator[Any]:
        """The cells' results one by one (of all, or of some by number), each a pyarrow table with the axes in its first
        columns."""
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
        """All results in one pyarrow table, or those of some cells: a row an iteration; a figure that a cell lacks is
        null."""
        import pyarrow

        tables = list(self.batches(cells))
        if not tables:
            return pyarrow.table({})
        return pyarrow.concat_tables(tables, promote_options="permissive")

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
    retries: int = RETRIES,
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
    """Has every point run that is not in the store."""
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
    # What is wrong with a value is said before anything runs.
    key(tasks[0])
    for number in points.each_value():
        tasks.memory([tasks[number]])
    digests = bytearray(32 * len(points))
    done = ran = 0
    # Closed at once, whatever is raised here, so that nothing goes on behind it.
    with contextlib.closing(engine(tasks, url, limits)) as finished:
        for some in finished:
            for one in some:
                digests[32 * one.number : 32 * one.number + 32] = bytes.fromhex(one.key)
                ran += one.ran
            done += len(some)
            bar(done, len(points))
    return Sweep(points, digests, ran, place, time.monotonic() - begun)


def _fixed(base: Given) -> Given:
    """An experiment's file as its text, so that all cells are of what it says now, wherever they are run."""
    if base.text is not None or not base.name.is_file():
        return base
    with contextlib.suppress(OSError, UnicodeDecodeError):  # which reading it says better
        return replace(base, text=base.name.read_text(encoding="utf-8"), name=base.name.resolve())
    return base


_Finished = Generator[list[Stored], None, None]


class _Tasks:
    """The tasks of a sweep, made when they are asked for."""

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
        """All of them, some at a time."""
        for first in range(0, len(self), size):
            yield [self[n] for n in range(first, min(first + size, len(self)))]

    def memory(self, batch: list[Task]) -> int:
        """The memory that the largest run of some cells is estimated to take, which is the same for all seeds."""
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
    """Threads of this process: runs do not hold the interpreter's lock."""
    workers = limits.workers or len(os.sched_getaffinity(0))
    most = limits.in_flight or 4 * workers
    # Each run looks for itself whether it fits; together they have to.
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
                # Not for ever, so that Ctrl-C is heard.
                for future in wait(flying, 0.2, FIRST_COMPLETED).done:
                    del flying[future]
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


def _ray(tasks: _Tasks, url: str, limits: Limits) -> _Finished:
    """Workers of a Ray cluster."""
    try:
        import ray
    except ImportError:
        raise wrong("executor=\"ray\" needs Ray; accepted: pip install 'lowmark[ray]'") from None
    if not ray.is_initialized():
        # Ray's own choice is 15: beside anything else on the machine its workers would hardly run.
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
                        # What a cell itself raises would be raised again.
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
    """What a task asks for: a round number, as Ray has a queue for each."""
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
"""What runs cells, by its name."""


def _bar(progress: Progress | bool | None) -> Progress:
    if progress is None:
        progress = looked_at()
    if not isinstance(progress, bool):
        return progress
    return Bar("cells") if progress else lambda done, total: None
