#!/usr/bin/env python3
"""Writes the figures of docs/patches/*.md: measured ones from results folders, published ones from
data/published.

    tools/docs/patches.py [RESULTS] [--check]

RESULTS has a results folder for each name that a page uses (`lowmark run … --out RESULTS/NAME`);
for missing names the page is left unchanged. With --check nothing is written, and the exit code is
1 if a page would change.

Between markers of a page stand

    <!-- measured NAME [GROUP] --> … <!-- /measured -->
        the line about the runs and the figures asked for, from NAME/mail.txt
    <!-- published FILE [KEY=VALUE …] METRIC|METRIC … --> … <!-- /published -->
        rows of a file, with policies as columns
"""

import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PUBLISHED = ROOT / "data/published"


def measured(mail, wanted):
    """Returns the line about the runs and the blocks "Asked for" of a mail, only those of one group
    if `wanted` names it."""
    lines = mail.splitlines()
    tables = [i for i, line in enumerate(lines) if line.startswith("== ")]
    if not tables:
        sys.exit("a mail without a table")
    out = lines[:tables[0]]
    for start in tables:
        group = re.sub(r" \(\d+ of \d+\)$", "", lines[start][3:])
        if wanted and group != wanted:
            continue
        out += lines[start:start + 2]
        for line in lines[start + 3:]:
            if re.match(r"Workload$|FS-Mark$|MMTests |FTrace |== |$", line):
                break
            out.append(line)
        out.append("")
    notes = [line for line in lines[tables[-1]:] if " runs completed" in line]
    return "```text\n" + "\n".join(out + notes).rstrip() + "\n```\n"


def published(words):
    """Makes a table of published figures."""
    name, *rest = words.split(" ")
    filters = {}
    while rest and re.fullmatch(r"\w+=\S+", rest[0]):
        key, value = rest.pop(0).split("=")
        filters[key] = value
    metrics = " ".join(rest).split("|")
    with open(PUBLISHED / name, encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["metric"] in metrics
                and all(r[k] == v for k, v in filters.items())]
    if {r["metric"] for r in rows} != set(metrics):
        sys.exit(f"{name} lacks some of {metrics}")
    policies = list(dict.fromkeys(r["policy"] for r in rows))
    keys = [k for k in ("filesystem", "threads") if len({r[k] for r in rows}) > 1]
    lines = {}
    for r in rows:
        unit = f", {r['unit']}" if r["unit"] else ""
        label = tuple(r[k] for k in keys) + (r["metric"] + unit,)
        lines.setdefault(label, {})[r["policy"]] = r["value"]
    out = ["| " + " | ".join(keys + ["figure"] + policies) + " |", "|" + "---|" * (len(keys) + 1 + len(policies))]
    for label, values in lines.items():
        out.append("| " + " | ".join(list(label) + [values.get(p, "-") for p in policies]) + " |")
    return "\n".join(out) + "\n"


def page_with_figures(text, results):
    def fill(found):
        kind, words, old = found.groups()
        if kind == "published":
            new = published(words)
        else:
            name, _, group = words.partition(" ")
            mail = results / name / "mail.txt" if results else None
            if not (mail and mail.exists()):
                return found.group(0)
            new = measured(mail.read_text(encoding="ascii"), group)
        return f"<!-- {kind} {words} -->\n{new}<!-- /{kind} -->"

    return re.sub(r"<!-- (measured|published) ([^>]*?) -->\n(.*?)<!-- /\1 -->", fill, text, flags=re.S)


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if len(words) > 1 or any(word.startswith("-") for word in words):
        sys.exit(__doc__)
    results = Path(words[0]) if words else None
    if results and not results.is_dir():
        sys.exit(f"{results} is no folder")
    changed = []
    for page in sorted((ROOT / "docs/patches").glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = page_with_figures(old, results)
        if new != old:
            changed.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    print("changed: " + (", ".join(changed) or "nothing"))
    sys.exit(1 if changed and "--check" in sys.argv else 0)


main()
