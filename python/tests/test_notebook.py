"""Runs the book's notebook as after a fresh installation of the package."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

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
    # The sweep's cells are in the store now.
    assert len(list((tmp_path / "sweep").rglob("*.parquet"))) == 25


def test_a_notebook_sees_how_far_a_run_and_a_sweep_are(small: dict[str, Any], tmp_path: Path) -> None:
    sources = [
        f"import lowmark\nexperiment = {small!r}\nresult = lowmark.run(experiment)",
        "sweep = lowmark.sweep(experiment, {'machine.cpus': [1, 2]}, store='s', workers=1)",
        "result.summary",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()
    # One line for each, overwritten until it shows the total.
    for cell, done in zip(notebook.cells, ["4/4 iterations", "2/2 cells"]):
        [shown] = [o.data["text/html"] for o in cell.outputs if o.output_type == "display_data"]
        assert "<progress" in shown and done in shown
    assert "<table" in notebook.cells[2].outputs[0].data["text/html"]
