#!/usr/bin/env python3
"""How near a kernel comes to itself: medians of one folder of kept figures, judged by another's ranges as docs/validate.md has it.

    lowmark validate --suite modern --kernel 6.12 --keep anew --out results     # other runs of the same kernel
    docs/beside-itself.py data/validate/modern/6.12.json anew/6.12.json

Figures that are 0 in every run of both do not count.
"""
import json
import statistics
import sys
import tomllib
from pathlib import Path

FIGURES = Path(__file__).parent.parent / "data" / "validate" / "figures.toml"


def inside(kept, anew, slack):
    middle, median = statistics.median(kept), statistics.median(anew)
    in_range = min(kept) - slack <= median <= max(kept) + slack
    return in_range or abs(median - middle) <= 0.1 * abs(middle)


def main(kept_file, anew_file):
    pages = {f["name"] for f in tomllib.loads(FIGURES.read_text())["figure"] if f.get("pages")}
    kept, anew = (json.loads(Path(f).read_text())["scenarios"] for f in (kept_file, anew_file))
    rows = []
    for name in sorted(kept.keys() & anew.keys()):
        a, b = kept[name]["measured"], anew[name]["measured"]
        within = outside = 0
        for figure in a["figures"].keys() & b["figures"].keys():
            values = [of["figures"][figure]["values"] for of in (a, b)]
            if not any(values[0] + values[1]):
                continue
            slack = max(64, a["moved"] / 1000) if figure in pages else 0
            if inside(*values, slack):
                within += 1
            else:
                outside += 1
        rows.append((within / (within + outside), name, within, within + outside))
    for _, name, n, of in sorted(rows):
        print(f"{name:32} {n} of {of}")
    n, of = (sum(row[i] for row in rows) for i in (2, 3))
    print(f"{'all':32} {n} of {of} ({100 * n / of:.1f} %)")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
