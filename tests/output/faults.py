#!/usr/bin/env python3
"""Makes every system call that touches files fail, or be the last one, one at a time.

usage: faults.py LOWMARK [--every N] [--seed S] [--only CASE]

For each command that writes, each of its system calls and each n: ENOSPC and EIO at the n-th call,
and SIGKILL right before it (with strace's injection). Afterwards the old or the new contents must
be there, whole; exit code 0 means the new; nothing panics; places named in messages are right; and
the next start repairs the state that a killed process left. `--every N` tests one random case in N,
which takes minutes.
"""

import argparse
import collections
import os
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path

from results import TINY, fail, lowmark, tree

CALLS = """mkdir mkdirat open openat creat write pwrite64 writev ftruncate fallocate fsync fdatasync
fchmod chmod rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat rmdir flock
getdents64 statx newfstatat fstat lseek copy_file_range readlink getcwd""".split()
HIDDEN = re.compile(r"\.(out|out\.csv)\.lowmark-(new|old|file)-\w{8}$")
RUN = ["run", TINY, "--quiet", "--jobs", 1, "--set", "filesystem=xfs", "--set", 'policy="linux-3.1"']


class Case:
    """A command, the contents of its place before, and the new contents."""

    def __init__(self, name, command, after, old=None, killed=None, always=()):
        self.name, self.command, self.after = name, command, after
        self.old, self.killed, self.always = old, killed, always


def strace(injections, trace, log="/dev/null"):
    calls = ",".join(f"?{c}" for c in trace)
    return ["strace", "-f", "-qq", "-o", log, "-e", f"trace={calls}", *injections]


def lay(case, home):
    """Lays out the input of the command."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "tmp").mkdir(parents=True)
    (home / "work").mkdir()
    (home / "work" / "notes.md").write_text("mine")
    if case.old and case.old.is_dir():
        shutil.copytree(case.old, home / "work" / case.after)
    elif case.old:
        shutil.copy(case.old, home / "work" / case.after)
    if case.killed:
        shutil.copytree(case.killed, home / "work", dirs_exist_ok=True)


def counts(case, binary, home, env):
    """Returns how often each call is made."""
    lay(case, home)
    log = home / "log"
    code, said = lowmark(binary, *case.command, cwd=home, env=env,
                         before=strace(case.always, CALLS, str(log)))
    if code != 0:
        fail(f"{case.name}: exit code {code} without a fault", said)
    found = collections.Counter()
    for line in log.read_text(errors="replace").splitlines():
        if call := re.match(r"(?:\d+ +)?(\w+)\(", line):
            found[call[1]] += 1
    return found, tree(home / "work" / case.after)


def check(case, binary, home, env, old, new, code, said, what):
    """Checks the state after a fault."""
    at = home / "work" / case.after
    found = tree(at)
    away = found is None and code < 0 and case.always
    if found not in (old, new) and not away:
        fail(f"{what}: {at.name} is neither old nor new", said)
    if code == 0 and found != new:
        fail(f"{what}: exit code 0 without the new results", said)
    if "panicked" in said or code == 101:
        fail(f"{what}: a panic", said)
    if (home / "work" / "notes.md").read_text() != "mine":
        fail(f"{what}: somebody else's file was touched")
    if place := re.search(r"the results are in `([^`]+)`", said):
        elsewhere = Path(place[1])
        if tree(elsewhere if elsewhere.is_absolute() else home / elsewhere) != new:
            fail(f"{what}: the results are not where it says", said)
    for entry in (home / "work").iterdir():
        known = entry.name in ("notes.md", "out.partial", case.after)
        if not known and not HIDDEN.match(entry.name) and ".results-" not in entry.name:
            fail(f"{what}: {entry.name} is left", said)


def recover(case, binary, home, env, new, what):
    """Checks the next start, without a fault."""
    command = [c for c in case.command if c not in ("--out", "--resume", "--replace", "work/out")]
    if case.after == "out":
        way = "--out"
        if "run" in command and (home / "work" / "out.partial" / "iterations.log").exists():
            # Begun as it was before: anything in the way then must not be a file it wrote itself.
            replace = [] if case.old is None else ["--replace"]
            code, said = lowmark(binary, *command, "--resume", "work/out", *replace,
                                 cwd=home, env=env)
            if code == 0:
                way = None
            elif "holds no interrupted run" not in said:
                fail(f"{what}: can't go on: exit code {code}", said)
        command += ["--out", "work/out"]
    else:
        way, command = "--out", case.command
    if way:
        replace = [] if "--replace" in command else ["--replace"]
        code, said = lowmark(binary, *command, *replace, cwd=home, env=env)
        if code != 0:
            fail(f"{what}: the next start ends with {code}", said)
    if tree(home / "work" / case.after) != new:
        fail(f"{what}: the next start has other results")
    left = [e.name for e in (home / "work").iterdir()]
    left = sorted(e for e in left if ".results-" not in e)
    if left != sorted(["notes.md", case.after]):
        fail(f"{what}: the next start leaves {left}")


def forget_last_record(log):
    """Removes a log's last record: after a line, each record has length (4 bytes), sum (8) and
    contents."""
    kept = log.read_bytes()
    at = end = kept.index(b"\n") + 1
    while end < len(kept):
        at, end = end, end + 12 + int.from_bytes(kept[end:end + 4], "little")
    if kept[at + 12:at + 13] != b"p":
        fail("the last record is not the one that results are about to come into place")
    log.write_bytes(kept[:at])


def cases(binary, store, env):
    """Returns the commands, after making their input."""
    trace = store / "t.csv"
    generate = ["trace", "generate", "zipf", "--objects", 500, "--requests", "2k"]
    mrc = ["mrc", "--trace", trace, "--sizes", "10,100", "--jobs", 1]
    for command in (
        [*generate, "--out", trace],
        [*generate, "--seed", 2, "--out", store / "old.csv"],
        [*RUN, "--iterations", 1, "--out", store / "old"],
        [*mrc, "--policy", "lru", "--out", store / "old-mrc"],
    ):
        code, said = lowmark(binary, *command, cwd=store, env=env)
        if code != 0:
            fail("what the tests need can't be made", said)
    out = ["--out", "work/out"]
    run = [*RUN, "--iterations", 3]
    # Runs that were killed right before their results came into place, and whose log has no word of
    # them.
    killed, unsaid = store / "killed" / "work", store / "unsaid" / "work"
    shutil.copytree(store / "old", killed / "out")
    for work, kill, more in ((killed, "renameat2", ["--replace"]), (unsaid, "rename", [])):
        work.mkdir(exist_ok=True, parents=True)
        lowmark(binary, *run, *out, *more, cwd=work.parent, env=env,
                before=strace(["-e", f"inject={kill}:signal=KILL:when=1"], CALLS))
        if not (work / "out.partial" / "iterations.log").exists():
            fail("no log of a run that was killed")
    shutil.rmtree(killed / "out")
    forget_last_record(unsaid / "out.partial" / "iterations.log")
    no_exchange = ["-e", "inject=renameat2:error=EINVAL"]
    return [
        Case("run", [*run, *out], "out"),
        Case("run over results", [*run, *out, "--replace"], "out", store / "old"),
        Case("run without exchange", [*run, *out, "--replace"], "out", store / "old",
             always=no_exchange),
        Case("resumed run", [*run, "--resume", "work/out", "--replace"], "out", store / "old", killed),
        Case("resumed run with results", [*run, "--resume", "work/out"], "out", killed=unsaid),
        Case("mrc over results", [*mrc, *out, "--replace"], "out", store / "old-mrc"),
        Case("trace", [*generate, "--out", "work/out.csv", "--replace"], "out.csv", store / "old.csv"),
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=lambda p: Path(p).resolve())
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="the case of this name, such as `run over results`")
    args = parser.parse_args()
    if not shutil.which("strace"):
        fail("strace is missing: install it")
    chance = random.Random(args.seed)
    done = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="lowmark-faults-") as folder:
        folder = Path(folder)
        home, store = folder / "home", folder / "store"
        store.mkdir()
        env = {**os.environ, "TMPDIR": str(home / "tmp")}
        (home / "tmp").mkdir(parents=True)
        for case in cases(args.binary, store, env):
            if args.only not in (None, case.name):
                continue
            found, new = counts(case, args.binary, home, env)
            lay(case, home)
            old = tree(home / "work" / case.after)
            all_cases = [
                (call, n, fault)
                for call in CALLS
                for n in range(1, found[call] + 1)
                for fault in ("error=ENOSPC", "error=EIO", "signal=KILL")
                if not (case.always and call == "renameat2")
            ]
            taken = chance.sample(all_cases, -(-len(all_cases) // args.every))
            for call, n, fault in taken:
                what = f"{case.name}, {call} {n}, {fault}"
                lay(case, home)
                inject = [*case.always, "-e", f"inject={call}:{fault}:when={n}"]
                traced = [call, "renameat2"] if case.always else [call]
                code, said = lowmark(args.binary, *case.command, cwd=home, env=env,
                                     before=strace(inject, traced))
                check(case, args.binary, home, env, old, new, code, said, what)
                recover(case, args.binary, home, env, new, what)
                outcome = "killed" if code < 0 or code == 137 else f"exit code {code}"
                done[outcome] += 1
            print(f"{case.name}: {len(taken)} of {len(all_cases)} faults", flush=True)
    print(", ".join(f"{n} {outcome}" for outcome, n in sorted(done.items())))


main()
