#!/usr/bin/env python3
"""What `lowmark record` costs: a sequential write with and without it, in pairs.

usage: overhead.py LOWMARK [--pairs N] [--mib N] [--interval TIME] [--no-events] [--dir DIR] [--memory]

Each pair writes a file twice with dd (conv=fdatasync), once recorded and once not, in an order by lot; what came
before is written out and forgotten first (sync, and as root the file's own pages). With --memory the file is larger than
what is free, so that reclaim works and its tracepoints speak. Prints throughput, the median of the pairs' ratios, and
its interval at 95 % by the binomial distribution of ranks. Exit code 1 if the interval begins above 3 %.
"""

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR = 0.03


def available():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemFree:"):
            return int(line.split()[1]) // 1024
    return 0


def write(command, file, mib):
    """MiB/s of one write."""
    os.sync()
    if file.exists():
        file.unlink()
    began = time.monotonic()
    dd = ["dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={mib}", "conv=fdatasync"]
    done = subprocess.run(command + dd, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False)
    took = time.monotonic() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(command + dd)}: {done.stderr}")
    # dd's own time: starting and ending a recording is no part of what is written.
    for line in done.stderr.splitlines():
        if " copied, " in line:
            took = float(line.split(" copied, ")[1].split()[0])
    return mib / took


def interval(values):
    """The median's interval at 95 %, by ranks; the whole range where there are too few."""
    values = sorted(values)
    n = len(values)
    below = 0.0
    for k in range(n // 2):
        below += math.comb(n, k) / 2**n
        if 2 * below > 0.05:
            return (values[k - 1], values[n - k]) if k > 0 else (values[0], values[-1])
    return values[0], values[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lowmark", type=Path)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--mib", type=int, default=1000)
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--no-events", action="store_true")
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    binary = args.lowmark.resolve()
    mib = available() + 1024 if args.memory else args.mib
    chance = random.Random(1)
    ratios, plain, recorded = [], [], []
    with tempfile.TemporaryDirectory(prefix="lowmark-record-", dir=args.dir) as folder:
        folder = Path(folder)
        record = [str(binary), "record", "--quiet", "--interval", args.interval, "--replace", "--out", str(folder / "r")]
        record += ["--no-events"] if args.no_events else []
        write([], folder / "z", min(mib, 200))
        for pair in range(args.pairs):
            both = {}
            for which in chance.sample([False, True], 2):
                both[which] = write([*record, "--"] if which else [], folder / "z", mib)
            plain.append(both[False])
            recorded.append(both[True])
            ratios.append(1 - both[True] / both[False])
            print(f"pair {pair + 1}: {both[False]:.0f} MiB/s, recorded {both[True]:.0f}", flush=True)
    low, high = interval(ratios)
    middle = statistics.median(ratios)
    print(
        f"{mib} MiB, {args.pairs} pairs: {statistics.median(plain):.0f} MiB/s without, "
        f"{statistics.median(recorded):.0f} recorded; cost {100 * middle:.2f} % "
        f"(95 % interval {100 * low:.2f} to {100 * high:.2f})"
    )
    sys.exit(1 if low > BAR else 0)


if __name__ == "__main__":
    main()
