"""Experiments, and what is asked of them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, TypeAlias

from . import _lowmark, _toml
from ._error import failed, whole
from ._result import Comparison, Result

Experiment: TypeAlias = Mapping[str, Any] | str | PathLike[str]
"""An experiment: a dict with the keys of an experiment file, a path, or the text of such a file (which is what a
str with a line break or an equals sign is)."""

Settings: TypeAlias = Mapping[str, Any] | Sequence[str]
"""What stands above an experiment, as ``--set``: ``{"machine.cpus": 2}`` or ``["machine.cpus=2"]``."""

Progress: TypeAlias = Callable[[int, int, float], object]
"""Is called with iterations done, iterations in all, simulated seconds so far."""


@dataclass(frozen=True)
class Given:
    """An experiment as the extension module takes it."""

    text: str | None
    name: Path
    set: list[str] = field(default_factory=list)
    iterations: int | None = None
    seed: int | None = None
    track_pages: bool = False


@dataclass(frozen=True)
class How:
    """How it is run."""

    jobs: int | None
    check: str | None
    out: str | PathLike[str] | None
    resume: str | PathLike[str] | None
    replace: bool
    patience: int
    build: str
    stop: _lowmark.Stop | None = None


def settings(what: Settings | None) -> list[str]:
    """``KEY=VALUE`` of each setting."""
    if what is None:
        return []
    if isinstance(what, Mapping):
        return [f"{k}={_toml.value(v)}" for k, v in what.items()]
    return list(what)


def given(
    experiment: Experiment,
    *,
    set: Settings | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    track_pages: bool = False,
) -> Given:
    """An experiment in whichever form, as one."""
    whole("iterations", iterations, 1, 2**32 - 1)
    whole("seed", seed, 0)
    if isinstance(experiment, Mapping):
        text: str | None = _toml.document(experiment)
        name = Path("experiment")
    elif isinstance(experiment, str) and ("\n" in experiment or "=" in experiment):
        text, name = experiment, Path("experiment")
    else:
        text, name = None, Path(fspath(experiment))
    return Given(text, name, settings(set), iterations, seed, track_pages)


@cache
def revision() -> str:
    """What tells this build of lowmark from others: the digest of its extension module.

    Results of two builds never stand side by side: neither in a run that is gone on with nor in a sweep's store.
    """
    return _lowmark.digest(str(_lowmark.__file__))


def looked_at() -> bool:
    """Whether there is somebody to show progress to: a notebook or a terminal."""
    return "ipykernel" in sys.modules or sys.stderr.isatty()


class Bar:
    """One line on a terminal or in a notebook."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._handle: Any = None
        self._notebook = "ipykernel" in sys.modules

    def __call__(self, done: int, total: int, simulated: float = 0.0) -> None:
        gone = max(time.monotonic() - self._begun, 1e-3)
        text = f"{done}/{total} {self._what}"
        if simulated:
            text += f", {simulated / gone:.0f} simulated s per s"
        if not self._notebook:
            end = "\n" if done == total else ""
            print(f"\r{text}\x1b[K", end=end, file=sys.stderr, flush=True)
            return
        from IPython.display import HTML, display

        shown = HTML(f"<progress value='{done}' max='{total}'></progress> {text}")
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)


def _heard(progress: Progress | bool | None) -> Progress | None:
    if progress is None:
        progress = looked_at()
    if isinstance(progress, bool):
        return Bar("iterations") if progress else None
    return progress


def run(
    experiment: Experiment,
    *,
    set: Settings | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    track_pages: bool = False,
    jobs: int | None = None,
    check: Literal["sampled", "full"] | None = None,
    out: str | PathLike[str] | None = None,
    resume: str | PathLike[str] | None = None,
    replace: bool = False,
    patience: int = 60,
    progress: Progress | bool | None = None,
) -> Result:
    """Runs an experiment, on all cores, without Python's lock.

    The results are the same bytes as those of ``lowmark run`` with the options of the same names, for any
    ``jobs``. With ``out`` they go into that folder, and Ctrl-C leaves what is finished beside it, from where
    ``resume=out`` goes on; without, they are in memory alone (:meth:`Result.save`).

    ``progress`` is a function, True for a line on the terminal or in the notebook, False for none; by default there
    is one where a person looks on.

    :raises Error: what the command line would say. If iterations failed, its ``result`` has those that did not.
    """
    whole("jobs", jobs, 1)
    whole("patience", patience, 0)
    what = given(experiment, set=set, iterations=iterations, seed=seed, track_pages=track_pages)
    how = How(jobs, check, out, resume, replace, patience, revision())
    result = Result(_lowmark.run(what, how, _heard(progress)))
    if result.failed is not None:
        error = failed(result.failed)
        error.result = result
        raise error
    return result


def compare(experiment: Experiment | Result, **options: Any) -> Comparison:
    """Says which policy of an experiment is better: ``compare(E)`` is ``run(E).compare()``.

    The options are those of :func:`run`; a :class:`Result` is compared as it is.
    """
    if isinstance(experiment, Result):
        if options:
            raise TypeError("a Result has been run: there is nothing to set")
        return experiment.compare()
    return run(experiment, **options).compare()


@dataclass(frozen=True)
class Reproduction:
    """Published tables beside what the engine gives."""

    json: dict[str, Any]
    """As ``lowmark reproduce --json`` prints it."""
    text: str
    """As ``lowmark reproduce`` prints it."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every cell of the tables: published, measured, within tolerance or not."""
        return [row | {"series": s["name"]} for s in self.json["series"] for row in s["rows"]]

    def __str__(self) -> str:
        return self.text


def reproduce(
    series: str | None = None, *, iterations: int | None = None, jobs: int | None = None
) -> Reproduction:
    """Scores the engine against a published series, or against all (which takes over an hour)."""
    whole("iterations", iterations, 1, 2**32 - 1)
    whole("jobs", jobs, 1)
    text, shown = _lowmark.reproduce(series, iterations, jobs)
    return Reproduction(json.loads(text), shown)
