#!/usr/bin/env python3
"""Prints figures of a run's folder, for sentences and tables of pages (tools/docs/blocks.py).

    tools/docs/figure.py DIR FIGURE [KEY=VALUE …] [--mean|--min|--max] [--digits N]
    tools/docs/figure.py DIR --table KEY FIGURE … [KEY=VALUE …] [--mean|--min|--max] [--digits N]

DIR is a results folder, FIGURE a key of `metrics` or `counters` in its results.json, KEY=VALUE
selects the cell: `policy`, `filesystem`, `machine`, or the last part of an axis of the experiment
(`dirty_ratio`); `KEY,KEY` of --table is several. The first form prints the median over the cell's
iterations; the second a table in Markdown with a row for each value of KEY and a column for each
figure. Microseconds become milliseconds. A run that ended early, by an OOM kill or the time limit,
is left out; a table's last column has the number of completed runs of the cell.
"""

import json
import statistics
import sys
from pathlib import Path

BY = {"--mean": statistics.fmean, "--min": min, "--max": max}


def wrong(why):
    """Ends the program: the arguments are wrong."""
    sys.exit(f"tools/docs/figure.py: {why}")


def axes(cell):
    """Returns the axes of a cell with their values."""
    own = {key: cell[key] for key in ("policy", "filesystem", "machine")}
    return own | {axis["key"].rsplit(".", 1)[-1]: str(axis["value"]) for axis in cell["axes"]}


def values(cell, figure):
    """Returns a figure's values over the iterations of a cell that have it."""
    out = []
    for run in cell["iterations"]:
        of = run["metrics"].get(figure, run["counters"].get(figure))
        if run["outcome"]["kind"] != "completed" or of is None:
            continue
        value, of_unit = (of["value"], of["unit"]) if isinstance(of, dict) else (of, "")
        if value is not None:
            out.append(value / 1000 if of_unit == "us" else float(value))
    return out


def unit(run, figure):
    """Returns the unit of a figure, in brackets; counters have none."""
    for cell in run["cells"]:
        for of in cell["iterations"]:
            if figure in of["metrics"]:
                name = of["metrics"][figure]["unit"]
                return f" [{'ms' if name == 'us' else name}]"
    return ""


def text(x, digits):
    """Formats a number with a readable number of significant digits."""
    if x == 0:
        return "0"
    whole = f"{x:.{digits}g}"
    return f"{float(whole):,.0f}" if abs(x) >= 10 ** (digits - 1) else f"{float(whole):g}"


def main():
    words, by, digits, table = [], statistics.median, 3, None
    given = iter(sys.argv[1:])
    for word in given:
        if word in BY:
            by = BY[word]
        elif word == "--digits":
            digits = int(next(given))
        elif word == "--table":
            table = next(given)
        elif word.startswith("--"):
            wrong(__doc__)
        else:
            words.append(word)
    if len(words) < 2:
        wrong(__doc__)
    wanted = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    figures = [word for word in words[1:] if "=" not in word]
    run = json.loads((Path(words[0]) / "results.json").read_text(encoding="utf-8"))
    cells = [cell for cell in run["cells"] if wanted.items() <= axes(cell).items()]
    if table is None:
        if len(cells) != 1 or len(figures) != 1:
            wrong(f"{len(cells)} cells are {wanted}, of {[axes(cell) for cell in run['cells']]}; one figure is asked for")
        found = values(cells[0], figures[0])
        if not found:
            wrong(f"no iteration has {figures[0]}")
        print(text(by(found), digits))
        return
    heads = [figure + unit(run, figure) for figure in figures]
    print(f"| {table.replace(',', ' | ')} | {' | '.join(heads)} | completed |\n|{'---|' * (len(figures) + len(table.split(',')) + 1)}")
    for cell in cells:
        if not set(table.split(",")) <= axes(cell).keys():
            wrong(f"a cell has no `{table}`: {axes(cell)}")
        of = [values(cell, figure) for figure in figures]
        count = len(cell["iterations"])
        completed = sum(i["outcome"]["kind"] == "completed" for i in cell["iterations"])
        shown = [text(by(found), digits) if found else "none" for found in of]
        of_key = " | ".join(axes(cell)[key] for key in table.split(","))
        print(f"| {of_key} | {' | '.join(shown)} | {completed} of {count} |")


if __name__ == "__main__":
    main()
