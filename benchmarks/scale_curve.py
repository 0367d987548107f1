"""How compile and simulate times grow from 8 to 131,072 GPUs; writes docs/images/scale.svg.

GPT-3 175B on DGX A100: first tensor, then pipeline parallelism grows to 8 x 8, then data parallelism alone, with 96
micro-batches per replica throughout.  The cost of a simulation should follow classes of ranks and micro-batches, so
the curve should become flat where only data parallelism grows.

    python benchmarks/scale_curve.py
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import proteus as pt

SIZES = [2**power for power in range(3, 18)]
MICRO_BATCHES = 96
REPEATS = 5
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 70, 150, 40, 50
#: colour-blind safe (Okabe and Ito)
COLOURS = {"compile": "#0072b2", "simulate": "#d55e00", "together": "#555555"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One size of cluster."""

    gpus: int
    tasks: int
    tasks_run: int
    compile_s: float
    simulate_s: float


def measure(gpus: int) -> Point:
    """Median of warm runs."""
    pp = min(8, gpus // 8)
    dp = gpus // (8 * pp)
    model, cluster = pt.models.load("gpt3-175b"), pt.clusters.load("dgx-a100", nodes=gpus // 8)
    timings = []
    for _ in range(1 + REPEATS):
        tree = pt.StrategyTree(model).parallelize(tp=8, pp=pp, dp=dp, global_batch=MICRO_BATCHES * dp)
        timings.append(pt.simulate(tree, cluster).timings)
    warm = timings[1:]
    return Point(
        gpus=gpus,
        tasks=warm[-1].tasks,
        tasks_run=warm[-1].tasks_run,
        compile_s=statistics.median(t.compile_s for t in warm),
        simulate_s=statistics.median(t.simulate_s for t in warm),
    )


def svg(points: Sequence[Point]) -> str:
    """Both axes logarithmic, as a picture that needs no library."""
    lows, highs = 1e-3, 1e1

    def x(gpus: float) -> float:
        first, last = math.log2(SIZES[0]), math.log2(SIZES[-1])
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log2(gpus) - first) / (last - first)

    def y(seconds: float) -> float:
        share = (math.log10(seconds) - math.log10(lows)) / (math.log10(highs) - math.log10(lows))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    def text(at_x: float, at_y: float, words: str, anchor: str = "middle", colour: str = "#333333") -> str:
        return f'<text x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 20, "Time to compile and simulate a step of GPT-3 175B, warm, on one core", "start"),
    ]
    for power in range(-3, 2):
        level = y(10.0**power)
        label = {-3: "1 ms", -2: "10 ms", -1: "100 ms", 0: "1 s", 1: "10 s"}[power]
        parts += [
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{level:.1f}" y2="{level:.1f}" stroke="#dddddd"/>',
            text(LEFT - 8, level + 4, label, "end"),
        ]
    for gpus in SIZES[::2]:
        parts.append(text(x(gpus), HEIGHT - BOTTOM + 18, f"{gpus:,}"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "GPUs"))
    series: dict[str, Callable[[Point], float]] = {
        "compile": lambda p: p.compile_s,
        "simulate": lambda p: p.simulate_s,
        "together": lambda p: p.compile_s + p.simulate_s,
    }
    for number, (name, read) in enumerate(series.items()):
        colour, dash = COLOURS[name], ("", "6 3", "2 3")[number]
        way = " ".join(f"{x(p.gpus):.1f},{y(max(read(p), lows)):.1f}" for p in points)
        parts.append(
            f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        parts += [
            f'<circle cx="{x(p.gpus):.1f}" cy="{y(max(read(p), lows)):.1f}" r="3" fill="{colour}"/>' for p in points
        ]
        parts += [
            f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 36}" y1="{TOP + 20 * number}" '
            f'y2="{TOP + 20 * number}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>',
            text(WIDTH - RIGHT + 42, TOP + 4 + 20 * number, name, "start", colour),
        ]
    last = points[-1]
    parts.append(text(WIDTH - RIGHT + 12, TOP + 80, f"{last.tasks / 1e6:,.0f} M tasks", "start"))
    parts.append(text(WIDTH - RIGHT + 12, TOP + 96, f"{last.tasks_run:,} played", "start"))
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", type=Path, default=Path(__file__).parents[1] / "docs" / "images" / "scale.svg")
    options = parser.parse_args()
    points = []
    print(f"{'GPUs':>8} {'tasks':>14} {'played':>8} {'compile':>10} {'simulate':>10}")
    for gpus in SIZES:
        point = measure(gpus)
        points.append(point)
        print(
            f"{point.gpus:>8,} {point.tasks:>14,} {point.tasks_run:>8,} {point.compile_s * 1e3:>7.1f} ms "
            f"{point.simulate_s * 1e3:>7.1f} ms",
            flush=True,
        )
    options.svg.parent.mkdir(parents=True, exist_ok=True)
    options.svg.write_text(svg(points), encoding="utf-8")


if __name__ == "__main__":
    main()
