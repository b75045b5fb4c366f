#!/usr/bin/env python3
"""Runs the commands of a page that are marked for it, as a reader would.

    docs/blocks.py PAGE LOWMARK [ci|long]

Blocks ```` ```sh ci ```` are commands, blocks ```` ```toml file=NAME ci ```` files; `long` in the place of `ci`
marks what takes minutes. All blocks of a page run in order in one temporary folder that has the project's
experiments, machines, policies and data in it, so nothing is left in the project. The first command that fails
ends the run with its exit code. With `long`, blocks marked `ci` are run too.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDERS = ("experiments", "machines", "policies", "data", "docs")


def blocks(page):
    """Language, words and text of each fenced block."""
    found = re.findall(r"^```(\S+)([^\n]*)\n(.*?)^```$", page, flags=re.M | re.S)
    return [(language, words.split(), text) for language, words, text in found]


def main():
    page, program = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    wanted = {"ci", "long"} if sys.argv[3:] == ["long"] else {"ci"}
    root = Path(__file__).resolve().parent.parent
    ran = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name in FOLDERS:
            (folder / name).symlink_to(root / name)
        (folder / "bin").mkdir()
        (folder / "bin/lowmark").symlink_to(program)
        env = dict(os.environ, PATH=f"{folder / 'bin'}:{os.environ['PATH']}")
        for language, words, text in blocks(page.read_text(encoding="utf-8")):
            if not wanted & set(words):
                continue
            ran += 1
            files = [w.removeprefix("file=") for w in words if w.startswith("file=")]
            if files:
                (folder / files[0]).write_text(text, encoding="utf-8")
                continue
            print(f"$ {text}", end="", flush=True)
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=env,
                                  stdout=subprocess.DEVNULL)
            if done.returncode != 0:
                print(f"{page}: the block above ended with {done.returncode}", file=sys.stderr)
                sys.exit(done.returncode)
    if ran == 0:
        print(f"{page}: no block is marked {' or '.join(sorted(wanted))}", file=sys.stderr)
        sys.exit(2)


main()
