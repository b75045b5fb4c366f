"""Miss-ratio curves: keys give the same as a file of them, a policy in Python the same as one in
Rust."""

from __future__ import annotations

import array
import signal
import struct
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import lowmark
import numpy
import pandas
import polars
import pyarrow
import pytest

KEYS = numpy.random.default_rng(1).zipf(1.2, 200_000).astype(numpy.uint64) % 5000
SIZES = [10, 100, 1000]


def points(curves: lowmark.Curves) -> list[tuple[int, int]]:
    return [(p["size"], p["misses"]) for p in curves.json["curves"][0]["points"]]


def test_keys_are_as_a_file_of_them(tmp_path: Path) -> None:
    file = tmp_path / "keys.oracleGeneral.bin"
    file.write_bytes(b"".join(struct.pack("<IQIq", 0, key, 4096, -1) for key in KEYS.tolist()))
    for policy in ["lru", "sieve", "all"]:
        of_file = lowmark.mrc(file, SIZES, policy, unit="object", ignore_size=True)
        of_keys = lowmark.mrc(KEYS, SIZES, policy)
        assert of_keys.json["curves"] == of_file.json["curves"]
    sampled = lowmark.mrc(KEYS, SIZES, sample="rate=0.5")
    assert sampled.json["sample"]["objects"] > 0


def test_any_array_of_whole_numbers_will_do() -> None:
    wanted = points(lowmark.mrc(KEYS, SIZES))
    ways: list[Any] = [
        KEYS.astype(numpy.int64),
        KEYS.astype(numpy.uint32),
        KEYS.tolist(),
        array.array("Q", KEYS.tolist()),
        iter(KEYS.tolist()),
    ]
    for keys in ways:
        assert points(lowmark.mrc(keys, SIZES)) == wanted
    table = lowmark.mrc(KEYS, SIZES).table.to_arrow()
    assert table["pages"].to_pylist() == SIZES
    assert table["misses"].to_pylist() == [m for _, m in wanted]
    with pytest.raises(lowmark.Error):
        lowmark.mrc([], SIZES)


def test_arrays_of_other_libraries_will_do() -> None:
    wanted = points(lowmark.mrc(KEYS, SIZES))
    whole = pyarrow.array(numpy.concatenate([KEYS[:7], KEYS]))
    ways: list[Any] = [
        pyarrow.array(KEYS),
        whole[7:],
        pyarrow.chunked_array([pyarrow.array(KEYS[:1000]), pyarrow.array(KEYS[1000:])]),
        pyarrow.array(KEYS.astype(numpy.int32)),
        polars.Series(KEYS),
        polars.Series(KEYS.astype(numpy.int64)),
        pandas.Series(KEYS),
        numpy.repeat(KEYS, 2)[::2],
        memoryview(KEYS),
    ]
    for keys in ways:
        assert points(lowmark.mrc(keys, SIZES)) == wanted, type(keys)
        assert points(lowmark.mrc(keys, [100], "fifo")) == points(lowmark.mrc(KEYS, [100], "fifo"))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (numpy.array([1, -1]), "below 0"),
        (numpy.array([1, -1], dtype=numpy.int32), "below 0"),
        (pyarrow.array([1, -1]), "below 0"),
        ([1, -1], "-1 is no key"),
        ([1, 2**64], "2\\^64 - 1"),
        (numpy.array([1.0, 2.0]), "whole numbers"),
        (numpy.array([True]), "whole numbers"),
        (numpy.zeros((2, 2), dtype=numpy.uint64), "2 dimensions"),
        (pyarrow.array([1, None]), "1 nulls"),
        (pyarrow.array(["a"]), "keys of string"),
        (polars.Series([0.5]), "keys of double"),
        (polars.DataFrame({"a": [1], "b": [2]}), "one column|struct"),
    ],
)
def test_what_are_no_keys_is_said(keys: Any, said: str) -> None:
    with pytest.raises(lowmark.Error, match=said) as raised:
        lowmark.mrc(keys, SIZES)
    assert raised.value.code == 2
    with pytest.raises(TypeError, match="'a' is no key"):
        lowmark.mrc(["a"], SIZES)


NOT_COPIED = """
import resource, sys
import lowmark, numpy, pyarrow
kind = sys.argv[1]
keys = numpy.arange(8 << 20, dtype=numpy.int64 if kind == "signed" else numpy.uint64)
keys %= 50
if kind == "arrow":
    keys = pyarrow.array(keys)
lowmark.mrc(pyarrow.array([1, 2]), [1000], "fifo")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
lowmark.mrc(keys, [1000], "fifo")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["unsigned", "signed", "arrow"])
def test_an_array_is_read_where_it_is(kind: str) -> None:
    words = [sys.executable, "-c", NOT_COPIED, kind]
    said = subprocess.run(words, check=True, capture_output=True, text=True)
    # A copy of the keys would be 64 MiB.
    assert int(said.stdout) < 24 << 10, f"{said.stdout} KiB more"


STOPPED = """
import sys, lowmark, numpy
keys = numpy.random.default_rng(1).integers(0, 1 << 20, 3 << 20, dtype=numpy.uint64)
if sys.argv[1] == "file":
    numpy.savetxt("t.csv", numpy.stack([keys[:100_000], keys[:100_000]], 1), "%d,%d,4096,r", header="time,obj_id,obj_size,op", comments="")
    keys = "t.csv"
print("begun", flush=True)
try:
    lowmark.mrc(keys, "1000..1000000:400", sys.argv[2])
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(("trace", "policy"), [("keys", "all"), ("keys", "sieve"), ("file", "all")])
def test_ctrl_c_ends_curves(trace: str, policy: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", STOPPED, trace, policy]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=tmp_path) as child:
        assert child.stdout is not None and child.stdout.readline()
        time.sleep(2)
        child.send_signal(signal.SIGINT)
        # The whole simulation would take many minutes.
        assert child.wait(30) == 7


def test_options_are_the_command_lines(cli: Any, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("time,obj_id,obj_size,op\n1,1,4096,w\n2,2,4096,r\n3,1,4096,r\n")
    words = ["mrc", "--trace", trace, "--sizes", "1,2", "--policy", "all", "--writes"]
    said = cli(*words)
    curves = lowmark.mrc(trace, [1, 2], "all", writes=True)
    assert curves.text.strip() == said.stdout.strip()
    said = cli("mrc", "--trace", trace, "--sizes", "1,2", "--policy", "mru", code=2)
    with pytest.raises(lowmark.Error) as raised:
        lowmark.mrc(trace, [1, 2], "mru")
    assert str(raised.value).strip() == said.stderr.strip()
    with pytest.raises(lowmark.Error, match="accepted"):
        lowmark.mrc(trace, "none")


class Lru:
    """Evicts the least recently used page."""

    def __init__(self, slots: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def admit(self, slot: int, object: int) -> None:
        self.order[slot] = None

    def access(self, slot: int) -> None:
        self.order.move_to_end(slot)

    def evict(self) -> int:
        return self.order.popitem(last=False)[0]

    def remove(self, slot: int) -> None:
        del self.order[slot]


def test_a_policy_in_python_is_as_one_in_rust(tmp_path: Path) -> None:
    own = lowmark.mrc(KEYS[:20_000], SIZES, Lru)
    assert points(own) == points(lowmark.mrc(KEYS[:20_000], SIZES, "lru"))
    assert own.json["curves"][0]["policy"] == "Lru"
    assert len(own.table) == 3
    several = lowmark.mrc(KEYS[:2000], "10..100:3", Lru)
    assert points(several) == points(lowmark.mrc(KEYS[:2000], "10..100:3"))
    trace = tmp_path / "t.csv"
    trace.write_text("time,obj_id,obj_size,op\n1,1,4096,r\n2,2,4096,r\n3,1,4096,r\n")
    assert points(lowmark.mrc(trace, [1, 2], Lru)) == [(1, 3), (2, 2)]


def test_a_policy_in_python_reads_a_trace_by_the_same_options(tmp_path: Path) -> None:
    trace = tmp_path / "t.txt"
    trace.write_text("time,obj_id,obj_size,op\n1,1,8192,r\n2,2,4096,r\n3,1,8192,r\n4,9,1,r\n")
    for options in [{"unit": "object"}, {"unit": "page"}, {"ignore_size": True}]:
        own, theirs = (lowmark.mrc(trace, [1, 2], p, format="csv", **options) for p in (Lru, "lru"))  # type: ignore[arg-type]
        assert points(own) == points(theirs) and own.json["requests"] == theirs.json["requests"]
    for options in [{"writes": True}, {"sample": "rate=0.5"}]:
        with pytest.raises(lowmark.Error, match="no sample and no writes"):
            lowmark.mrc(trace, [1, 2], Lru, format="csv", **options)  # type: ignore[arg-type]


def test_a_policy_in_python_takes_sizes_as_one_in_rust_does() -> None:
    class Fifo:
        def __init__(self, slots: int) -> None:
            self.queue: list[int] = []

        def admit(self, slot: int, object: int) -> None:
            self.queue.append(slot)

        def access(self, slot: int) -> None:
            pass

        def evict(self) -> int:
            return self.queue.pop(0)

        def remove(self, slot: int) -> None:
            self.queue.remove(slot)

    keys = [n % 40 for n in range(200)]
    for sizes in ["10..40:3", "25%,50%", "10, 20"]:
        assert points(lowmark.mrc(keys, sizes, Fifo)) == points(lowmark.mrc(keys, sizes, "fifo"))
    assert [size for size, _ in points(lowmark.mrc(keys, "25%,50%", Fifo))] == [10, 20]


def test_what_a_policy_raises_is_raised_and_what_it_may_not_do_is_said() -> None:
    class Broken(Lru):
        def access(self, slot: int) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        lowmark.mrc(KEYS, SIZES, Broken)

    class Stubborn(Lru):
        def evict(self) -> int:
            return 10**6

    with pytest.raises(lowmark.Error, match="one of the 10 slots"):
        lowmark.mrc(KEYS, [10], Stubborn)

    class Idle(Lru):
        def evict(self) -> int:
            return None  # type: ignore[return-value]

    with pytest.raises(lowmark.Error, match="returned None"):
        lowmark.mrc(KEYS, [10], Idle)
