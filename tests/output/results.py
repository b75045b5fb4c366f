"""Common parts of the tests of the tool's output: running it, and inspecting its files."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TINY = HERE / "tiny.toml"


def tree(path):
    """Returns contents by relative path, a file's own under the empty path; None if nothing exists.
    """
    path = pathlib.Path(path)
    if path.is_file():
        return {"": path.read_bytes()}
    if not path.is_dir():
        return None
    return {
        str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()
    }


def lowmark(binary, *args, cwd, env=None, before=()):
    """Runs the tool; returns the exit code (negative: the signal) and standard error."""
    done = subprocess.run(
        [*before, str(binary), *map(str, args)],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=300,
    )
    return done.returncode, done.stderr.decode(errors="replace")


def fail(what, *more):
    print(f"FAILED: {what}", *more, sep="\n", file=sys.stderr)
    sys.exit(1)
