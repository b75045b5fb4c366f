"""Common parts of the tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]
"""Returns the project's folder."""


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Returns a function that runs the command line of the same sources in the project's folder."""
    binary = os.environ.get("LOWMARK_BIN", str(ROOT / "target/release/lowmark"))
    assert Path(binary).exists(), f"{binary}: accepted: `cargo build --release`, or LOWMARK_BIN=its path"

    def run(*args: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        words = [binary, *map(str, args)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == code, done.stderr
        return done

    return run


@pytest.fixture
def small() -> dict[str, Any]:
    """Returns an experiment of a second of simulated time, which takes some milliseconds."""
    return {
        "name": "small",
        "sample_s": 0.001,
        "iterations": 2,
        "policy": ["linux-3.0", "linux-3.1"],
        "filesystem": "ext4",
        "machine": str(ROOT / "machines/512M.toml"),
        "workload": {"command": "dd if=/dev/zero of=a bs=64k count=64"},
    }


@pytest.fixture
def long() -> dict[str, Any]:
    """Returns an experiment of which one iteration takes minutes."""
    return {
        "name": "long",
        "iterations": 50,
        "policy": "linux-3.1",
        "filesystem": "ext4",
        "machine": str(ROOT / "machines/512M.toml"),
        "workload": {"command": "dd if=/dev/zero of=a bs=64k count=4096"},
    }
