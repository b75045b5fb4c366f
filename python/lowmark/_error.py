"""Wrong arguments, reported as the package's only exception."""

from __future__ import annotations

from ._lowmark import Error


def failed(message: str, code: int = 1) -> Error:
    """Makes an error with the command line's exit code: 1: the system failed, 2: wrong input."""
    error = Error(message)
    error.code = code
    return error


def wrong(message: str) -> Error:
    """Makes an error about wrong input."""
    return failed(message, 2)


def whole(name: str, value: int | None, least: int, most: int = 2**63 - 1) -> None:
    """Checks that a number is in its range; None is accepted."""
    if value is not None and not least <= value <= most:
        beyond = f"from {least} on" if value < least else f"up to {most}"
        raise wrong(f"{name}={value!r}; accepted: a whole number {beyond}")
