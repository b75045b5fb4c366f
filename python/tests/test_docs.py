"""Runs the Python examples of the book, reduced in size."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

import lowmark
import numpy
import pytest


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), flags=re.M | re.S)


@pytest.mark.parametrize(("page", "least"), [("python.md", 3), ("sweep.md", 2)])
def test_the_pages_examples_run(
    page: str, least: int, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs with every name and argument of the page, but fewer iterations, values and trials."""
    found = blocks(root / "docs" / page)
    assert len(found) >= least
    for folder in ["experiments", "machines"]:
        (tmp_path / folder).symlink_to(root / folder)
    monkeypatch.chdir(tmp_path)
    run, sweep, search = lowmark.run, lowmark.sweep, lowmark.search
    few: dict[str, Any] = {"filesystem": ["ext4"], "policy": ["linux-3.1"]}

    def small_run(experiment: Any, **options: Any) -> Any:
        options["set"] = {"time_limit_s": 2, **options.get("set", {})}
        return run(experiment, **options | {"iterations": 1})

    def small_sweep(experiment: Any, axes: Any, **options: Any) -> Any:
        axes = {axis: list(islice(values, 2)) for axis, values in axes.items()}
        return sweep(experiment, few | axes, **options | {"seeds": 1, "iterations": 1, "executor": "local"})

    def small_search(*args: Any, axes: Any, **options: Any) -> Any:
        return search(*args, axes=few | axes, **options | {"budget": 3, "seeds": 1, "parallel": 3})

    monkeypatch.setattr(lowmark, "run", small_run)
    monkeypatch.setattr(lowmark, "sweep", small_sweep)
    monkeypatch.setattr(lowmark, "search", small_search)
    names: dict[str, Any] = {"keys": numpy.arange(5000) % 700}
    for block in found:
        exec(compile(block, page, "exec"), names)
    if page == "python.md":
        assert names["result"].json["cells"]
    else:
        assert len(names["sweep"]) == 4 and names["found"].front
