"""``python -m lowmark search`` and ``sweep``: the functions that the package adds to the command
line, for a shell."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from typing import Any

from . import Error, search, sweep
from ._error import wrong


def value(text: str) -> Any:
    """Parses a value of ``--set``: TOML, or a word."""
    try:
        return tomllib.loads(f"it = {text}")["it"]
    except tomllib.TOMLDecodeError:
        return text


def named(option: str, text: str) -> tuple[str, str]:
    """Splits ``KEY=…``."""
    key, equals, rest = text.partition("=")
    if not (key and equals and rest):
        raise wrong(f"{option} {text}: accepted: KEY=VALUE,VALUE,…")
    return key, rest


def axis(option: str, text: str) -> tuple[str, list[Any]]:
    """Parses ``KEY=VALUE,VALUE,…``, or a TOML list after the sign."""
    key, rest = named(option, text)
    listed = value(rest)
    return key, listed if isinstance(listed, list) else [value(part) for part in rest.split(",")]


def place(text: str) -> tuple[str, Any]:
    """Parses ``KEY=LOW..HIGH``, or values to choose from."""
    key, rest = named("--space", text)
    low, dots, high = rest.partition("..")
    if not dots:
        return axis("--space", text)
    ends = value(low), value(high)
    if not all(isinstance(end, (int, float)) for end in ends):
        raise wrong(f"--space {text}: accepted: KEY=LOW..HIGH of numbers, KEY=VALUE,VALUE,…")
    return key, ends


def parser() -> argparse.ArgumentParser:
    """Makes the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m lowmark", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    searching = commands.add_parser("search", help="settings that make goals small, by nevergrad")
    sweeping = commands.add_parser("sweep", help="an experiment for each combination of settings")
    searching.add_argument(
        "--space", action="append", default=[], metavar="KEY=LOW..HIGH", help="or KEY=VALUE,VALUE,…; repeatable"
    )
    searching.add_argument(
        "--goal", action="append", default=[], metavar="NAME", help="a figure that is to be small; large: --goal=-NAME"
    )
    searching.add_argument("--budget", type=int, default=50, help="trials (50)")
    searching.add_argument("--parallel", type=int, default=4, help="trials at a time (4)")
    searching.add_argument("--optimizer", default="NGOpt", help="one of nevergrad's (NGOpt)")
    searching.add_argument("--seed", type=int, default=1, help="of the optimiser (1)")
    searching.add_argument("--json", action="store_true", help="every trial as JSON")
    for command, seeds in (searching, 3), (sweeping, None):
        command.add_argument("experiment", help="an experiment's file")
        command.add_argument("--axis", action="append", default=[], metavar="KEY=VALUE,VALUE,…", help="repeatable")
        command.add_argument("--seeds", type=int, default=seeds, help="seeds of every combination")
        command.add_argument("--iterations", type=int, default=1 if seeds else None)
        command.add_argument("--executor", choices=["local", "ray"], default="local")
        command.add_argument("--store", default="sweep", help="a folder, or a URL of fsspec's (sweep)")
    sweeping.add_argument("--out", metavar="FILE", help="all results as one Parquet file")
    return top


def searched(told: argparse.Namespace) -> str:
    """Runs a search and returns the printed answer."""
    found = search(
        told.experiment,
        dict(map(place, told.space)),
        told.goal,
        budget=told.budget,
        parallel=told.parallel,
        seeds=told.seeds,
        iterations=told.iterations,
        axes=dict(axis("--axis", text) for text in told.axis),
        executor=told.executor,
        store=told.store,
        optimizer=told.optimizer,
        seed=told.seed,
    )
    front = [found.trials.index(trial) for trial in found.front]
    if told.json:
        trials = [{"settings": trial.settings, "losses": trial.losses} for trial in found.trials]
        return json.dumps({"goals": found.goals, "front": front, "trials": trials})
    if not front:
        raise Error(f"none of {len(found.trials)} trials got through; accepted: a longer `time_limit_s`, another space")
    lines = [f"{len(front)} of {len(found.trials)} trials are beaten by none in all of: {', '.join(found.goals)}"]
    for trial in found.front:
        losses = ", ".join(f"{goal} {abs(loss):.6g}" for goal, loss in zip(found.goals, trial.losses, strict=True))
        settings = "  ".join(f"{k}={v}" for k, v in trial.settings.items())
        lines.append(f"{losses}:  {settings}")
    return "\n".join(lines)


def swept(told: argparse.Namespace) -> str:
    """Runs a sweep and returns the printed answer."""
    axes = dict(axis("--axis", text) for text in told.axis)
    done = sweep(
        told.experiment,
        axes,
        executor=told.executor,
        store=told.store,
        seeds=told.seeds,
        iterations=told.iterations,
    )
    if told.out:
        import pyarrow.parquet

        try:
            pyarrow.parquet.write_table(done.to_arrow(), told.out)
        except OSError as e:
            raise Error(f"{told.out}: {e}") from None
    return f"{len(done)} cells, {done.ran} of them run, in {done.store.url}"


def main(words: list[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    told = parser().parse_args(words)
    try:
        print(searched(told) if told.command == "search" else swept(told))
    except Error as e:
        print(e, file=sys.stderr)
        return getattr(e, "code", 1)
    except KeyboardInterrupt:
        print("stopped; what is finished is in the store, and the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
