"""The types and docs of the installed package, as seen by a user's type checker and `help()`."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import lowmark
import pytest

SCRIPT = """
import lowmark

result = lowmark.run({"name": "mine", "policy": ["linux-3.0", "linux-3.1"]}, set={"machine.cpus": 2}, seed=3)
reveal_type(result)
reveal_type(result.compare().answers)
reveal_type(result.files)
sweep = lowmark.sweep("e.toml", {"machine.cpus": [1, 2]}, seeds=3, executor="ray", store="cells")
reveal_type(sweep.ran)
reveal_type(lowmark.search("e.toml", {"machine.cpus": (1, 4)}, ["elapsed", "-nr_dirtied"]).front)
try:
    reveal_type(lowmark.mrc([1, 2, 3], [1000], "all").json)
except lowmark.Error as e:
    reveal_type(e.code)
lowmark.run(3)
lowmark.sweep("e.toml", {}, executor="abacus")


class Fifo:
    def __init__(self, slots: int) -> None: ...
    def admit(self, slot: int, object: int) -> None: ...
    def access(self, slot: int) -> None: ...
    def evict(self) -> int:
        return 0

    def remove(self, slot: int) -> None: ...


class Wrong(Fifo):
    def evict(self) -> str:  # type: ignore[override]
        return "0"


lowmark.mrc([1], [1], Fifo)
lowmark.mrc([1], [1], Wrong)
"""

# mypy skips other packages' types: checking them is not the subject, and takes a minute.
CONFIG = """
[mypy]
[mypy-polars.*,pandas.*,pyarrow.*,numpy.*,duckdb.*,ray.*,nevergrad.*,fsspec.*,IPython.*]
follow_imports = skip
ignore_missing_imports = True
"""

SEEN = [
    "lowmark._result.Result",
    "list[str]",
    "Mapping[str, bytes]",
    "int",
    "list[lowmark._search.Trial]",
    "dict[str, Any]",
    "int",
]


def test_a_users_script_is_checked_against_the_installed_package(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text(CONFIG)
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path), str(script)]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True).stdout.splitlines()
    notes = [line for line in said if "Revealed type" in line]
    assert len(notes) == len(SEEN)
    for note, seen in zip(notes, SEEN, strict=True):
        assert seen in note.replace("builtins.", "").replace("typing.", ""), note
    errors = [line for line in said if ": error:" in line]
    assert len(errors) == 3, said
    for error, what in zip(errors, ["run", "sweep", "mrc"], strict=True):
        assert f'to "{what}" has incompatible type' in error


def test_the_stub_is_what_the_extension_has(tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text(CONFIG)
    (tmp_path / "allowed").write_text("lowmark._lowmark.__all__\n")
    words = [sys.executable, "-m", "mypy.stubtest", "lowmark._lowmark", "--allowlist", "allowed"]
    done = subprocess.run([*words, "--mypy-config-file", "mypy.ini"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def documented() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name in lowmark.__all__:
        what = getattr(lowmark, name)
        if not (inspect.isclass(what) or inspect.isfunction(what)):
            continue
        found.append((name, what))
        if inspect.isclass(what) and what.__module__.startswith("lowmark"):
            found += [
                (f"{name}.{part}", value)
                for part, value in vars(what).items()
                if not part.startswith("_") and (callable(value) or hasattr(value, "__get__"))
            ]
    return found


@pytest.mark.parametrize(("name", "what"), documented())
def test_everything_public_has_a_docstring(name: str, what: Any) -> None:
    said = inspect.getdoc(what)
    assert said and len(said) > 10, name
