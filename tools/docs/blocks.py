#!/usr/bin/env python3
"""Checks that pages show what their commands print: runs the commands, and compares.

    tools/docs/blocks.py LOWMARK [ci|long|kernel] [--write] [PAGE …]
    tools/docs/blocks.py --lint [PAGE …]

Without a page: README.md and all pages of docs/ that have a marked command. `ci` (the default)
marks commands that take seconds, `long` minutes, `kernel` those that need kernels made by `lowmark
kernel build`; `long` also runs commands marked `ci`, and `kernel` runs all. The pieces of a page,
processed in the order of the page:

    ```sh ci                  commands
    ```toml file=NAME ci      a file
    ```text                   after commands: their output. `first=N` and `last=N` select lines of
                              it, `with=REGEX` matching lines, `from=REGEX` and `to=REGEX` the
                              lines between.
    <!-- prints ci: COMMAND -->WHAT<!-- /prints -->
                              the output of a command, within a sentence or, on its own lines,
                              within a page; a `lowmark … --format markdown` gives a table,
                              `tools/docs/figure.py` one figure.

Each page is run in its own temporary folder with the project's experiments, machines, policies,
data, docs and tools, so no file is left in the project. Pages show the standard output of commands. Parts
that vary from run to run are replaced by a word: FOLDER is the temporary folder, TIME a point in
time, BUILD the program's commit, and … a number of real seconds or of operations per second. All
other output must be equal to the letter, since runs are simulated.

A failing command ends its page. The exit code is 1 then, and if a page shows something else than
the commands print; the difference is printed. `--write` writes the output of commands to the pages
instead. `--lint` runs nothing and lists texts after commands that no mark runs; a text that no
command can print (from another computer, or another day) is marked `example`, and its page says so.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("experiments", "machines", "policies", "data", "docs", "tools")
MARKS = ("ci", "long", "kernel")
USAGE = 2
# A fenced block, or what a command prints between comments.
PIECE = re.compile(
    r"^```(?P<language>\S*)(?P<words>[^\n]*)\n(?P<text>.*?)^```$"
    r"|<!-- prints (?P<mark>\w+): (?P<command>[^\n]*?) -->(?P<shown>.*?)<!-- /prints -->",
    flags=re.M | re.S)
# Patterns of text that differs from one run to the next, each with the text shown in its place.
VARIES = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"(lowmark \d+\.\d+\.\d+) \([^)\n]*\)"), r"\1 (BUILD)"),
    (re.compile(r"[\d.]+ (s of wall time|real seconds|s of CPU time)"), r"… \1"),
    (re.compile(r"\([\d.]+ per second\)"), "(… per second)"),
)


class Wrong(Exception):
    """A page can't be run in its present form."""


def steady(text, folder):
    """Replaces the varying parts of a text by words."""
    text = text.replace(str(folder), "FOLDER")
    for what, word in VARIES:
        text = what.sub(word, text)
    return text


def chosen(text, words):
    """Returns those lines of a text that the words after ```text select."""
    lines = text.splitlines()
    for word in words:
        key, _, value = word.partition("=")
        if key == "first":
            lines = lines[:int(value)]
        elif key == "last":
            lines = lines[-int(value):]
        elif key == "with":
            lines = [line for line in lines if re.search(value, line)]
        elif key == "from":
            at = next((i for i, line in enumerate(lines) if re.search(value, line)), len(lines))
            lines = lines[at:]
        elif key == "to":
            at = next((i for i, line in enumerate(lines) if re.search(value, line)), len(lines))
            lines = lines[:at + 1]
        else:
            raise Wrong(f"`{word}` is none of first=N, last=N, with=REGEX, from=REGEX, to=REGEX")
    # The page decides which lines are left to align, not the program.
    return "".join(line.rstrip() + "\n" for line in lines).strip("\n") + "\n"


def marks_of(words):
    """Returns the mark of a block, if it has one."""
    found = [word for word in words if word in MARKS]
    return found[0] if found else None


class Shown:
    """The folder of a page, in which its commands run one after the other."""

    def __init__(self, folder, program, wanted):
        self.folder, self.wanted, self.ran = folder, wanted, 0
        for name in FOLDERS:
            (folder / name).symlink_to(ROOT / name)
        (folder / "bin").mkdir()
        (folder / "bin/lowmark").symlink_to(program)
        self.env = dict(os.environ, PATH=f"{folder / 'bin'}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1")

    def run(self, command):
        """Runs commands and returns their output."""
        self.ran += 1
        print(f"$ {command.strip()}", flush=True)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=self.folder, env=self.env,
                              stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Wrong(f"the command above ended with {done.returncode}")
        return steady(done.stdout, self.folder)

    def page(self, text):
        """Returns the page with the output of its commands."""
        out, at, printed = [], 0, None
        for piece in PIECE.finditer(text):
            out.append(text[at:piece.start()])
            at = piece.end()
            new, printed = self.piece(piece, printed)
            out.append(new)
        return "".join(out) + text[at:]

    def piece(self, piece, printed):
        """Returns a corrected piece, and the output of the commands before the next one."""
        whole, command = piece.group(0), piece["command"]
        if command is not None:
            if piece["mark"] not in MARKS:
                raise Wrong(f"`prints {piece['mark']}` is none of {', '.join(MARKS)}")
            if piece["mark"] not in self.wanted:
                return whole, printed
            said = self.run(command)
            said = f"\n{said.strip()}\n" if piece["shown"].startswith("\n") else said.strip()
            if "\n" in said and not piece["shown"].startswith("\n"):
                raise Wrong(f"`{command}` prints several lines into a sentence")
            return f"<!-- prints {piece['mark']}: {command} -->{said}<!-- /prints -->", printed
        language, words, text = piece["language"], piece["words"].split(), piece["text"]
        if language == "text" and printed is not None and "example" not in words:
            return f"```text{piece['words']}\n{chosen(printed, words)}```", printed
        if marks_of(words) is None or marks_of(words) not in self.wanted:
            return whole, None if language in ("sh", "") else printed
        files = [w.removeprefix("file=") for w in words if w.startswith("file=")]
        if files:
            self.ran += 1
            (self.folder / files[0]).write_text(text, encoding="utf-8")
            return whole, printed
        return whole, self.run(text)


def lint(page, text):
    """Returns texts after commands that are not run, and prose markers that are malformed."""
    problems, command, at = [], None, 0
    # tools/docs/patches.py writes these blocks itself.
    text = re.sub(r"<!-- measured .*?<!-- /measured -->", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    for piece in PIECE.finditer(text):
        line = text[:piece.start()].count("\n") + 1
        if re.search(r"^#", text[at:piece.start()], flags=re.M):
            command = None
        at = piece.end()
        if piece["command"] is not None:
            if piece["mark"] not in MARKS:
                problems.append(f"{page}:{line}: `prints {piece['mark']}` is none of {', '.join(MARKS)}")
            continue
        language, words = piece["language"], piece["words"].split()
        if language in ("sh", ""):
            command = marks_of(words) or ""
        elif language == "text" and "example" not in words and command == "":
            problems.append(f"{page}:{line}: what the command above prints is not compared: mark it with one of "
                            f"{', '.join(MARKS)}, or the text `example`")
        elif language == "text" and "example" not in words and command is not None:
            try:
                chosen("", words)
            except (Wrong, ValueError, re.error) as e:
                problems.append(f"{page}:{line}: {e}")
    opened = len(re.findall(r"<!-- prints ", text))
    closed = len(re.findall(r"<!-- /prints -->", text))
    whole = sum(1 for piece in PIECE.finditer(text) if piece["command"] is not None)
    if not opened == closed == whole:
        problems.append(f"{page}: {opened} `<!-- prints MARK: COMMAND -->`, {closed} `<!-- /prints -->`")
    return problems


def pages_of(named):
    """Returns the named pages, or all."""
    if named:
        return [Path(name).resolve() for name in named]
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def show(path):
    """Returns a page's name for messages."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def check(path, program, wanted, write):
    """Checks a page; returns whether it has an error, and the number of commands run."""
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        shown = Shown(Path(folder).resolve(), program, wanted)
        try:
            made = shown.page(text)
        except Wrong as e:
            print(f"{show(path)}: {e}", file=sys.stderr)
            return True, shown.ran
    if made == text:
        return False, shown.ran
    if write:
        path.write_text(made, encoding="utf-8")
        print(f"{show(path)}: written")
        return False, shown.ran
    lines = [page.splitlines(keepends=True) for page in (text, made)]
    sys.stdout.writelines(difflib.unified_diff(*lines, str(show(path)), "as the commands print"))
    return True, shown.ran


def main():
    words = sys.argv[1:]
    write, only_lint = "--write" in words, "--lint" in words
    words = [word for word in words if word not in ("--write", "--lint")]
    if only_lint:
        problems = [p for path in pages_of(words) for p in lint(show(path), path.read_text(encoding="utf-8"))]
        print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
        sys.exit(1 if problems else 0)
    if not words or words[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(USAGE)
    program, words = Path(words[0]).resolve(), words[1:]
    most = words.pop(0) if words and words[0] in MARKS else "ci"
    wanted = set(MARKS[:MARKS.index(most) + 1])
    wrong = False
    for path in pages_of(words):
        failed, ran = check(path, program, wanted, write)
        wrong |= failed
        if words and ran == 0:
            print(f"{show(path)}: no block is marked {' or '.join(sorted(wanted))}", file=sys.stderr)
            sys.exit(USAGE)
    if wrong:
        print(f"written anew by: tools/docs/blocks.py LOWMARK {most} --write", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
