"""Computers as machine files."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from os import PathLike
from typing import Any

from . import _lowmark


@dataclass(frozen=True)
class Machine:
    """A machine file: it can be used in an experiment's dict in the place of a file's name.

    >>> machine = Machine.capture()                                            # doctest: +SKIP
    >>> lowmark.run({"name": "here", "machine": machine, ...})                 # doctest: +SKIP
    """

    name: str
    """The machine's name in reports."""
    text: str
    """The machine file, TOML with comments."""
    notes: tuple[str, ...] = ()
    """Facts that the engine can't represent, or that were guessed."""

    @classmethod
    def capture(
        cls,
        root: str | PathLike[str] | None = None,
        *,
        name: str | None = None,
        disk: str | None = None,
    ) -> Machine:
        """Describes this computer, or one whose /proc and /sys ``lowmark machine --save`` saved in
        ``root``.

        ``disk`` is the name of the tested disk in /sys/block.
        """
        name, text, notes = _lowmark.capture(root, name, disk)
        return cls(name, text, tuple(notes))

    @property
    def table(self) -> dict[str, Any]:
        """Returns the file as a dict, to be changed and put into an experiment."""
        return tomllib.loads(self.text)

    def inline(self) -> str:
        """Returns the file as one TOML value."""
        from ._toml import value

        return value(self.table)
