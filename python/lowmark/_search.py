"""Searches for the settings that minimise goals."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from ._error import failed, whole, wrong
from ._run import Experiment, given
from ._sweep import RETRIES, Axes, Limits, Points, Several, swept

Goal = str | Callable[[Any], float]
"""A goal to minimise: a column of ``iterations`` whose mean is taken over all workloads, machines
and seeds (with a ``-`` in front it is maximised), or a function of the cell's pyarrow table."""

Range = tuple[float, float] | Sequence[Any]


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and their results."""

    settings: dict[str, Any]
    """The settings, by key of the experiment."""
    losses: tuple[float, ...]
    """A figure per goal, in the order of the goals: smaller is better."""

    def dominates(self, other: Trial) -> bool:
        """Returns True if it is at least as good in all goals and better in one."""
        pairs = list(zip(self.losses, other.losses, strict=True))
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    goals: list[str]
    """The goals' names."""
    trials: list[Trial] = field(default_factory=list)
    """All trials, in order."""

    @property
    def front(self) -> list[Trial]:
        """Returns the trials that no other dominates, ordered by the first goal: one, if goals do
        not conflict."""
        best: dict[tuple[float, ...], Trial] = {}
        for trial in self.trials:
            if all(map(math.isfinite, trial.losses)):
                best.setdefault(trial.losses, trial)
        own = [t for t in best.values() if not any(o.dominates(t) for o in best.values())]
        return sorted(own, key=lambda t: t.losses)

    @property
    def best(self) -> Trial:
        """Returns the trial that is best by the first goal."""
        if not self.front:
            raise failed("no trial has a figure for every goal")
        return self.front[0]


def search(
    experiment: Experiment,
    space: Mapping[str, Range],
    goals: Goal | Sequence[Goal],
    *,
    budget: int = 50,
    parallel: int = 4,
    seeds: int | Sequence[int] = 3,
    iterations: int | None = 1,
    axes: Axes | None = None,
    executor: Literal["local", "ray"] = "local",
    store: str | PathLike[str] = "sweep",
    optimizer: str = "NGOpt",
    seed: int = 1,
) -> Found:
    """Searches for settings of an experiment that minimise the goals.

    ``space`` maps a key of the experiment to a range ``(low, high)`` of numbers (whole ones, if
    both ends are), or to a list of values. Each trial is a sweep over ``seeds`` and ``axes``
    (machines, workloads, disks), so trials are kept in ``store``, run where ``executor`` says, and
    never run twice. Axes that the experiment itself varies are included. nevergrad proposes
    ``parallel`` trials at a time, whose cells are run together, and gets all results in order: the
    same ``seed`` gives the same answer on any number of workers.

    :raises Error: the arguments are wrong, or a trial could not be run.
    """
    for name, number in {"budget": budget, "parallel": parallel}.items():
        whole(name, number, 1)
    whole("seed", seed, 0, 2**32 - 1)
    try:
        import nevergrad
    except ImportError:
        raise wrong("lowmark.search needs nevergrad; accepted: pip install 'lowmark[search]'") from None
    if not space:
        raise wrong("the space has no key; accepted: keys of the experiment, each with a range or a list")
    wanted: list[Goal] = [goals] if isinstance(goals, str) or callable(goals) else list(goals)
    names = [g if isinstance(g, str) else getattr(g, "__name__", "goal") for g in wanted]
    if not wanted:
        raise wrong("there is no goal; accepted: figures of iterations, functions of their table")
    base = given(experiment, iterations=iterations)
    limits = Limits(None, 1, None, RETRIES)
    found = Found(names)
    parameters = nevergrad.p.Dict(**{k: _parameter(nevergrad, v) for k, v in space.items()})
    parameters.random_state.seed(seed)
    if optimizer not in nevergrad.optimizers.registry:
        near = difflib.get_close_matches(optimizer, nevergrad.optimizers.registry)
        raise wrong(f"optimizer={optimizer!r} is none of nevergrad's; accepted: {', '.join(near) or 'NGOpt, …'}")
    engine = nevergrad.optimizers.registry[optimizer](parameters, budget=budget, num_workers=parallel)
    while len(found.trials) < budget:
        asked = [engine.ask() for _ in range(min(parallel, budget - len(found.trials)))]
        tried = [{k: _plain(v) for k, v in candidate.value.items()} for candidate in asked]
        # Equal settings share one set of cells, which is run once.
        alike = {json.dumps(settings, default=str): settings for settings in tried}
        each = [Points({**{k: [v] for k, v in one.items()}, **(axes or {})}, seeds) for one in alike.values()]
        cells = swept(base, Several(each), executor, store, limits, progress=False)
        losses_of = {}
        for place, name in enumerate(alike):
            size = len(each[place])
            table = cells.to_arrow(range(place * size, (place + 1) * size))
            losses_of[name] = tuple(_loss(goal, table) for goal in wanted)
        for candidate, settings in zip(asked, tried, strict=True):
            losses = losses_of[json.dumps(settings, default=str)]
            found.trials.append(Trial(settings, losses))
            finite = [x if math.isfinite(x) else 1e30 for x in losses]
            engine.tell(candidate, finite if len(finite) > 1 else finite[0])
    return found


def _parameter(nevergrad: Any, what: Range) -> Any:
    if not isinstance(what, tuple):
        return nevergrad.p.Choice(list(what))
    if len(what) != 2 or not all(isinstance(end, (int, float)) for end in what):
        raise wrong(f"{what}: accepted: (low, high), or a list of values")
    low, high = what
    if not low < high:
        raise wrong(f"{what}: accepted: (low, high) with low below high, or a list of values")
    if low > 0 and high / low >= 100:
        scalar = nevergrad.p.Log(lower=low, upper=high)
    else:
        scalar = nevergrad.p.Scalar(lower=low, upper=high)
    whole = isinstance(low, int) and isinstance(high, int)
    return scalar.set_integer_casting() if whole else scalar


def _plain(what: Any) -> Any:
    item = getattr(what, "item", None)
    return item() if callable(item) else what


def _loss(goal: Goal, table: Any) -> float:
    if callable(goal):
        return float(goal(table))
    import pyarrow.compute

    name = goal.removeprefix("-")
    columns: list[str] = table.column_names
    column = next((c for c in columns if c == name or c.partition(" [")[0] == name), None)
    if column is None:
        near = difflib.get_close_matches(name, [c.partition(" [")[0] for c in columns])
        hint = f" ({', '.join(near)}?)" if near else ""
        raise wrong(f"no iteration has the figure `{name}`{hint}; accepted: a column of Result.iterations")
    values = table.filter(pyarrow.compute.equal(table["outcome"], "completed"))[column]
    # A trial with failed iterations is worse than any that completed.
    if len(values) < table.num_rows or values.null_count:
        return math.inf
    mean = float(pyarrow.compute.mean(values).as_py())
    return -mean if goal.startswith("-") else mean
