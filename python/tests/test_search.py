"""Searches: better than the start, equal on any number of workers, a front if goals conflict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lowmark
import pyarrow.parquet
import pytest
from lowmark.__main__ import main


def test_the_best_of_a_choice_is_found(small: dict[str, Any], tmp_path: Path) -> None:
    experiment = small | {"policy": "linux-3.1"}
    experiment["workload"] = {"command": "dd if=/dev/zero of=a bs=64k count=8192"}
    kinds = ["fuse-ntfs", "ext4"]
    found = lowmark.search(
        experiment, {"filesystem": kinds}, "elapsed", budget=10, seeds=1, store=tmp_path / "s"
    )
    assert len(found.trials) == 10
    assert {t.settings["filesystem"] for t in found.trials} == set(kinds)
    assert found.best.settings["filesystem"] == "ext4"
    assert found.best.losses[0] == min(t.losses[0] for t in found.trials)
    # Trials with equal settings are one cell.
    assert len(list((tmp_path / "s").rglob("*.parquet"))) == len(kinds)


def test_goals_that_conflict_have_a_front(small: dict[str, Any], tmp_path: Path) -> None:
    experiment = small | {"policy": "linux-3.1"}

    def dirty(table: Any) -> float:
        return float(table["machine.sysctl.dirty_ratio"][0].as_py())

    ask: dict[str, Any] = {
        "experiment": experiment,
        "space": {"machine.sysctl.dirty_ratio": (5, 80)},
        "goals": ["elapsed", "-nr_dirtied", dirty, lambda table: -dirty(table)],
        "budget": 8,
        "seeds": 1,
    }
    found = lowmark.search(**ask, store=tmp_path / "a")
    settings = [t.settings["machine.sysctl.dirty_ratio"] for t in found.trials]
    assert all(isinstance(s, int) and 5 <= s <= 80 for s in settings)
    # With goals for both less and more dirty memory, no dirty ratio is better than another.
    assert len(found.front) == len(set(settings)) > 1
    again = lowmark.search(**ask, store=tmp_path / "b")
    assert again.trials == found.trials


def test_what_can_not_be_searched_is_said(small: dict[str, Any], tmp_path: Path) -> None:
    space = {"machine.cpus": (1, 4)}
    with pytest.raises(lowmark.Error, match="no iteration has the figure"):
        lowmark.search(small, space, "happiness", budget=1, store=tmp_path / "s")
    with pytest.raises(lowmark.Error, match="optimizer"):
        lowmark.search(small, space, "elapsed", optimizer="luck", store=tmp_path / "s")
    with pytest.raises(lowmark.Error, match="low below high"):
        lowmark.search(small, {"machine.cpus": (4, 1)}, "elapsed", store=tmp_path / "s")
    wrong: list[dict[str, Any]] = [
        {"space": {}}, {"goals": []}, {"budget": 0}, {"parallel": 0}, {"seed": -1},
        {"space": {"machine.cpus": (1, 2, 3)}}, {"goals": "elapsd"},
    ]
    ask: dict[str, Any] = {"experiment": small, "space": space, "goals": "elapsed", "store": tmp_path / "s"}
    for change in wrong:
        with pytest.raises(lowmark.Error, match="accepted"):
            lowmark.search(**ask | change)


def test_a_shell_can_search_and_sweep(
    small: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "".join(f"{k} = {json.dumps(v)}\n" for k, v in small.items() if k != "workload")
    (tmp_path / "small.toml").write_text(text + f"[workload]\ncommand = {json.dumps(small['workload']['command'])}\n")

    def told(*words: str, code: int = 0) -> str:
        assert main(list(words)) == code
        out, err = capsys.readouterr()
        assert bool(err) == (code != 0)
        return err if code else out

    ask = ["search", "small.toml", "--space", "machine.cpus=1..4", "--space", "filesystem=ext4,xfs", "--seeds", "1"]
    ask += ["--goal", "elapsed", "--goal=-nr_dirtied", "--budget", "6", "--axis", "policy=linux-3.1"]
    said = json.loads(told(*ask, "--json"))
    again = lowmark.search(
        tmp_path / "small.toml",
        {"machine.cpus": (1, 4), "filesystem": ["ext4", "xfs"]},
        ["elapsed", "-nr_dirtied"],
        budget=6,
        seeds=1,
        axes={"policy": ["linux-3.1"]},
        store=tmp_path / "sweep",
    )
    assert said["trials"] == [{"settings": t.settings, "losses": list(t.losses)} for t in again.trials]
    assert [again.trials[n] for n in said["front"]] == again.front
    assert "trials are beaten by none" in told(*ask)
    assert "accepted" in told(*ask[:2], "--goal", "elapsed", "--space", "machine.cpus", code=2)
    assert "ext9" in told("sweep", "small.toml", "--axis", "filesystem=ext9", code=2)
    words = ["sweep", "small.toml", "--axis", "machine.cpus=1,2", "--seeds", "2", "--out", "all.parquet"]
    command = [sys.executable, "-P", "-m", "lowmark", *words]
    swept = subprocess.run(command, capture_output=True, text=True)
    assert swept.stdout.startswith("4 cells, 4 of them run")
    table = pyarrow.parquet.read_table(tmp_path / "all.parquet")
    # Two policies and two iterations in each cell.
    assert table["machine.cpus"].to_pylist() == [1] * 8 + [2] * 8
