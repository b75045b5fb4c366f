"""The book's notebook, as somebody runs it who has just installed the package."""

from __future__ import annotations

import time
from pathlib import Path

import nbclient
import nbformat


def test_the_notebook_runs_and_answers(root: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(root / "docs/notebooks/backup.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=170, resources={"metadata": {"path": str(tmp_path)}}
    )
    begun = time.monotonic()
    client.execute()
    assert time.monotonic() - begun < 180
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    plots = [o for o in outputs if "image/png" in o.get("data", {})]
    assert len(plots) == 2
    said = "".join(o.get("text", "") for o in cells[-1].outputs)
    assert said.count("the service is done first with") == 2
    # The sweep's cells are there now.
    assert len(list((tmp_path / "sweep").rglob("*.parquet"))) == 25
