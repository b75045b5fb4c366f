"""Formats Python values as TOML, for experiments given as dicts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from ._error import wrong
from ._machine import Machine

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def key(text: str) -> str:
    """Formats a key, quoted if needed.

    >>> key("machine"), key("a b")
    ('machine', '"a b"')
    """
    return text if _BARE.fullmatch(text) else json.dumps(text)


def value(what: Any) -> str:
    """Formats a value.

    >>> value({"command": "dd", "sizes": [1, 2.5, True]})
    '{ command = "dd", sizes = [1, 2.5, true] }'
    """
    if isinstance(what, bool):
        return "true" if what else "false"
    if isinstance(what, int):
        return str(what)
    if isinstance(what, float):
        if math.isfinite(what):
            text = repr(what)
            return text if any(c in text for c in ".e") else text + ".0"
        raise wrong(f"{what} is no number that an experiment can have; accepted: finite numbers")
    if isinstance(what, str):
        return json.dumps(what, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(what, Machine):
        return what.inline()
    if isinstance(what, PathLike):
        return value(fspath(what))
    if isinstance(what, Mapping):
        inside = ", ".join(f"{key(str(k))} = {value(v)}" for k, v in what.items() if v is not None)
        return "{ " + inside + " }" if inside else "{}"
    if isinstance(what, (list, tuple)):
        return "[" + ", ".join(value(v) for v in what) + "]"
    item = getattr(what, "item", None)
    if callable(item):  # numpy's scalars
        return value(item())
    raise TypeError(
        f"{type(what).__name__} has no form in an experiment; accepted: str, int, float, bool, list, dict, "
        "path, lowmark.Machine"
    )


def document(what: Mapping[str, Any]) -> str:
    """Formats a whole experiment, one key per line."""
    return "".join(f"{key(str(k))} = {value(v)}\n" for k, v in what.items() if v is not None)
