#!/usr/bin/env python3
"""Makes docs/switches.md and docs/kernels.md from `lowmark explain --json` on standard input.

    lowmark explain --json | python3 tools/docs/policies.py switches > docs/switches.md
    lowmark explain --json | python3 tools/docs/policies.py kernels > docs/kernels.md

The texts about a single switch or preset are in crates/mm/src/policy; those about all of them are
here.
"""

import json
import os
import re
import sys
import textwrap

SWITCHES = """# Switches

Every switch of a policy: what it decides, what it can be set to, and what each preset has. This page is made from
the table of switches: `lowmark explain --json | python3 tools/docs/policies.py switches > docs/switches.md`. A policy's
table in an experiment names a base and the switches that differ from it ([kernels](kernels.md)).
"""

KERNELS = """# Kernels

A *preset* is a set of switches that stands for a kernel release. The engine asks for [switches](switches.md) and
never for a version ([decision](decisions/policies.md#policies-are-data)), so any mixture can be tried:

```toml
policy = ["linux-3.0", "mine"]

[policies.mine]
base = "linux-3.0"
dirty_limits = "per-zone"
```

This page is made from the table of presets: `lowmark explain --json | python3 tools/docs/policies.py kernels > docs/kernels.md`.
"""

FORMULAS = """## Watermarks and dirty limits of newer kernels

The formulas of 4.2 and later are switches, [`watermark_formula`](switches.md#watermark_formula) and
[`dirty_ratios`](switches.md#dirty_ratios). A machine file that gives `watermark_scale_factor` has the form of
4.6, and of 6.6 for Movable zones, under any policy. `lowmark machine --verify` compares with the running kernel;
`machine::era::Era` says which release has which form. The forms of 3.16 that linux-4.9 still has are listed at the ends of
[allocation](reference/allocation.md#differences), [reclaim](reference/reclaim.md#differences) and
[writeback](reference/writeback.md#differences).
"""


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def link(path, title=None):
    """Links a file of the project from this page, with its own name or another title."""
    file, _, heading = path.partition("#")
    if not title:
        names = [os.path.basename(file).removesuffix(".md"), heading]
        title = ", ".join(name.replace("-", " ") for name in names if name)
    target = file.removeprefix("docs/") if file.startswith("docs/") else "../" + file
    return f"[{title}]({target}{'#' + heading if heading else ''})"


def paragraph(text):
    return textwrap.fill(text, 112, break_on_hyphens=False, break_long_words=False) + "\n"


def table(head, rows):
    rule = "|".join("---" for _ in head)
    lines = [f"| {' | '.join(head)} |", f"|{rule}|"]
    return lines + [f"| {' | '.join(row)} |" for row in rows] + [""]


def spans(presets):
    """Groups presets in a row that have the same setting."""
    out = []
    for name, value in presets:
        if out and out[-1][2] == value:
            out[-1][1] = name
        else:
            out.append([name, name, value])
    return "; ".join(
        f"`{first}`: `{value}`" if first == last else f"`{first}` to `{last}`: `{value}`"
        for first, last, value in out
    )


def switches(entries):
    out = [SWITCHES]
    rules = False
    for e in entries:
        if "sources" not in e:
            continue
        if e["name"].startswith("auto.") and not rules:
            rules = True
            out.append('The rest are the rules of `watermarks = "auto"`.\n')
        out += [f"## {e['name']}\n", paragraph(e["definition"])]
        if e["values"]:
            out += table(["value", "meaning"], [[f"`{v}`", cell(text)] for v, text in e["values"]])
        elif e["range"]:
            out.append(f"{e['range'][0]} to {e['range'][1]} ({e['unit']}).\n")
        else:
            out.append("`true` or `false`.\n")
        out.append(f"{spans(e['presets'])}. Source: {'; '.join(map(link, e['sources']))}.\n")
    return out


def kernels(entries):
    presets = [e for e in entries if "changes" in e]
    rows = [[f"`{e['name']}`", e["date"], link(*reversed(e["baseline"]))] for e in presets]
    out = [KERNELS, *table(["preset", "release", "it is the baseline of"], rows)]
    # A preset that others are described by comes first.
    for e in sorted(presets, key=lambda e: e["base"] is not None):
        out += [f"## {e['name']}\n", paragraph(e["definition"])]
        if e["base"]:
            out.append(f"Changes to [{e['base']}](#{re.sub('[^a-z0-9-]', '', e['base'])}):\n")
        if e["changes"]:
            anchor = lambda s: f"[`{s}`](switches.md#{s.replace('.', '')})"
            rows = [[anchor(s), f"`{v}`", cell(meaning)] for s, v, meaning in e["changes"]]
            out += table(["switch", "value", "meaning"], rows)
    return out + [FORMULAS]


def main():
    make = {"switches": switches, "kernels": kernels}[sys.argv[1]]
    print("\n".join(make(json.load(sys.stdin))).rstrip())


main()
