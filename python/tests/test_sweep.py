"""Sweeps: each cell once, whatever dies on the way, and the same bytes everywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import lowmark
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

    points = Points({"a": range(1000), "b": "xy"}, seeds=500)
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


def test_wrong_settings_are_said_before_anything_runs(cell: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(lowmark.Error, match="cpus"):
        lowmark.sweep(cell, {"machine.cpus": [0]}, store=tmp_path / "s")
    assert not stored(tmp_path / "s")
    with pytest.raises(ValueError, match="executor"):
        lowmark.sweep(cell, AXES, executor="abacus", store=tmp_path / "s")  # type: ignore[arg-type]
    assert len(lowmark.sweep(cell, {"machine.cpus": []}, store=tmp_path / "s")) == 0


def test_an_object_store_will_do(cell: dict[str, Any], tmp_path: Path) -> None:
    from lowmark import _run, _sweep

    store = _sweep.Store("memory://cells")
    task = _sweep.Task(0, _run.given(cell), lowmark.revision())
    name = _sweep.key(task)
    assert not store.has(name)
    store.put(name, _sweep.content(task, name))
    assert store.has(name)
    # As in a folder.
    one = lowmark.sweep(cell, {}, store=tmp_path / "s", workers=1)
    assert one.keys == [name] and stored(tmp_path / "s") == {f"{name}.parquet": store.get(name)}
    about = pyarrow.parquet.read_metadata(pyarrow.BufferReader(store.get(name)))
    assert name.encode() in about.metadata[b"lowmark"]


BROKEN_OFF = """
import sys, lowmark
if __name__ == "__main__":
    lowmark.sweep(eval(sys.argv[1]), {"machine.cpus": [1, 2, 3]}, seeds=20, store=sys.argv[2], workers=2)
"""


def test_a_sweep_goes_on_after_a_kill(cell: dict[str, Any], tmp_path: Path) -> None:
    script = tmp_path / "broken_off.py"
    script.write_text(BROKEN_OFF)
    folder = tmp_path / "s"
    child = subprocess.Popen([sys.executable, script, repr(cell), folder])
    while len(list(folder.rglob("*.parquet"))) < 5:
        assert child.poll() is None
        time.sleep(0.02)
    child.kill()
    child.wait()
    done = len(list(folder.rglob("*.parquet")))
    assert 5 <= done < 60
    again = lowmark.sweep(cell, AXES, seeds=20, store=folder, workers=2)
    assert again.ran == 60 - done
    elsewhere = lowmark.sweep(cell, AXES, seeds=20, store=tmp_path / "other", workers=1)
    assert elsewhere.ran == 60 and stored(folder) == stored(tmp_path / "other")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray cluster of this machine: four workers, whatever it has of cores."""
    import ray

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield ray
    ray.shutdown()


def workers() -> list[psutil.Process]:
    """Ray's processes that are at a task of ours."""
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


def test_a_run_that_fits_nowhere_is_refused(
    cluster: Any, cell: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lowmark import _lowmark

    inspect = _lowmark.inspect
    huge = lambda given, build: (*inspect(given, build)[:3], 1 << 60)  # noqa: E731
    monkeypatch.setattr(_lowmark, "inspect", huge)
    with pytest.raises(lowmark.Error, match="no machine of the cluster"):
        lowmark.sweep(cell, AXES, executor="ray", store=tmp_path / "s")


def test_ray_raises_what_a_cell_raises(cluster: Any, cell: dict[str, Any], tmp_path: Path) -> None:
    cell["workload"] = {"command": "dd if=missing of=a"}
    with pytest.raises(lowmark.Error, match="iterations failed"):
        lowmark.sweep(cell, AXES, executor="ray", store=tmp_path / "s")
    with pytest.raises(lowmark.Error, match="iterations failed"):
        lowmark.sweep(cell, AXES, executor="local", store=tmp_path / "s", workers=1)
