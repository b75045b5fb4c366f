#!/usr/bin/env python3
"""Makes docs/glossary.md from `lowmark explain --json` on standard input."""

import json
import sys
from collections import defaultdict

HEAD = """# Glossary

Every row, counter, figure and word that `lowmark explain` knows. This page is made from it:
`lowmark explain --json | python3 tools/docs/glossary.py > docs/glossary.md`.
"""


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def main():
    entries = defaultdict(list)
    for entry in json.load(sys.stdin):
        # Switches and presets have pages of their own (policies.py), and so have keys, sysctls,
        # programs, parameters and columns (keys.py).
        kind = entry["name"].split(": ", 1)[0]
        if kind in ("key", "sysctl", "program", "parameter", "column"):
            continue
        if "sources" not in entry and "changes" not in entry:
            entries[entry["kind"]].append(entry)
    out = [HEAD]
    for kind, of_kind in entries.items():
        out.append(f"## {kind}\n")
        out.append("| name | unit | what | a high value |\n|---|---|---|---|")
        for e in of_kind:
            names = [e["name"].split(": ", 1)[-1], *e["also"]]
            names = "<br>".join(f"`{cell(n)}`" for n in names)
            out.append(f"| {names} | {cell(e['unit'])} | {cell(e['definition'])} | {cell(e['high'])} |")
        out.append("")
    print("\n".join(out).rstrip())


main()
