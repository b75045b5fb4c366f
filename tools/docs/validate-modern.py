#!/usr/bin/env python3
"""Writes the suite's tables into docs/validate-modern.md, between its two markers.

Reads the tables as Markdown from standard input:

    (lowmark validate --suite modern --against data/validate/modern --markdown;
     lowmark validate --suite modern --against data/validate/modern --preset linux-4.9 --markdown) |
        python3 tools/docs/validate-modern.py
"""

import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/validate-modern.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"


def main():
    tables = sys.stdin.read().strip()
    text = PAGE.read_text(encoding="utf-8")
    if not tables or text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"no tables on standard input, or {PAGE.name} does not have its two markers once each")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{tables}\n\n{END}{tail}", encoding="utf-8")


main()
