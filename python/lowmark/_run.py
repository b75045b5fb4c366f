"""Runs and compares experiments."""

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
"""An experiment: a dict with the keys of an experiment file, a path, or the text of such a file (a
str with a line break or an equals sign)."""

Settings: TypeAlias = Mapping[str, Any] | Sequence[str]
"""Settings that override an experiment, like ``--set``: ``{"machine.cpus": 2}`` or
``["machine.cpus=2"]``."""

Progress: TypeAlias = Callable[[int, int, float], object]
"""Called with the finished iterations, the total, and the simulated seconds so far."""


@dataclass(frozen=True)
class Given:
    """An experiment in the form that the extension module takes."""

    text: str | None
    name: Path
    set: list[str] = field(default_factory=list)
    iterations: int | None = None
    seed: int | None = None
    track_pages: bool = False


@dataclass(frozen=True)
class How:
    """The options of a run."""

    jobs: int | None
    check: str | None
    out: str | PathLike[str] | None
    resume: str | PathLike[str] | None
    replace: bool
    patience: int
    build: str
    stop: _lowmark.Stop | None = None


def settings(what: Settings | None) -> list[str]:
    """Returns ``KEY=VALUE`` for each setting."""
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
    """Converts an experiment from any of its forms."""
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
    """Returns the digest of the extension module, which identifies this build of lowmark.

    Results of different builds are never mixed: neither when a run is continued nor in a sweep's
    store.
    """
    return _lowmark.digest(str(_lowmark.__file__))


def looked_at() -> bool:
    """Returns True if progress can be shown: in a notebook or on a terminal."""
    return "ipykernel" in sys.modules or sys.stderr.isatty()


class Bar:
    """Progress as one line on a terminal or in a notebook."""

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
    """Runs an experiment on all cores, without Python's lock.

    The results are the same bytes as those of ``lowmark run`` with the options of the same names,
    for any ``jobs``. With ``out`` they are written to that folder, and Ctrl-C leaves the finished
    iterations beside it, from where ``resume=out`` continues; without, they are kept in memory only
    (:meth:`Result.save`).

    ``progress`` is a function, True for a line on the terminal or in the notebook, False for none;
    by default there is a line if it can be shown.

    :raises Error: as the command line reports it. If iterations failed, ``result`` has the others.
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
    """Returns which policy of an experiment is better: ``compare(E)`` is ``run(E).compare()``.

    The options are those of :func:`run`; a :class:`Result` is compared without a run.
    """
    if isinstance(experiment, Result):
        if options:
            raise TypeError("a Result has been run: there is nothing to set")
        return experiment.compare()
    return run(experiment, **options).compare()


@dataclass(frozen=True)
class Reproduction:
    """Published tables beside the engine's figures."""

    json: dict[str, Any]
    """The document of ``lowmark reproduce --json``."""
    text: str
    """The output of ``lowmark reproduce``."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Returns every cell of the tables: published, measured, within tolerance or not."""
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
