"""What was given wrongly, as the one exception."""

from __future__ import annotations

from ._lowmark import Error


def failed(message: str, code: int = 1) -> Error:
    """An error with the exit code that the command line would have: 1 the system, 2 wrong input."""
    error = Error(message)
    error.code = code
    return error


def wrong(message: str) -> Error:
    """An error of the caller's."""
    return failed(message, 2)


def whole(name: str, value: int | None, least: int, most: int = 2**63 - 1) -> None:
    """Holds a number to its range; None is none at all."""
    if value is not None and not least <= value <= most:
        beyond = f"from {least} on" if value < least else f"up to {most}"
        raise wrong(f"{name}={value!r}; accepted: a whole number {beyond}")
