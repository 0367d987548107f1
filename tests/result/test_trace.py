"""The trace is what Perfetto takes: valid JSON, threads that nest, arrows with two ends."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.result.samples import STRATEGIES, result


def trace(name: str, path: Path) -> dict[str, Any]:
    result(name).to_chrome_trace(path)
    opened: dict[str, Any] = json.loads(path.read_text())
    return opened


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_span_once_and_no_thread_overlaps(name: str, tmp_path: Path) -> None:
    outcome = result(name)
    events = trace(name, tmp_path / "trace.json")["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(outcome.spans)
    assert sum(e["dur"] for e in spans) * 1e-6 == pytest.approx(outcome.spans.duration_s.sum(), rel=1e-3)
    threads = defaultdict(list)
    for event in spans:
        threads[(event["pid"], event["tid"])].append((event["ts"], event["ts"] + event["dur"]))
    for times in threads.values():
        times.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(times))
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert set(threads) == named
    assert {e["pid"] for e in spans} == {times.device for times in outcome.devices}


def test_arguments(tmp_path: Path) -> None:
    events = trace("tensor", tmp_path / "trace.json")["traceEvents"]
    reduce = next(e for e in events if e["ph"] == "X" and e["cat"] == "tensor_comm")
    assert reduce["args"]["bytes"] > 0 and reduce["args"]["node"].startswith(("layers", "embedding", "head"))
    assert reduce["args"]["micro_batch"] >= 0
    update = next(e for e in events if e["ph"] == "X" and e["cat"] == "optimizer")
    assert "micro_batch" not in update["args"]


def test_arrows_lead_from_send_to_receive(tmp_path: Path) -> None:
    outcome = result("pipeline")
    events = trace("pipeline", tmp_path / "trace.json")["traceEvents"]
    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert len(begins) == sum(len(t.tasks) for t in outcome.graph.transfers)
    slices = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            slices[(e["pid"], e["tid"])].append((e["ts"], e["ts"] + e["dur"], e["name"]))
    for key, verb in (("s", "send"), ("f", "receive")):
        for arrow in (begins if key == "s" else ends).values():
            around = [n for a, b, n in slices[(arrow["pid"], arrow["tid"])] if a - 1e-3 <= arrow["ts"] <= b + 1e-3]
            assert any(n.startswith(verb) for n in around)
    assert all(begins[i]["pid"] != ends[i]["pid"] for i in begins)


def test_counters(tmp_path: Path) -> None:
    outcome = result("pipeline")
    events = trace("pipeline", tmp_path / "trace.json")["traceEvents"]
    for device, steps in outcome.memory_over_time.items():
        live = [e["args"]["bytes"] for e in events if e["ph"] == "C" and e["name"] == "memory" and e["pid"] == device]
        assert max(live) == pytest.approx(steps.peak_bytes, abs=1)
    shares = [e["args"]["utilisation"] for e in events if e["ph"] == "C" and e["name"] != "memory"]
    assert shares and 0 < max(shares) <= 1.0001


def test_compressed_is_the_same(tmp_path: Path) -> None:
    plain = trace("data", tmp_path / "trace.json")
    result("data").to_chrome_trace(tmp_path / "trace.json.gz")
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())) == plain
    assert plain["otherData"]["model"] == "gpt2"
