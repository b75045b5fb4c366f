"""Runs: the same bytes, messages and reaction to Ctrl-C as the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import lowmark
import pandas
import polars
import pyarrow
import pytest


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def same(a: Path, b: Path) -> None:
    left, right = files(a), files(b)
    assert left.keys() == right.keys()
    assert [name for name in left if left[name] != right[name]] == []


def test_results_are_the_bytes_of_the_command_line(cli: Any, root: Path, tmp_path: Path) -> None:
    cli("run", "experiments/slow-disk.toml", "--iterations", 2, "--quiet", "--out", tmp_path / "cli")
    result = lowmark.run(root / "experiments/slow-disk.toml", iterations=2, out=tmp_path / "run")
    assert result.folder == tmp_path / "run"
    text = (tmp_path / "cli/results.json").read_bytes()
    assert result.files["results.json"] == text
    same(tmp_path / "cli", tmp_path / "run")
    # Results kept in memory, and results read from a folder.
    in_memory = lowmark.run(root / "experiments/slow-disk.toml", iterations=2, jobs=1)
    assert in_memory.folder is None
    in_memory.save(tmp_path / "saved")
    same(tmp_path / "cli", tmp_path / "saved")
    loaded = lowmark.load(tmp_path / "cli")
    assert dict(loaded.files) == dict(in_memory.files)
    assert loaded.compare().text == (tmp_path / "cli/comparison.txt").read_text()


def test_settings_stand_above_the_experiment(cli: Any, small: dict[str, Any], tmp_path: Path) -> None:
    text = "".join(
        f"{k} = {json.dumps(v)}\n" for k, v in small.items() if k != "workload"
    ) + f"[workload]\ncommand = {json.dumps(small['workload']['command'])}\n"
    file = tmp_path / "small.toml"
    file.write_text(text)
    cli("run", file, "--seed", 7, "--set", "machine.cpus=1", "--check", "--quiet", "--out", tmp_path / "cli")
    ways: list[lowmark.Experiment] = [small, text, file, str(file)]
    wanted = json.loads((tmp_path / "cli/results.json").read_text())["cells"]
    for way in ways:
        result = lowmark.run(way, seed=7, set={"machine.cpus": 1}, check="sampled")
        assert result.json["cells"] == wanted
    other = lowmark.run(small, seed=8, set=["machine.cpus=1"])
    assert other.json["cells"] != wanted


def test_tables_go_to_everybody(small: dict[str, Any]) -> None:
    result = lowmark.run(small)
    for name in ["summary", "iterations", "tasks", "latency", "rows", "series"]:
        table = result.table(name)
        arrow = pyarrow.table(table)
        assert arrow.num_rows == len(table) > 0 and arrow.column_names == table.column_names
        frame = polars.DataFrame(table)
        assert frame.shape == arrow.shape
        assert table.to_pandas().shape == arrow.shape
    assert len(pandas.DataFrame.from_arrow(result.summary)) == len(result.summary)
    arrow = result.iterations.to_arrow()
    found = duckdb.sql("select policy, count(*) from arrow group by policy order by policy").fetchall()
    assert found == [("linux-3.0", 2), ("linux-3.1", 2)]
    elapsed = arrow["elapsed [s]"].to_pylist()
    cells = result.json["cells"]
    assert elapsed == [i["metrics"]["elapsed"]["value"] for c in cells for i in c["iterations"]]
    assert arrow.schema.field("nr_dirtied").type == pyarrow.uint64()


def test_without_polars_the_error_names_the_extra(small: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    table = lowmark.run(small).summary
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(lowmark.Error, match=r"pip install 'lowmark\[polars\]'") as error:
        table.to_polars()
    assert error.value.code == 2


def test_the_arrow_stream_shares_memory(small: dict[str, Any]) -> None:
    table = lowmark.run(small).series
    places = [
        pyarrow.table(table)["value"].chunk(0).buffers()[1].address for _ in range(2)
    ]
    assert places[0] == places[1]


def test_an_error_is_the_command_lines_message(cli: Any, small: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('name = "wrong"\npolicy = "linux-9"\n')
    said = cli("run", file, code=2).stderr
    with pytest.raises(lowmark.Error) as raised:
        lowmark.run(file)
    assert str(raised.value).strip() == said.strip()
    assert raised.value.code == 2
    said = cli("run", tmp_path / "none.toml", code=2).stderr
    with pytest.raises(lowmark.Error) as raised:
        lowmark.run(tmp_path / "none.toml")
    assert str(raised.value).strip() == said.strip()
    with pytest.raises(TypeError, match="no form in an experiment"):
        lowmark.run(small | {"machine": object()})
    wrong: list[dict[str, Any]] = [
        {"jobs": 0}, {"jobs": -1}, {"iterations": 0}, {"iterations": -1}, {"seed": -1}, {"patience": -1},
        {"check": "some"}, {"set": {"sample_s": float("nan")}}, {"set": ["machine.cpus"]},
    ]
    for options in wrong:
        with pytest.raises(lowmark.Error, match="accepted") as raised:
            lowmark.run(small, **options)
        assert raised.value.code == 2 and raised.value.__cause__ is None, options
    with pytest.raises(lowmark.Error, match="iterations=0"):
        lowmark.reproduce("per-zone-dirty-limits", iterations=0)


def test_iterations_that_fail_are_an_error_with_the_others_in_it(small: dict[str, Any]) -> None:
    small["workload"] = {"command": "dd if=missing of=a"}
    with pytest.raises(lowmark.Error, match="of 4 iterations failed") as raised:
        lowmark.run(small)
    assert len(raised.value.result.iterations) == 4


def test_results_of_others_are_left_alone(small: dict[str, Any], tmp_path: Path) -> None:
    lowmark.run(small, out=tmp_path / "a")
    with pytest.raises(lowmark.Error, match="accepted"):
        lowmark.run(small, out=tmp_path / "a")
    lowmark.run(small, out=tmp_path / "a", replace=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter").write_text("dear")
    with pytest.raises(lowmark.Error):
        lowmark.run(small, out=tmp_path / "mine", replace=True)
    assert (tmp_path / "mine/letter").read_text() == "dear"


def test_progress_is_told_and_may_stop(small: dict[str, Any]) -> None:
    heard: list[tuple[int, int, float]] = []
    lowmark.run(small, progress=lambda *p: heard.append(p))
    assert [p[:2] for p in heard] == [(n, 4) for n in range(5)]
    assert heard[-1][2] > heard[1][2] > 0

    class Enough(Exception):
        pass

    def stop(done: int, total: int, simulated: float) -> None:
        if done == 1:
            raise Enough

    with pytest.raises(Enough):
        lowmark.run(small, progress=stop, jobs=1, iterations=200)


def test_other_threads_go_on(long: dict[str, Any]) -> None:
    turns, over = 0, threading.Event()

    def turn() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0.001)

    other = threading.Thread(target=turn)
    other.start()
    begun = time.monotonic()
    lowmark.run(long, iterations=4, jobs=1)
    seconds = time.monotonic() - begun
    over.set()
    other.join()
    # With the lock held there would be one or two turns.
    assert turns > 20 * seconds, (turns, seconds)


STOPPED = """
import sys, lowmark
experiment = eval(sys.argv[1])
print("begun", flush=True)
try:
    lowmark.run(experiment, out=sys.argv[2], progress=lambda d, t, s: print(d, flush=True))
except KeyboardInterrupt as e:
    print("interrupted", *e.__notes__, flush=True)
    sys.exit(7)
"""


def test_ctrl_c_within_a_second_and_what_was_finished_is_kept(
    long: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    long["workload"] = {"command": "dd if=/dev/zero of=a bs=64k count=16384"}
    words = [sys.executable, "-c", STOPPED, repr(long), str(out)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip() == "1":
                break
        time.sleep(0.2)
        begun = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        rest = child.stdout.read()
        child.wait(30)
        seconds = time.monotonic() - begun
    assert child.returncode == 7, rest
    assert seconds < 10, seconds  # what is under way would take minutes
    assert "interrupted" in rest and f"--resume {out}" in rest
    assert not out.exists() and (tmp_path / "out.partial").exists()
    done: list[int] = []
    few = long | {"iterations": 50}
    with pytest.raises(KeyboardInterrupt):
        def again(finished: int, total: int, simulated: float) -> None:
            done.append(finished)
            raise KeyboardInterrupt

        lowmark.run(few, resume=out, progress=again)
    assert done[0] >= 1, "the finished iterations were not run again"


def test_memory_alone_keeps_nothing_of_what_was_stopped(long: dict[str, Any]) -> None:
    def stop(done: int, total: int, simulated: float) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        lowmark.run(long, progress=stop)
    assert "no iteration was kept" in raised.value.__notes__[0]


def test_compare_says_who_is_better(small: dict[str, Any]) -> None:
    compared = lowmark.compare(small)
    assert len(compared.answers) == 1 and "linux-3.1" in compared.answers[0]
    assert compared.text.startswith(compared.answers[0])
    assert {"p", "change_percent"} <= set(compared.rows.column_names)
    result = lowmark.run(small)
    assert lowmark.compare(result).text == compared.text == str(compared)


def test_reproduce_is_the_command_lines(cli: Any) -> None:
    said = cli("reproduce", "per-zone-dirty-limits", "--iterations", 1, "--json")
    scored = lowmark.reproduce("per-zone-dirty-limits", iterations=1)
    assert scored.json == json.loads(said.stdout)
    assert len(scored.rows) > 20
    with pytest.raises(lowmark.Error, match="no series `none`"):
        lowmark.reproduce("none")


def test_a_captured_machine_is_run(root: Path, small: dict[str, Any]) -> None:
    machine = lowmark.Machine.capture(root / "crates/machine/tests/captures/small-vm")
    result = lowmark.run(small | {"machine": machine}, iterations=1)
    assert result.json["cells"][0]["machine"] == machine.name
    with pytest.raises(lowmark.Error, match="holds no saved machine"):
        lowmark.Machine.capture("/nowhere")
