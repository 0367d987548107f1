"""``proteus bench``: compile and simulate times of the named cases, each in a process of its own."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from proteus.cli.output import announce, print_json
from proteus.errors import InputError, unknown

if TYPE_CHECKING:
    from proteus.cluster.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A strategy whose times are kept an eye on.

    Parameters
    ----------
    settings
        Arguments of ``parallelize``.
    slow_device, slow_link
        Faults: (device, factor) and (name pattern, fraction).
    warm
        What a process has done before the run that is timed: the same
        simulation (``same``), another model's (``other``), or the same with
        one node of the tree not yet edited (``edit``).
    """

    model: str
    cluster: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    slow_device: tuple[int, float] | None = None
    slow_link: tuple[str, float] | None = None
    warm: Literal["same", "other", "edit"] = "same"


_GPT3 = {"tp": 8, "pp": 8, "dp": 16, "micro_batch": 1, "global_batch": 1536}
_LLAMA = {
    "tp": 8, "pp": 16, "dp": 128, "global_batch": 2048, "schedule": "interleaved", "virtual_stages": 4,
    "sequence_parallel": True, "zero": 1,
}  # fmt: skip
#: name → what is simulated.  ResNet-50 and GPT-2 are the paper's settings; GPT-3 is the one of
#: Megatron-LM's table 1 (Narayanan et al., SC21, arXiv 2104.04473) on 1,024 GPUs; Llama-3 405B the one of
#: table 4 of arXiv 2407.21783 on 16,384; the last is DeepSeek-V3's pipeline and experts (arXiv 2412.19437) on more.
CASES = {
    "resnet50-dp8": Case(
        model="resnet50", cluster="dgx1-v100:1", settings={"dp": 8, "micro_batch": 32, "global_batch": 256}
    ),
    "resnet50-dp32": Case(
        model="resnet50", cluster="dgx1-v100:4", settings={"dp": 32, "micro_batch": 32, "global_batch": 1024}
    ),
    "resnet50-dp64": Case(
        model="resnet50", cluster="dgx1-v100:8", settings={"dp": 64, "micro_batch": 32, "global_batch": 2048}
    ),
    "gpt2-tp2-dp16": Case(
        model="gpt2", cluster="hc2", settings={"tp": 2, "dp": 16, "micro_batch": 4, "global_batch": 64}
    ),
    "llama3-8b-32": Case(
        model="llama3-8b",
        cluster="dgx-a100:4",
        settings={"dp": 4, "tp": 4, "pp": 2, "global_batch": 128, "sequence_parallel": True, "zero": 1},
    ),
    "gpt3-175b-1024": Case(model="gpt3-175b", cluster="dgx-a100:128", settings=_GPT3),
    "gpt3-175b-1024-first": Case(model="gpt3-175b", cluster="dgx-a100:128", settings=_GPT3, warm="other"),
    "gpt3-175b-1024-edit": Case(model="gpt3-175b", cluster="dgx-a100:128", settings=_GPT3, warm="edit"),
    "llama3-405b-16384": Case(model="llama3-405b", cluster="dgx-h100:2048", settings=_LLAMA),
    "llama3-405b-16384-faults": Case(
        model="llama3-405b",
        cluster="dgx-h100:2048",
        settings=_LLAMA,
        slow_device=(5, 1.2),
        slow_link=("host7/nic0->*", 0.5),
    ),
    "deepseek-v3-102400": Case(
        model="deepseek-v3",
        cluster="dgx-h100:12800",
        settings={"pp": 16, "dp": 6400, "ep": 64, "global_batch": 102400, "zero": 1},
    ),
}
#: the engine alone on 1.7 million tasks of a pipeline, nothing folded
ENGINE = "engine"
NAMES = (ENGINE, *CASES)
REPEATS = 5


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="time compilation and simulation of named cases",
        description=f"Median of {REPEATS} warm runs of each case.",
        allow_abbrev=False,
    )
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case; may be repeated")
    parser.add_argument("--json", action="store_true", help="one JSON list of objects on stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    names = options.case or NAMES
    for name in names:
        if name not in NAMES:
            raise InputError(unknown("case", name, NAMES))
    rows = []
    for name in names:
        announce(f"running {name}")
        rows.append(measure_apart(name))
        if not options.json:
            print(as_text(rows[-1]))
    if options.json:
        print_json(rows)
    return 0


def measure_apart(name: str) -> dict[str, Any]:
    """Measure a case in a fresh process, so that its peak memory is its own."""
    measurement: dict[str, Any] = _apart(measure, name)
    return measurement


def _apart(function: Callable[..., Any], *arguments: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def measure(name: str) -> dict[str, Any]:
    """Median times of a case, warm, and the peak memory of this process [bytes]."""
    import resource  # not on every platform

    timings = play_engine() if name == ENGINE else simulate_case(CASES[name])
    warm = timings[1:]  # the first run loads the kernels
    is_apart = name in CASES and CASES[name].warm == "other"
    peak = resource.getrusage(resource.RUSAGE_CHILDREN if is_apart else resource.RUSAGE_SELF).ru_maxrss
    return {
        "case": name,
        "ranks": warm[-1]["ranks"],
        "tasks": warm[-1]["tasks"],
        "tasks_run": warm[-1]["tasks_run"],
        "compile_s": statistics.median(timing["compile_s"] for timing in warm),
        "simulate_s": statistics.median(timing["simulate_s"] for timing in warm),
        "peak_bytes": peak if sys.platform == "darwin" else peak * 1024,  # Linux counts KiB
    }


def simulate_case(case: Case) -> list[Mapping[str, Any]]:
    """Timings of a first and then of warm simulations."""
    if case.warm == "other":
        return [{}, *(_apart(first_run, case) for _ in range(REPEATS))]
    import proteus as pt

    model, cluster = pt.models.load(case.model), cluster_of(case)
    timings: list[Mapping[str, Any]] = []
    for number in range(1 + REPEATS):
        tree = pt.StrategyTree(model).parallelize(**case.settings)
        if case.warm == "edit":
            tree = tree.set(f"layers.{3 + number}", recompute="full")
        timings.append({**asdict(pt.simulate(tree, cluster).timings), "ranks": cluster.num_devices})
    return timings


def cluster_of(case: Case) -> Cluster:
    """The cluster of a case, its faults included."""
    import proteus as pt

    cluster = pt.clusters.load(case.cluster)
    if case.slow_device:
        cluster = cluster.slow_device(*case.slow_device)
    if case.slow_link:
        cluster = cluster.slow_link(*case.slow_link)
    return cluster


def first_run(case: Case) -> Mapping[str, Any]:
    """Timings of the first run of a case in a process whose kernels another model has loaded."""
    import proteus as pt

    small_tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=4, pp=2, global_batch=16)
    pt.simulate(small_tree, pt.clusters.load("dgx-a100"))
    cluster = cluster_of(case)
    tree = pt.StrategyTree(pt.models.load(case.model)).parallelize(**case.settings)
    return {**asdict(pt.simulate(tree, cluster).timings), "ranks": cluster.num_devices}


def play_engine() -> list[Mapping[str, Any]]:
    """Timings of the engine on a synthetic graph."""
    from proteus.htae.engine import play
    from proteus.htae.synthetic import pipeline

    graph = pipeline()
    size = {"ranks": len(set(graph.stream_device.tolist())), "tasks": graph.num_tasks, "tasks_run": graph.num_tasks}
    timings: list[Mapping[str, Any]] = []
    for _ in range(1 + REPEATS):
        begin_s = time.perf_counter()
        play(graph, record=False)
        timings.append({**size, "compile_s": 0.0, "simulate_s": time.perf_counter() - begin_s})
    return timings


def as_text(row: Mapping[str, Any]) -> str:
    """A line for people.

    >>> as_text({"case": "a", "ranks": 8, "tasks": 100, "tasks_run": 10, "compile_s": 0.002, "simulate_s": 0.001,
    ...          "peak_bytes": 2**30}).split()
    ['a', '8', 'ranks', '100', 'tasks', '10', 'run', 'compile', '2.0', 'ms', 'simulate', '1.0', 'ms', '1.00', 'GiB']
    """
    return (
        f"{row['case']:<24} {row['ranks']:>7} ranks {row['tasks']:>12} tasks {row['tasks_run']:>8} run"
        f"   compile {row['compile_s'] * 1e3:>5.1f} ms   simulate {row['simulate_s'] * 1e3:>5.1f} ms"
        f"   {row['peak_bytes'] / 2**30:.2f} GiB"
    )
