#!/usr/bin/env python3
"""Measures the cost of `lowmark record`: a sequential write with and without it, in pairs.

usage: overhead.py LOWMARK [--pairs N] [--mib N] [--interval TIME] [--no-events] [--dir DIR]
[--cached] [--memory]

Each pair writes a file twice with dd, once during a recording and once without, in random order;
earlier data is written out and removed first. dd ends with fdatasync; with --cached it does not, so
that only computation and not the disk's variation is measured. With --memory the file is larger
than free memory, so that reclaim and its tracepoints are active. Prints throughput, the median of
the pairs' ratios, and its 95 % interval by the binomial distribution of ranks; the same for dd's
CPU time. Exit code 1 if the interval begins above 3 %.
"""

import argparse
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR = 0.03
# Seconds from the start of a recording to the write.
SETTLE = 1.0


def available():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemFree:"):
            return int(line.split()[1]) // 1024
    return 0


def write(file, mib, cached):
    """Writes once; returns MiB/s by dd's own clock, and dd's CPU seconds."""
    os.sync()
    if file.exists():
        file.unlink()
        os.sync()
    dd = ["dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={mib}"]
    dd += [] if cached else ["conv=fdatasync"]
    process = subprocess.Popen(dd, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(dd)}: {said}")
    for line in said.splitlines():
        if " copied, " in line:
            return mib / float(line.split(" copied, ")[1].split()[0]), used.ru_utime + used.ru_stime
    sys.exit(f"dd does not say how long it took: {said}")


class Recording:
    """A running recording."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(SETTLE)

    def end(self):
        if self.process.poll() is not None:
            sys.exit("the recording ended by itself")
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def interval(values):
    """Returns the median's 95 % interval, by ranks; the whole range if there are too few values."""
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
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    binary = args.lowmark.resolve()
    mib = available() + 1024 if args.memory else args.mib
    chance = random.Random(1)
    ratios, times, plain, recorded = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="lowmark-record-", dir=args.dir) as folder:
        folder = Path(folder)
        record = [str(binary), "record", "--quiet", "--duration", "1h", "--interval", args.interval]
        record += ["--replace", "--out", str(folder / "r")]
        record += ["--no-events"] if args.no_events else []
        file = folder / "z"
        write(file, min(mib, 200), args.cached)
        for pair in range(args.pairs):
            both = {}
            for which in chance.sample([False, True], 2):
                recording = Recording(record) if which else time.sleep(SETTLE)
                both[which] = write(file, mib, args.cached)
                if recording:
                    recording.end()
            (speed, cpu), (slower, more) = both[False], both[True]
            plain.append(speed)
            recorded.append(slower)
            ratios.append(1 - slower / speed)
            times.append(more / cpu - 1)
            print(
                f"pair {pair + 1}: {speed:.0f} MiB/s and {cpu:.3f} s of CPU, recorded {slower:.0f} and {more:.3f}",
                flush=True,
            )
    low, high = interval(ratios)
    middle = statistics.median(ratios)
    print(
        f"{mib} MiB, {args.pairs} pairs: {statistics.median(plain):.0f} MiB/s without, "
        f"{statistics.median(recorded):.0f} recorded; cost {100 * middle:.2f} % "
        f"(95 % interval {100 * low:.2f} to {100 * high:.2f})"
    )
    middle = statistics.median(times)
    least, most = interval(times)
    print(
        f"CPU time of dd: {100 * middle:+.2f} % beside a recording (95 % interval {100 * least:.2f} to {100 * most:.2f}); "
        "on a busy machine this says more than throughput"
    )
    sys.exit(1 if low > BAR else 0)


if __name__ == "__main__":
    main()
