"""Computers as machine files."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from os import PathLike
from typing import Any

from . import _lowmark


@dataclass(frozen=True)
class Machine:
    """A machine file: in an experiment that is a dict it stands where a file's name would.

    >>> machine = Machine.capture()                                            # doctest: +SKIP
    >>> lowmark.run({"name": "here", "machine": machine, ...})                 # doctest: +SKIP
    """

    name: str
    """What reports call it."""
    text: str
    """The machine file, TOML with comments."""
    notes: tuple[str, ...] = ()
    """What the engine can't represent of it, or what was guessed."""

    @classmethod
    def capture(
        cls,
        root: str | PathLike[str] | None = None,
        *,
        name: str | None = None,
        disk: str | None = None,
    ) -> Machine:
        """This computer, or one whose /proc and /sys ``lowmark machine --save`` put into ``root``.

        ``disk`` is the tested one, by its name in /sys/block.
        """
        name, text, notes = _lowmark.capture(root, name, disk)
        return cls(name, text, tuple(notes))

    @property
    def table(self) -> dict[str, Any]:
        """The file as a dict, to change and put into an experiment."""
        return tomllib.loads(self.text)

    def inline(self) -> str:
        """The file as one TOML value."""
        from ._toml import value

        return value(self.table)
