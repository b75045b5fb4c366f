"""Exports of a run with at least 100,000 events, each read by a third-party tool."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import lowmark
import pyarrow.parquet
import pytest
from prometheus_client.openmetrics.parser import text_fd_to_metric_families

LARGE = {
    "name": "large",
    "iterations": 3,
    "policy": ["linux-3.0", "linux-3.1", "linux-4.9"],
    "filesystem": "ext4",
    "sample_s": 0.002,
}


@pytest.fixture(scope="module")
def large(root: Path, tmp_path_factory: pytest.TempPathFactory) -> lowmark.Result:
    experiment = LARGE | {
        "machine": str(root / "machines/512M.toml"),
        "workload": {"command": "dd if=/dev/zero of=a bs=64k count=32768"},
    }
    folder = tmp_path_factory.mktemp("large") / "results"
    result = lowmark.run(experiment, out=folder)
    assert len(result.series) >= 100_000
    return result


def test_open_metrics_are_read_by_prometheus(
    large: lowmark.Result, cli: Any, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.txt"
    cli("export", large.folder, "--openmetrics", file)
    with open(file) as text:
        families = {f.name: f for f in text_fd_to_metric_families(text)}
    arrow = large.iterations.to_arrow()
    elapsed = families["lowmark_elapsed_seconds"]
    assert elapsed.unit == "seconds" and elapsed.type == "gauge"
    assert [s.value for s in elapsed.samples] == arrow["elapsed [s]"].to_pylist()
    assert elapsed.samples[0].labels["policy"] == "linux-3.0"
    assert elapsed.samples[1].labels["iteration"] == "1"
    series = [s for f in families.values() if "_series_" in f.name for s in f.samples]
    values = [v for v in large.series.to_arrow()["value"].to_pylist() if v is not None]
    assert len(series) == len(values) >= 100_000
    assert sum(s.value for s in series) == pytest.approx(sum(values))
    again = tmp_path / "again.txt"
    large.export(openmetrics=again)
    assert again.read_bytes() == file.read_bytes()


def lacks(what: str) -> None:
    """Skips a test whose tool is not installed here; in CI it must be installed."""
    if os.environ.get("LOWMARK_EXPORT_TOOLS") == "required":
        pytest.fail(f"{what} is not installed")
    pytest.skip(f"{what} is not installed")


def test_open_metrics_are_read_by_promtool(large: lowmark.Result, tmp_path: Path) -> None:
    """Checks samples with times with promtool's OpenMetrics parser, which requires a time for each,
    and the others with that of the older text format, which does not support `info`."""
    promtool = shutil.which("promtool")
    if promtool is None:
        return lacks("promtool (Debian's prometheus)")
    file = tmp_path / "metrics.txt"
    large.export(openmetrics=file)
    lines, folder = file.read_text().splitlines(keepends=True), tmp_path
    timed = folder / "timed.txt"
    timed.write_text("".join(line for line in lines if "lowmark_series_" in line) + "# EOF\n")
    words = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(timed), str(folder / "blocks")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    samples = sum(line.startswith("lowmark_series_") for line in lines)
    assert samples >= 100_000
    title, *blocks = (line.split() for line in done.stdout.splitlines() if line)
    # Only titles contain blanks: MIN TIME, MAX TIME, NUM SAMPLES.
    assert title[:1] == ["BLOCK"] and sum(int(block[4]) for block in blocks) == samples
    info = ("# TYPE lowmark info", "# HELP lowmark ", "lowmark_info{")
    figures = [line for line in lines if "lowmark_series_" not in line and not line.startswith(info)]
    assert len(figures) > 100
    done = subprocess.run([promtool, "check", "metrics"], input="".join(figures), capture_output=True, text=True)
    # Exit code 3: suggestions about names, which are no errors; 1: the text can't be parsed.
    assert done.returncode in (0, 3), done.stderr
    assert "error while linting" not in done.stderr


def test_json_lines_have_what_tables_have(large: lowmark.Result, cli: Any, tmp_path: Path) -> None:
    cli("export", large.folder, "--jsonl", tmp_path / "lines")
    for name in ["summary", "iterations", "tasks", "latency", "rows", "series"]:
        lines = (tmp_path / f"lines/{name}.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == large.table(name).to_arrow().to_pylist()
    found = duckdb.sql(f"select count(*) from read_json_auto('{tmp_path}/lines/series.jsonl')")
    assert found.fetchall()[0][0] == len(large.series) >= 100_000


def test_parquet_is_read_by_pyarrow_and_duckdb(large: lowmark.Result, tmp_path: Path) -> None:
    large.export(parquet=tmp_path / "parquet")
    for name in ["summary", "iterations", "tasks", "latency", "rows", "series"]:
        file = tmp_path / f"parquet/{name}.parquet"
        assert pyarrow.parquet.read_table(file).equals(large.table(name).to_arrow()), name
    query = f"select policy, median(\"elapsed [s]\") from '{tmp_path}/parquet/iterations.parquet' group by 1"
    assert len(duckdb.sql(query).fetchall()) == 3
    query = f"select count(*), count(value) from '{tmp_path}/parquet/series.parquet'"
    rows, values = duckdb.sql(query).fetchall()[0]
    assert rows == len(large.series) >= 100_000
    assert values == rows - large.series.to_arrow()["value"].null_count


def test_exports_are_whole_and_leave_others_alone(
    large: lowmark.Result, cli: Any, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("dear")
    for more in [[], ["--replace"]]:
        cli("export", large.folder, "--openmetrics", mine, *more, code=2)
    assert mine.read_text() == "dear"
    file = tmp_path / "metrics.txt"
    cli("export", large.folder, "--openmetrics", file)
    cli("export", large.folder, "--openmetrics", file, code=2)
    cli("export", large.folder, "--openmetrics", file, "--replace")
    cli("export", large.folder, code=2)
    assert "accepted" in cli("export", tmp_path, "--jsonl", tmp_path / "x", code=2).stderr
    said = cli("export", large.folder, "--parquet", tmp_path / "p", code=2).stderr
    assert "--features parquet" in re.sub(r"\s+", " ", said)
    assert not (tmp_path / "x").exists() and not (tmp_path / "p").exists()


def test_perfetto_shows_tasks_waits_reclaim_and_queues(
    root: Path, cli: Any, tmp_path: Path
) -> None:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

    file, results = tmp_path / "run.pftrace", tmp_path / "results"
    experiment = tmp_path / "busy.toml"
    experiment.write_text(
        f'name = "busy"\niterations = 1\npolicy = "linux-3.1"\nfilesystem = "xfs"\n'
        f'machine = "{root}/machines/512M.toml"\n[workload]\n'
        'command = "dd if=/dev/zero of=a bs=64k count=49152 & burst -d 3s -s 16M -i 300ms -n 40 -h 20ms"\n'
    )
    cli("run", experiment, "--quiet", "--perfetto", file, "--out", results)
    trace = proto.Trace()
    trace.ParseFromString(file.read_bytes())
    # Contains no fields unknown to Perfetto, at any depth.
    size = trace.ByteSize()
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == size == file.stat().st_size
    kinds = proto.TrackEvent.Type
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    events = [p for p in trace.packet if p.HasField("track_event")]
    assert len(events) >= 100_000
    names = {t.thread.thread_name for t in tracks.values() if t.HasField("thread")}
    assert {"dd", "kswapd0", "burst"} <= names, names
    depth: Counter[int] = Counter()
    seen: Counter[str] = Counter()
    waited: dict[str, int] = {}
    open_waits: dict[int, tuple[str, int]] = {}
    for packet in sorted(events, key=lambda p: p.timestamp):
        event = packet.track_event
        track = tracks[event.track_uuid]
        if event.type == kinds.TYPE_SLICE_BEGIN:
            depth[event.track_uuid] += 1
            seen[event.name] += 1
            if track.name == "waits":
                open_waits[event.track_uuid] = (event.name, packet.timestamp)
        elif event.type == kinds.TYPE_SLICE_END:
            depth[event.track_uuid] -= 1
            assert depth[event.track_uuid] >= 0
            if track.name == "waits":
                name, since = open_waits.pop(event.track_uuid)
                waited[name] = waited.get(name, 0) + packet.timestamp - since
        elif event.type == kinds.TYPE_COUNTER:
            assert track.HasField("counter") and event.counter_value >= 0
            seen["queue"] += 1
    for what in ["direct reclaim", "balance", "queue"]:
        assert seen[what] > 0, seen
    assert max(depth.values()) <= 1
    # The waits equal those in the results, except waits still under way at the end.
    kinds_of_waits = json.loads((results / "waits.json").read_text())[0]["kinds"]
    told = {k["kind"]: k["total_ns"] for k in kinds_of_waits}
    most = max(told, key=lambda k: told[k])
    assert waited[most] == pytest.approx(told[most], rel=0.05)


def vmscan_script(folder: Path) -> Path | None:
    """Returns mm's own parser of such text, `trace-vmscan-postprocess.pl`, from Debian's archive of
    a kernel's sources.

    Where the running kernel shows no events the script uses its built-in forms, and 6.1's differ
    from today's (`mm_vmscan_lru_isolate` has no `classzone`): only the sources of 6.12 and newer
    are searched, the newest first.
    """
    archives = Path("/usr/src").glob("linux-source-*.tar.xz")
    numbered = [(tuple(map(int, re.findall(r"\d+", one.name)[:2])), one) for one in archives]
    for version, archive in sorted(numbered, reverse=True):
        inside = f"{archive.name.removesuffix('.tar.xz')}/Documentation/trace/postprocess/trace-vmscan-postprocess.pl"
        words = ["tar", "-xJf", str(archive), "-C", str(folder), "--occurrence=1", inside]
        if version >= (6, 12) and subprocess.run(words, capture_output=True).returncode == 0:
            return folder / inside
    return None


def test_ftrace_text_is_read_by_the_kernels_own_script(root: Path, cli: Any, tmp_path: Path) -> None:
    experiment = tmp_path / "reclaims.toml"
    experiment.write_text(
        'name = "reclaims"\niterations = 1\npolicy = "linux-3.0"\nfilesystem = "ext3"\n'
        'machine = { name = "64M", cpus = 2, node = [{ zones = [{ zone = "DMA", size = "16M" }, '
        '{ zone = "DMA32", size = "48M" }] }], boot = { kernel = "4M", anon = "4M", dma = "1M", cache = "0M" }, '
        'disk = { kind = "usb-flash", capacity = "4G" }, sysctl = { dirty_ratio = 90, dirty_background_ratio = 80 } }\n'
        '[workload]\ncommand = "dd if=/dev/zero of=a bs=64k count=1600"\n'
    )
    file, results = tmp_path / "trace.txt", tmp_path / "results"
    cli("run", experiment, "--quiet", "--ftrace", file, "--out", results)
    with open(file) as text:
        assert sum(not line.startswith("#") for line in text) >= 100_000
    script = vmscan_script(tmp_path)
    if script is None or shutil.which("perl") is None:
        return lacks("perl, or Debian's linux-source of 6.12 or newer")
    with open(file) as text:
        done = subprocess.run(["perl", str(script)], stdin=text, capture_output=True, text=True, check=True)
    # The script uses its built-in forms of events if the running kernel has none.
    assert "unrecognised" not in done.stderr and "non-conforming" not in done.stderr, done.stderr[:1000]
    figures = dict(re.findall(r"^([A-Z][A-Za-z ]+):\s+(\d+)\b", done.stdout, re.M))
    sums = json.loads(cli("trace", "vmscan", file, "--json").stdout)["sums"]
    told = {
        "Direct reclaims": sums["direct_reclaims"],
        "Direct reclaim pages scanned": sums["direct"]["scanned"],
        "Wake kswapd requests": sums["wake_requests"],
        "Kswapd wakeups": sums["kswapd_wakeups"],
        "Kswapd pages scanned": sums["kswapd"]["scanned"],
    }
    assert {name: int(figures[name]) for name in told} == told
    assert told["Direct reclaim pages scanned"] > 0 < told["Kswapd pages scanned"]
