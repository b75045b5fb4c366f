#!/usr/bin/env python3
"""Makes docs/keys.md, the keys of an experiment, from `lowmark explain --json` on standard input.
"""

import json
import sys

HEAD = """# Keys, sysctls, programs, parameters

Everything that may be written in an experiment, and the columns of its tables, as `lowmark explain NAME` says it
(`lowmark schema experiment` is the same for editors). Switches of policies have [a page of their own](switches.md),
and so have [presets](kernels.md) and [figures](glossary.md). `NAME` in a key is a name of yours. This page is made from
the program: `lowmark explain --json | python3 tools/docs/keys.py > docs/keys.md`.
"""

KINDS = ("key", "sysctl", "program", "parameter", "column")


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def main():
    out, kind = [HEAD], None
    for e in json.load(sys.stdin):
        head, _, label = e["name"].partition(": ")
        if head not in KINDS:
            continue
        if head != kind:
            kind = head
            out.append(f"\n## {e['kind']}\n\n| name | what | unit |\n|---|---|---|")
        out.append(f"| `{cell(label)}` | {cell(e['definition'])} | {cell(e['unit'])} |")
    print("\n".join(out).rstrip())


main()
