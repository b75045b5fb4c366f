#!/usr/bin/env python3
"""Kills a run at random times and resumes it, until the wanted number of kills have hit.

usage: kill.py LOWMARK [KILLS] [SEED]

Every completed run must have the bytes of an uninterrupted one. Every second round replaces earlier
results, which must be there, whole, until the new ones are. Prints the counts.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import TINY, fail, lowmark, tree


def whole_text(said):
    """Returns an error as one line, without the frame in which it is wrapped."""
    return " ".join(word for word in said.decode().split() if word != "│")


def main():
    binary = Path(sys.argv[1]).resolve()
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    chance = random.Random(seed)
    hit = rounds = kept = before = swapped = 0
    with tempfile.TemporaryDirectory(prefix="lowmark-kill-") as folder:
        folder = Path(folder)
        run = ["run", TINY, "--quiet"]
        began = time.monotonic()
        lowmark(binary, *run, "--out", "whole", cwd=folder)
        length = time.monotonic() - began
        lowmark(binary, *run, "--out", "old", "--iterations", 1, cwd=folder)
        whole, old = tree(folder / "whole"), tree(folder / "old")
        if not whole or not old:
            fail("no results without a kill")
        while hit < kills:
            rounds += 1
            out = folder / "work" / "out"
            replacing = rounds % 2 == 0
            if replacing:
                lowmark(binary, *run, "--out", out, "--iterations", 1, cwd=folder)
            partial = out.with_name("out.partial")
            while True:
                if partial.exists():
                    place = ["--resume", out]
                    # The folder knows by which command its run began.
                    words = chance.choice([run, run[:1]])
                else:
                    place = ["--out", out]
                    words = run
                more = ["--replace"] if replacing else []
                jobs = ["--jobs", str(chance.randint(1, 3))]
                # The kill hits while the run starts, while it computes or while it writes.
                wait = chance.choice([0.02, 0.2, 0.6, 1.0]) * length * chance.random()
                process = subprocess.Popen(
                    [binary, *words, *place, *more, *jobs],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )
                try:
                    _, said = process.communicate(timeout=wait if hit < kills else None)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    _, said = process.communicate()
                if process.returncode == -signal.SIGKILL:
                    hit += 1
                    found = tree(out)
                    if found == whole and not partial.exists():
                        # The kill hit between the run's last step and its exit code.
                        swapped += 1
                        break
                    if found == whole:
                        swapped += 1
                    elif found != (old if replacing else None):
                        fail(f"kill {hit}, seed {seed}: {out} is neither old nor new")
                    if found != whole:
                        log = partial / "iterations.log"
                        begun = log.exists() and log.stat().st_size > 5000
                        kept, before = kept + begun, before + (not begun)
                elif process.returncode == 2 and "holds no interrupted run" in whole_text(said):
                    # The last kill hit before the log had begun.
                    if partial.exists():
                        fail(f"kill {hit}: {partial} holds nothing and stays")
                    if tree(out) == whole:
                        # One kill hit with the results in place, the next one while the rest was
                        # cleared away.
                        break
                elif process.returncode != 0:
                    fail(f"exit code {process.returncode} after {hit} kills", said.decode())
                else:
                    break
            if tree(out) != whole:
                fail(f"round {rounds}, seed {seed}: other bytes than without a kill")
            left = sorted(p.name for p in out.parent.iterdir())
            if left != ["out"]:
                fail(f"round {rounds}: something is left beside the results: {left}")
            lowmark(binary, "results", "work", "--keep-below", 0, "--yes", cwd=folder)
            if (folder / "work").exists():
                fail(f"round {rounds}: the results can't be removed")
            (folder / "work").mkdir()
    print(
        f"{hit} kills in {rounds} runs (seed {seed}): {before} before the first iteration was kept, "
        f"{kept} later, {swapped} after the new results were in place; "
        f"all {rounds} ended with the bytes of an unbroken run"
    )


main()
