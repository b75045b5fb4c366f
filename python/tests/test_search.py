"""Searches: better than the start, the same on any number of workers, a front where goals conflict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lowmark
import pytest


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
    # Trials that are alike are one cell.
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
    # No dirty ratio is better than another where less and more are both wanted.
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
