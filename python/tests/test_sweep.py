"""Sweeps: each cell is run once, whichever process dies, and gives the same bytes everywhere."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, Iterator

import lowmark
import numpy
import psutil
import pyarrow.parquet
import pytest

AXES = {"machine.cpus": [1, 2, 3]}


@pytest.fixture
def cell(small: dict[str, Any]) -> dict[str, Any]:
    return small | {"policy": "linux-3.1", "iterations": 1}


def stored(folder: Path) -> dict[str, bytes]:
    assert not list(folder.rglob("*.part"))
    return {path.name: path.read_bytes() for path in folder.rglob("*.parquet")}


def test_a_cell_is_what_a_run_gives(cell: dict[str, Any], tmp_path: Path) -> None:
    sweep = lowmark.sweep(cell, AXES, seeds=[4, 5], store=tmp_path / "s", workers=2)
    assert len(sweep) == sweep.ran == 6
    table = sweep.to_arrow()
    assert table.column_names[:2] == ["machine.cpus", "seed"]
    for row, point in enumerate(sweep.points):
        seed = point.pop("seed")
        alone = lowmark.run(cell, set=point, seed=seed).iterations.to_arrow()
        assert table["elapsed [s]"][row] == alone["elapsed [s]"][0]
        assert table["digest"][row] == alone["digest"][0]
        assert table["seed"][row].as_py() == seed
    assert sweep.to_pandas().shape == table.shape == sweep.to_polars().shape


def test_points_are_made_when_they_are_asked_for() -> None:
    from lowmark._sweep import Points

    points = Points({"a": range(1000), "b": ["x", "y"]}, seeds=500)
    assert len(points) == 1_000_000
    assert points[0] == {"a": 0, "b": "x", "seed": 1}
    assert points[1] == {"a": 0, "b": "x", "seed": 2}
    assert points[500] == {"a": 0, "b": "y", "seed": 1}
    assert points[-1] == {"a": 999, "b": "y", "seed": 500}
    assert points[999_998:] == [points[999_998], points[999_999]]
    with pytest.raises(IndexError):
        points[1_000_000]


STOPPED = """
import sys, lowmark
if __name__ == "__main__":
    print("begun", flush=True)
    try:
        lowmark.sweep(eval(sys.argv[1]), {}, seeds=50, store=sys.argv[2])
    except KeyboardInterrupt:
        sys.exit(7)
"""


def test_ctrl_c_ends_a_sweep_in_the_middle_of_its_cells(
    long: dict[str, Any], tmp_path: Path
) -> None:
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED)
    long["workload"] = {"command": "dd if=/dev/zero of=a bs=64k count=4000000"}
    with subprocess.Popen(
        [sys.executable, script, repr(long), tmp_path / "s"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline()
        time.sleep(2)
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 7
        assert time.monotonic() - begun < 5
    assert not stored(tmp_path / "s")


def test_cells_are_shared_and_never_run_twice(cell: dict[str, Any], tmp_path: Path) -> None:
    first = lowmark.sweep(cell, AXES, seeds=2, store=tmp_path / "s", workers=2)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "s").rglob("*.parquet")}
    wider = lowmark.sweep(cell, {"machine.cpus": [3, 2, 4]}, seeds=2, store=tmp_path / "s", workers=2)
    assert (first.ran, wider.ran) == (6, 2)
    assert set(first.keys) & set(wider.keys) and len(stored(tmp_path / "s")) == 8
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())


def test_the_key_is_of_all_that_a_cell_reads(
    cell: dict[str, Any], root: Path, tmp_path: Path
) -> None:
    machine = tmp_path / "machine.toml"
    trace = tmp_path / "t.csv"
    machine.write_text((root / "machines/512M.toml").read_text())
    trace.write_text("time,obj_id,obj_size,op\n1,1,4096,w\n2,2,4096,r\n")

    def keys(**changes: Any) -> str:
        experiment = cell | {
            "machine": str(machine),
            "workload": {"trace": str(trace)},
        }
        sweep = lowmark.sweep(experiment | changes, {}, seeds=[1], store=tmp_path / "s", workers=1)
        return sweep.keys[0]

    first = keys()
    assert keys() == first
    assert keys(policy="linux-3.0") != first
    assert keys(iterations=2) != first
    # The same length, other contents.
    trace.write_text("time,obj_id,obj_size,op\n1,1,4096,w\n2,2,4096,w\n")
    second = keys()
    assert second != first
    machine.write_text(machine.read_text().replace("cpus = 4", "cpus = 2"))
    assert keys() not in (first, second)


def flipped(file: Path) -> None:
    """Changes a byte, but no other visible property of the file."""
    content, times = bytearray(file.read_bytes()), file.stat()
    content[-2] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_cell_runs_anew_when_a_byte_of_what_it_reads_changes(
    cell: dict[str, Any], tmp_path: Path
) -> None:
    trace, job = tmp_path / "t.csv", tmp_path / "job.fio"
    trace.write_text("time,obj_id,obj_size,op\n1,1,4096,w\n2,2,4096,w\n3,3,4096,r\n")
    job.write_text("[a]\nrw=write\nbs=4k\nsize=1m\n# 4\n")
    for workload, file, change in [
        ({"trace": str(trace)}, trace, ("3,3,4096,r", "3,3,4096,w")),
        ({"fio": str(job)}, job, ("size=1m", "size=2m")),
    ]:
        experiment = cell | {"workload": workload}
        ran = [
            lowmark.sweep(experiment, {}, seeds=1, store=tmp_path / "s", workers=1).ran for _ in range(2)
        ]
        file.write_text(file.read_text().replace(*change))
        ran.append(lowmark.sweep(experiment, {}, seeds=1, store=tmp_path / "s", workers=1).ran)
        assert ran == [1, 0, 1], file


def test_the_key_is_of_a_kernels_image_and_of_a_root_folder(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lowmark import _run, _sweep

    # A kernel as a build leaves it, with this version's digest.
    build = root / "crates/kernel/src/build"
    form = re.search(r"const FORM: \w+ = (\d+);", (build / "mod.rs").read_text())
    assert form is not None
    ours = sha256(f"form {form[1]}\n".encode())
    for text in [(build / "guest.config").read_bytes(), (build / "fixed.c").read_bytes(), b""]:
        ours.update(b"%d\n" % len(text) + text)
    kernel = tmp_path / "cache/kernels/aaaa"
    kernel.mkdir(parents=True)
    (tmp_path / "cache/names").mkdir()
    (tmp_path / "cache/names/6.12").write_text("aaaa")
    for name in ["linux", "seed.so", "config", "log"]:
        (kernel / name).write_bytes(b"an image")
    words = {"name": "6.12", "release": "6.12.1", "hash": "aaaa", "source": "tree", "ours": ours.hexdigest()}
    words |= {"compiler": "gcc", "built": "2026-01-01T00:00:00Z"}
    lists = {name: [] for name in ["patches", "fragments", "own_patches", "unknown"]}  # type: ignore[var-annotated]
    numbers = {"costs": False, "seconds": 1.5, "jobs": 1, "steps": 1, "whole": True}
    (kernel / "build.toml").write_text(
        "".join(f"{k} = {json.dumps(v)}\n" for k, v in {**words, **lists, **numbers}.items())
    )
    monkeypatch.setenv("LOWMARK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/sh").write_bytes(b"a shell")
    experiment: dict[str, Any] = {
        "name": "guest",
        "iterations": 1,
        "policy": "kernel:6.12",
        "filesystem": "ext4",
        "machine": {
            "name": "512M",
            "cpus": 1,
            "node": [{"zones": [{"zone": "Normal", "size": "512M"}]}],
            "disk": {"kind": "disk", "capacity": "4G"},
        },
        "workload": {"command": {"run": "true", "root": str(folder)}},
    }

    def key() -> str:
        return _sweep.key(_sweep.Task(0, _run.given(experiment), lowmark.revision()))

    seen = [key()]
    assert key() == seen[0]
    for file in [kernel / "linux", kernel / "seed.so", folder / "bin/sh"]:
        flipped(file)
        assert key() not in seen, file
        seen.append(key())
    # Parts of the build that are not booted do not affect the key.
    flipped(kernel / "log")
    assert key() == seen[-1]


def test_wrong_settings_are_said_before_anything_runs(cell: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(lowmark.Error, match="cpus"):
        lowmark.sweep(cell, {"machine.cpus": [0]}, store=tmp_path / "s")
    assert not stored(tmp_path / "s")
    # Also for a later cell.
    for axes in [{"machine.cpus": [1, 2, 0]}, {"machine.cpus": [1], "filesystem": ["ext4", "ext9"]}]:
        with pytest.raises(lowmark.Error, match="cpus|ext9"):
            lowmark.sweep(cell, axes, seeds=3, store=tmp_path / "s")  # type: ignore[arg-type]
    assert not stored(tmp_path / "s")
    wrong: list[dict[str, Any]] = [
        {"axes": {"filesystem": "ext4"}}, {"seeds": 0}, {"seeds": [-1]}, {"axes": {"seed": [1]}, "seeds": 2},
        {"workers": 0}, {"batch": 0}, {"in_flight": 0}, {"retries": -1},
    ]
    for change in wrong:
        with pytest.raises(lowmark.Error, match="accepted"):
            ask: dict[str, Any] = {"axes": {}, "store": tmp_path / "s"}
            lowmark.sweep(cell, **ask | change)
    with pytest.raises(lowmark.Error, match="executor"):
        lowmark.sweep(cell, AXES, executor="abacus", store=tmp_path / "s")  # type: ignore[arg-type]
    none = lowmark.sweep(cell, {"machine.cpus": []}, store=tmp_path / "s")
    assert len(none) == 0 == none.to_arrow().num_rows


def test_axes_of_all_kinds_are_columns(cell: dict[str, Any], root: Path, tmp_path: Path) -> None:
    axes: dict[str, Any] = {
        "machine.cpus": numpy.array([1, 2]),
        "machine": [root / "machines/512M.toml"],
        "machine.sysctl.dirty_background_bytes": [1 << 20, "2M"],
    }
    table = lowmark.sweep(cell, axes, store=tmp_path / "s", workers=2).to_arrow()
    assert table["machine.cpus"].to_pylist() == [1, 1, 2, 2]
    assert table["machine.sysctl.dirty_background_bytes"].to_pylist() == ["1048576", "2M"] * 2
    assert table.column_names[:3] == list(axes)


def test_an_experiment_is_found_as_run_finds_it_and_is_what_it_was_at_the_start(
    cell: dict[str, Any], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few: dict[str, Any] = {"filesystem": ["ext4"], "policy": ["linux-3.1"], "iterations": [1]}
    shipped = lowmark.sweep("experiments/slow-disk.toml", few, store="s", workers=1)
    assert shipped.ran == 1
    file = tmp_path / "mine.toml"
    text = (root / "experiments/slow-disk.toml").read_text()
    file.write_text(text)

    def edited(done: int, total: int) -> None:
        file.write_text("no experiment")

    sweep = lowmark.sweep(file, few, seeds=3, store="t", workers=1, batch=1, in_flight=1, progress=edited)
    assert sweep.ran == 3
    alone = lowmark.sweep(text, few, seeds=3, store="u", workers=1)
    assert [sweep.store.table(k)["digest"] for k in sweep.keys] == [alone.store.table(k)["digest"] for k in alone.keys]


def test_cells_ask_for_the_memory_that_they_take(
    cell: dict[str, Any], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lowmark import _run, _sweep

    machines = [str(root / f"machines/{name}.toml") for name in ["512M", "3765M"]]
    points = _sweep.Points({"machine": machines}, 2)
    tasks = _sweep._Tasks(_run.given(cell), points)
    small, large = tasks.memory([tasks[0]]), tasks.memory([tasks[2]])
    assert 0 < small < large == tasks.memory([tasks[1], tasks[3]])
    # If memory is enough for one run only, one runs at a time.
    monkeypatch.setattr(_sweep, "_available", lambda: small)
    together: list[int] = []
    here, lock = 0, threading.Lock()

    def several(*args: Any) -> Any:
        nonlocal here
        with lock:
            here += 1
            together.append(here)
        time.sleep(0.05)
        with lock:
            here -= 1
        return original(*args)

    original = _sweep._several
    monkeypatch.setattr(_sweep, "_several", several)
    lowmark.sweep(cell, AXES, store=tmp_path / "s", workers=3, batch=1)
    assert together == [1, 1, 1]


def test_what_is_wrong_with_a_store_is_said(cell: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    stores: list[str | Path] = [tmp_path / "file", "nowhere://cells", "/proc/cells"]
    for store in stores:
        with pytest.raises(lowmark.Error, match="the store .* can't be used.*accepted") as raised:
            lowmark.sweep(cell, {}, store=store)
        assert raised.value.__cause__ is None
    with pytest.raises(lowmark.Error, match="in this process alone"):
        lowmark.sweep(cell, {}, store="memory://cells", executor="ray")
    one = lowmark.sweep(cell, {}, store=tmp_path / "s", workers=1)
    [file] = (tmp_path / "s").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(lowmark.Error, match="is damaged"):
        one.to_arrow()
    file.unlink()
    with pytest.raises(lowmark.Error, match="can't be read from the store"):
        one.to_arrow()
    assert lowmark.sweep(cell, {}, store=tmp_path / "s", workers=1).ran == 1


def test_what_progress_raises_ends_a_sweep(cell: dict[str, Any], tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise Enough

    with pytest.raises(Enough) as raised:
        lowmark.sweep(cell, {}, seeds=500, store=tmp_path / "s", workers=2, batch=1, progress=stop)
    done = len(stored(tmp_path / "s"))
    time.sleep(0.3)
    assert len(stored(tmp_path / "s")) == done < 500
    del raised


def test_an_object_store_will_do(cell: dict[str, Any], tmp_path: Path) -> None:
    from lowmark import _run, _sweep

    two = [lowmark.sweep(cell, {"machine.cpus": cpus}, store="memory://shared", workers=2) for cpus in ([1, 2], [2, 3])]
    assert [sweep.ran for sweep in two] == [2, 1] and two[1].to_arrow().num_rows == 2
    there = lowmark.sweep(cell, AXES, store=f"file://{tmp_path}/f", workers=2)
    assert there.to_arrow().equals(lowmark.sweep(cell, AXES, store="memory://shared").to_arrow())
    store = _sweep.Store("memory://cells")
    task = _sweep.Task(0, _run.given(cell), lowmark.revision())
    name = _sweep.key(task)
    assert not store.has(name)
    store.put(name, _sweep.content(task, name))
    assert store.has(name)
    # The same files as in a folder.
    one = lowmark.sweep(cell, {}, store=tmp_path / "s", workers=1)
    assert one.keys == [name] and stored(tmp_path / "s") == {f"{name}.parquet": store.get(name)}
    about = pyarrow.parquet.read_metadata(pyarrow.BufferReader(store.get(name)))
    assert name.encode() in about.metadata[b"lowmark"]


BROKEN_OFF = """
import sys, lowmark
if __name__ == "__main__":
    executor = sys.argv[3]
    lowmark.sweep(
        eval(sys.argv[1]), {"machine.cpus": [1, 2, 3]}, seeds=20, store=sys.argv[2], workers=2, executor=executor, batch=1
    )
"""


@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_sweep_goes_on_after_its_driver_was_killed(
    executor: str, cell: dict[str, Any], tmp_path: Path
) -> None:
    script = tmp_path / "broken_off.py"
    script.write_text(BROKEN_OFF)
    folder = tmp_path / "s"
    child = subprocess.Popen([sys.executable, script, repr(cell), folder, executor], stderr=subprocess.DEVNULL)
    while len(list(folder.rglob("*.parquet"))) < 5:
        assert child.poll() is None
        time.sleep(0.02)
    processes = psutil.Process(child.pid).children(recursive=True)
    child.kill()
    child.wait()
    # Ray's processes end some time after their driver; what they still finish does not matter here.
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=60)
    done = len(list(folder.rglob("*.parquet")))
    assert 5 <= done < 60
    again = lowmark.sweep(cell, AXES, seeds=20, store=folder, workers=2)
    assert again.ran == 60 - done
    elsewhere = lowmark.sweep(cell, AXES, seeds=20, store=tmp_path / "other", workers=1)
    assert elsewhere.ran == 60 and stored(folder) == stored(tmp_path / "other")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray cluster on this machine: four workers, regardless of its cores."""
    import ray

    # With the settings that a sweep uses.
    os.environ["RAY_worker_niceness"] = "0"
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield ray
    ray.shutdown()


def workers() -> list[psutil.Process]:
    """Returns Ray's processes that run a task of the sweep."""
    found = []
    for process in psutil.process_iter(["name", "cmdline"]):
        if any("ray::_told" in word for word in process.info["cmdline"] or []):
            found.append(process)
    return found


def test_a_worker_of_a_ray_cluster_dies_and_nothing_is_lost(
    cluster: Any, cell: dict[str, Any], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < 2:
            for process in workers():
                if process.pid not in killed:
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)
                    time.sleep(1)
                    break
            time.sleep(0.01)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    told: list[tuple[int, int]] = []
    sweep = lowmark.sweep(
        cell,
        AXES,
        seeds=60,
        executor="ray",
        store=tmp_path / "ray",
        batch=10,
        progress=lambda done, total: told.append((done, total)),
    )
    killer.join(30)
    assert killed, "no worker was killed"
    assert told[-1] == (180, 180)
    local = lowmark.sweep(cell, AXES, seeds=60, store=tmp_path / "local", workers=2)
    assert sweep.keys == local.keys
    assert stored(tmp_path / "ray") == stored(tmp_path / "local")


def test_a_task_that_is_given_up_is_one_error_and_the_same_call_goes_on(
    cluster: Any, cell: dict[str, Any], tmp_path: Path
) -> None:
    over = threading.Event()

    def kill() -> None:
        while not over.is_set():
            for process in workers():
                os.kill(process.pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    ask: dict[str, Any] = {"seeds": 60, "executor": "ray", "store": tmp_path / "ray", "batch": 10, "retries": 0}
    with pytest.raises(lowmark.Error, match="gave a task up.*accepted") as raised:
        lowmark.sweep(cell, AXES, **ask)
    over.set()
    killer.join(30)
    assert raised.value.__cause__ is None and raised.value.code == 1
    done = len(stored(tmp_path / "ray"))
    assert lowmark.sweep(cell, AXES, **ask).ran <= 180 - done


def test_a_run_that_fits_nowhere_is_refused(
    cluster: Any, cell: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lowmark import _lowmark

    monkeypatch.setattr(_lowmark, "need", lambda given: 1 << 60)
    with pytest.raises(lowmark.Error, match="no machine of the cluster"):
        lowmark.sweep(cell, AXES, executor="ray", store=tmp_path / "s")


def test_ray_raises_what_a_cell_raises(cluster: Any, cell: dict[str, Any], tmp_path: Path) -> None:
    cell["workload"] = {"command": "dd if=missing of=a"}
    with pytest.raises(lowmark.Error, match="iterations failed"):
        lowmark.sweep(cell, AXES, executor="ray", store=tmp_path / "s")
    with pytest.raises(lowmark.Error, match="iterations failed"):
        lowmark.sweep(cell, AXES, executor="local", store=tmp_path / "s", workers=1)
