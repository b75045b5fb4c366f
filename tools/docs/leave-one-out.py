#!/usr/bin/env python3
"""Measures the effect of each mechanism in today's presets: each switch that differs between one of
them and linux-4.9 is set back to linux-4.9's value, and the result is judged by the kernels' kept
figures. Puts the table into docs/validate-modern.md, between its two markers; takes a quarter of an
hour on two cores.

    tools/docs/leave-one-out.py target/release/lowmark
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/validate-modern.md"
BEGIN, END = "<!-- leave one out -->\n", "<!-- end of leave one out -->\n"
BASE = "linux-4.9"
KERNELS = ["6.12", "6.1"]


def switches(binary):
    """Returns the switches in which BASE and the presets of the kernels differ."""
    said = json.loads(subprocess.run([binary, "explain", "--json"], check=True, capture_output=True).stdout)
    all_of_them = [BASE, *(f"linux-{kernel}" for kernel in KERNELS)]
    for entry in said:
        if entry["kind"] != "Switches of a policy":
            continue
        has = dict(entry["presets"])
        base, *presets = (has[name] for name in all_of_them)
        if any(value != base for value in presets):
            yield entry["name"], base, presets


def score(binary, kernel, *sets):
    """Returns the figures inside and those scored, of the deciding scenarios and of those held out.
    """
    command = [binary, "validate", "--suite", "modern", "--against", "data/validate/modern", "--kernel", kernel, "--json", "-q"]
    if sets:
        command += ["--preset", "trial"]
        for key, value in [("base", f"linux-{kernel}"), *sets]:
            plain = value in ("true", "false") or value.replace(".", "", 1).isdigit()
            text = value if plain else f'"{value}"'
            command += ["--set", f"policies.trial.{key}={text}"]
    ran = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    row = json.loads(ran.stdout)[0]
    return " | ".join(f"{inside} of {scored}" for inside, scored in (row["deciding"], row["held_out"]))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    lines = ["| switch, set back | 6.12 decides | held out | 6.1 decides | held out |", "|---|---|---|---|---|"]
    lines.append("| none | " + " | ".join(score(binary, kernel) for kernel in KERNELS) + " |")
    for name, base, presets in switches(binary):
        cells = [score(binary, kernel, (name, base)) if value != base else "(as it is) | "
                 for kernel, value in zip(KERNELS, presets)]
        lines.append(f"| {name}={base} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    text = PAGE.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{PAGE.name} does not have its two markers once each")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(head + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
