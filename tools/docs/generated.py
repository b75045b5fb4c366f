#!/usr/bin/env python3
"""The pages of words, keys, switches and kernels, made from `lowmark explain --json`.

    generated.py BINARY          lists pages that the program would write differently; exit code 1
    generated.py BINARY --write  writes them
"""

import difflib
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs"
PAGES = {
    "glossary.md": ["glossary.py"],
    "keys.md": ["keys.py"],
    "switches.md": ["policies.py", "switches"],
    "kernels.md": ["policies.py", "kernels"],
}


def main() -> int:
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    explained = subprocess.run([binary, "explain", "--json"], check=True, capture_output=True).stdout
    stale = False
    for name, command in PAGES.items():
        made = subprocess.run([sys.executable, HERE / command[0], *command[1:]], input=explained, check=True,
                              capture_output=True).stdout.decode()
        page = DOCS / name
        kept = page.read_text()
        if made == kept:
            continue
        if sys.argv[2:]:
            page.write_text(made)
            print(f"docs/{name}: written")
            continue
        stale = True
        sys.stdout.writelines(difflib.unified_diff(kept.splitlines(True), made.splitlines(True), f"docs/{name}",
                                                   "as the program says"))
    if stale:
        print("written anew by: just glossary")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
