"""Measures the overhead of sweeps on this machine: python measure_sweep.py CELLS [ROUNDS].

Runs small cells through Ray and through threads of one process alternately, so that both meet the
same noise; one of Ray's workers is killed every 30 s. Prints times, processor times (which a busy
machine changes less), the driver's memory, and whether the bytes are equal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import lowmark
import psutil

CELL: dict[str, Any] = {
    "name": "small",
    "iterations": 1,
    "policy": "linux-3.1",
    "filesystem": "ext4",
    "machine": "machines/512M.toml",
    "workload": {"command": "dd if=/dev/zero of=a bs=64k count=64"},
}


def sweep(executor: Any, store: str, first: int, cells: int) -> float:
    done = lowmark.sweep(
        CELL,
        {"machine.cpus": [1, 2, 3, 4]},
        seeds=range(first, first + cells // 4),
        store=store,
        executor=executor,
        workers=os.cpu_count(),
        progress=False,
    )
    assert done.ran + (executor == "ray") * cells >= cells
    return done.seconds


def ray_cpu() -> float:
    """Returns the processor seconds of the driver and of all of Ray's live processes."""
    total = time.process_time()
    for process in psutil.Process().children(recursive=True):
        try:
            spent = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system
    return total


def files(folder: str) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in Path(folder).rglob("*.parquet")}


def main() -> None:
    import ray

    cells, rounds = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    folder = tempfile.mkdtemp()
    # Started as by the package: workers with the same priority as the threads that they are
    # compared with.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, logging_level="error")
    killed, running, peak, over = 0, threading.Event(), 0, False

    def watch() -> None:
        nonlocal killed, peak
        last = time.monotonic()
        while not over:
            peak = max(peak, psutil.Process().memory_info().rss)
            time.sleep(0.1)
            if not running.is_set():
                last += 0.1
            elif time.monotonic() - last > 30:
                for process in psutil.process_iter(["cmdline"]):
                    if any("ray::_told" in word for word in process.info["cmdline"] or []):
                        os.kill(process.pid, signal.SIGKILL)
                        killed, last = killed + 1, time.monotonic()
                        break

    threading.Thread(target=watch, daemon=True).start()
    times: dict[str, list[float]] = {"ray": [], "local": []}
    cpu = {"ray": 0.0, "local": 0.0}
    memory = []
    for turn in range(rounds):
        first, share = 1 + turn * (cells // 4 // rounds), cells // rounds
        running.set()
        before = ray_cpu()
        times["ray"].append(sweep("ray", f"{folder}/ray", first, share))
        running.clear()
        cpu["ray"] += ray_cpu() - before
        memory.append(psutil.Process().memory_info().rss >> 20)
        words = [sys.executable, __file__, "--local", f"{folder}/local", str(first), str(share)]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
        times["local"].append(float(said[0]))
        cpu["local"] += float(said[1])
        print(turn, {k: round(v[-1], 1) for k, v in times.items()}, memory[-1], "MiB", killed, "killed", flush=True)
    over = True
    local, remote = files(f"{folder}/local"), files(f"{folder}/ray")
    print(
        json.dumps(
            {
                "cells": len(remote),
                "bytes": sum(map(len, remote.values())),
                "equal": local == remote,
                "ray_s": round(sum(times["ray"]), 1),
                "local_s": round(sum(times["local"]), 1),
                "ratio": round(sum(times["ray"]) / sum(times["local"]), 3),
                "driver_peak_MiB": peak >> 20,
                "driver_after_rounds_MiB": memory,
                "killed": killed,
                "cpu_ms_per_cell": {k: round(1000 * v / cells, 2) for k, v in cpu.items()},
            }
        )
    )


if __name__ == "__main__":
    if sys.argv[1] == "--local":
        begun = time.process_time()
        seconds = sweep("local", sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        print(seconds, time.process_time() - begun)
    else:
        main()
