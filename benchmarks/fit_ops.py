"""Fit the operator curves, score them on sources they never saw, write both.

    python benchmarks/fit_ops.py ../shared/data/kernels             fit, score, print
    python benchmarks/fit_ops.py ../shared/data/kernels --write     and write proteus/hardware/chips/*.yaml
    ... --family attention --write                                  its part alone

Leave-one-source-out: the source scored took no part in the fit.  Where no
other source measured the chip, the score is of another chip's curve moved
over by the data sheet ("other chip"), which is what a new GPU gets.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
from opfit import chipfiles
from opfit import fit as fitting
from opfit import samples as reading
from opfit.samples import Samples

from proteus.costs import curves
from proteus.costs.ops import GEMM_MAX_SPLIT
from proteus.hardware import gpus
from proteus.hardware.document import curves_values

KERNELS = Path(__file__).parent.parent / "proteus" / "validation" / "data" / "kernels.json"
#: arguments that are the shape of a kernel and not the sheet of a GPU
SHAPE = {"gemm": 4, "conv": 13}
#: fewest shapes that two sources share for their spread to say something
MIN_SHARED = 30
#: rows shorter than this, or than this many times the shortest of their
#: source, measure launch and timer more than the kernel [s]
SCORED_FROM_S, SCORED_FROM_SHORTEST = 20e-6, 5.0
#: ... or than this many times the harness around the kernel
SCORED_FROM_HOST = 2.0
#: families of which no chip was measured over all shapes: chips share the shape of the curve
SHARED_SHAPE = {("conv", "fp32")}
#: ... and of which each chip was measured over some: chips have curves near the one that they share
NEAR_SHARED = {("attention", "flash2"), ("attention", "cudnn")}
#: two sources that measure the same thing differ by this much (A100 GEMMs that two libraries ran)
MIN_SIGMA = 0.05
HALF = {"bf16": "half", "fp16": "half"}
Key = tuple[str, str, str]


def load(folder: Path) -> dict[Key, list[Samples]]:
    groups: dict[Key, list[Samples]] = defaultdict(list)
    for read in (reading.gemm, reading.attention, reading.conv, reading.memory):
        for s in read(folder):
            groups[s.family, s.chip, HALF.get(s.key, s.key)].append(s)
    return groups


def pool(key: Key, groups: dict[Key, list[Samples]], without: str = "") -> list[Samples]:
    """What the curve of `key` is fitted to: its own rows, or those of all chips where chips share the shape."""
    family, chip, dtype = key
    samples = [s for k, group in groups.items() if (k[0], k[2]) == (family, dtype) for s in group]
    if (family, dtype) not in SHARED_SHAPE | NEAR_SHARED:
        samples = [s for s in samples if s.chip == chip]
    return [s for s in samples if s.source != without]


def fit(key: Key, data: list[Samples]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Parameters by chip and offsets by source, as the family of `key` is fitted."""
    family, _, dtype = key
    how = fitting.fit_near if (family, dtype) in NEAR_SHARED else fitting.fit
    return how(fitting.FAMILIES[family], data)


def fallback(key: Key, fits: dict[Key, np.ndarray]) -> tuple[Key, np.ndarray] | None:
    """The curve that the library would use for `key` where it has none."""
    family, chip, dtype = key
    chips = gpus.catalogue().chips
    chip_file = chips[chip]
    for lender, name in curves.places((chip_file, *gpus.lenders(chip_file, chips)), dtype):
        params = fits.get((family, lender.name, name))
        if params is not None and family == "conv" and name != dtype:
            params = np.array(curves.with_products(tuple(params), lender, dtype))
        if params is not None:
            return (family, lender.name, name), params
    return None


def held_out(
    key: Key, source: str, groups: dict[Key, list[Samples]], fits: dict[Key, np.ndarray]
) -> tuple[np.ndarray, str] | None:
    """The curve of `key` that never saw `source`, and what it is from."""
    family, _, dtype = key
    others = pool(key, groups, without=source)
    unseen = {k: v for k, v in fits.items() if k != key}
    if others:
        fitted = {(family, c, dtype): p for c, p in fit(key, others)[0].items()}
        if key in fitted:
            return fitted[key], "same chip"
        unseen |= fitted  # these chips shared their shape with the source: without it
    borrowed = fallback(key, unseen)
    return None if borrowed is None else (borrowed[1], f"other chip: {borrowed[0][1]}/{borrowed[0][2]}")


def long_rows(s: Samples) -> np.ndarray:
    """Which rows measure the kernel and not the harness."""
    harness_s = max(SCORED_FROM_SHORTEST * float(s.time_s.min()), SCORED_FROM_HOST * fitting.host_s(s))
    return s.time_s >= max(SCORED_FROM_S, harness_s)


def score(groups: dict[Key, list[Samples]], fits: dict[Key, np.ndarray]) -> list[dict[str, object]]:
    rows = []
    for key, group in groups.items():
        family = fitting.FAMILIES[key[0]]
        for held in group:
            prediction = held_out(key, held.source, groups, fits)
            if prediction is None:
                continue
            params, how = prediction
            floor_s = params[family.names.index("floor_s")]
            error = fitting.errors(family, params, held, max(0.0, fitting.host_s(held) - floor_s))
            long = long_rows(held)
            alone = fitting.errors(family, params, held)
            rows.append(
                {
                    "family": key[0], "chip": key[1], "key": key[2], "source": held.source, "held_out": how,
                    "rows": int(long.sum()), "error": float(np.abs(error[long]).mean()) if long.any() else None,
                    "bias": float(error[long].mean()) if long.any() else None,
                    "kernel_error": float(np.abs(alone[long]).mean()) if long.any() else None,
                    "host_us": fitting.host_s(held) * 1e6,
                    "all_rows": len(error), "error_all": float(np.abs(error).mean()),
                }
            )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", type=Path, help="write the table of errors there")
    parser.add_argument("--family", choices=fitting.FAMILIES, help="fit and score this family alone")
    options = parser.parse_args()
    groups = {k: v for k, v in load(options.folder).items() if options.family in (None, k[0])}
    fits, table = {}, defaultdict(lambda: defaultdict(dict))
    offsets: dict[tuple[str, str], dict[str, float]] = {}
    for key in groups:
        if key in fits:
            continue
        by_chip, chip_offsets = fit(key, pool(key, groups))
        for chip, params in by_chip.items():
            fits[key[0], chip, key[2]] = params
            offsets[key[0] + chip, key[2]] = chip_offsets
    for key, group in groups.items():
        family, params = fitting.FAMILIES[key[0]], fits[key]
        long = np.concatenate([
            np.abs(fitting.errors(family, params, s, offsets[key[0] + key[1], key[2]][s.source]))[long_rows(s)]
            for s in group
        ])  # fmt: skip
        table[key[1]][key[0]][key[2]] = {
            "params": {name: float(f"{value:.4g}") for name, value in zip(family.names, params, strict=True)},
            "sigma": round(float(long.mean()), 3) if len(long) else 0.2,
            "rows": int(sum(len(s.time_s) for s in group)),
            "source": ", ".join(sorted({s.source for s in group})),
        }
    errors = score(groups, fits)
    print_scores(errors)
    if options.json:
        options.json.write_text(json.dumps(errors, indent=1))
    for family, chip, key in fits:
        # the shipped band: the error on sources that the curve did not see, where there are any
        held = [r for r in errors if (r["family"], r["chip"], r["key"]) == (family, chip, key) and r["rows"]]
        held = [r for r in held if r["held_out"] == "same chip"]
        entry = table[chip][family][key]
        if held:
            mean = sum(r["error"] * r["rows"] for r in held) / sum(r["rows"] for r in held)
            entry["sigma"] = round(max(float(mean), entry["sigma"]), 3)
        entry["sigma"] = max(entry["sigma"], MIN_SIGMA)
    if options.write:
        write(table, options.family)
        scores = {"scores": errors, "agreement": agreement(groups)}
        if options.family:
            kept = json.loads(KERNELS.read_text())
            scores = {name: replaced(kept[name], rows, options.family) for name, rows in scores.items()}
        KERNELS.write_text(json.dumps({"about": "Written by benchmarks/fit_ops.py.", **scores}, indent=1) + "\n")


def replaced(rows: list[dict[str, object]], found: list[dict[str, object]], family: str) -> list[dict[str, object]]:
    """`rows` with those of `family` exchanged for `found`, where they stood."""
    before = [row for row in rows if row["family"] == family]
    at = rows.index(before[0]) if before else len(rows)
    others = [row for row in rows if row["family"] != family]
    return others[:at] + found + others[at:]


def agreement(groups: dict[Key, list[Samples]]) -> list[dict[str, object]]:
    """How far sources differ that measured the same shapes on the same chip, one factor between them taken away.

    Times are compared as shares of what the FLOP take at the rate of each sheet.  No curve can be nearer to both
    than half of it.
    """
    pairs = []
    for (family, chip, dtype), group in groups.items():
        if family not in SHAPE:
            continue
        shares = []
        for s in group:
            long = long_rows(s)
            shape, share = s.args[long, : SHAPE[family]], (s.time_s / fitting.bound_s(s))[long]
            shares.append({tuple(row): value for row, value in zip(shape, share, strict=True)})
        for (i, one), (j, peer) in combinations(enumerate(shares), 2):
            both = one.keys() & peer.keys()
            if len(both) < MIN_SHARED:
                continue
            ratio = np.array([one[row] / peer[row] for row in both])
            factor = float(np.median(ratio))
            pairs.append(
                {
                    "family": family, "chip": chip, "key": dtype, "one": group[i].source, "other": group[j].source,
                    "rows": len(both), "factor": factor, "spread": float(np.abs(ratio / factor - 1.0).mean()),
                }
            )  # fmt: skip
    return pairs


def print_scores(errors: list[dict[str, object]]) -> None:
    names = "family, chip, dtype, source, held out against, host us, rows, error, bias, without host, all rows, error"
    print("| " + names.replace(", ", " | ") + " |")
    print("|---" * len(names.split(", ")) + "|")
    for row in errors:
        scored = "- | - | -"
        if row["error"] is not None:
            scored = f"{row['error']:.1%} | {row['bias']:+.1%} | {row['kernel_error']:.1%}"
        print(
            f"| {row['family']} | {row['chip']} | {row['key']} | {row['source']} | {row['held_out']} | "
            f"{row['host_us']:.0f} | {row['rows']} | {scored} | {row['all_rows']} | {row['error_all']:.1%} |"
        )
    for name in fitting.FAMILIES:
        for how in ("same chip", "other chip", ""):
            part = [r for r in errors if r["family"] == name and str(r["held_out"]).startswith(how) and r["rows"]]
            if part:
                total = sum(r["rows"] for r in part)
                by_row = [sum(r[column] * r["rows"] for r in part) / total for column in ("error", "kernel_error")]
                by_source = float(np.mean([r["error"] for r in part]))
                print(
                    f"{name:10} {how or 'all':10} rows {total:6} mean abs. error {by_row[0]:.1%} "
                    f"(without host {by_row[1]:.1%}), mean over sources {by_source:.1%}"
                )


def write(table: dict[str, dict[str, dict[str, dict[str, object]]]], family: str | None) -> None:
    """Into the files of the chips; of `family` alone, with the others as they are."""
    published = json.loads((Path(__file__).parent / "opfit" / "published.json").read_text())
    if family in (None, "gemm"):
        anchor(table, published["anchors"])
    derive_flash1(table, published["flash1"])
    for chip, chip_file in gpus.catalogue().chips.items():
        values = dict(table.get(chip, {}))
        if family:
            values = curves_values(chip_file.curves) | ({family: values[family]} if family in values else {})
        chipfiles.write(chip, values)


def anchor(table: dict[str, dict[str, dict[str, dict[str, object]]]], anchors: dict[str, object]) -> None:
    """Chips of which one best rate is published: another chip's curve, scaled to meet it."""
    family = fitting.FAMILIES["gemm"]
    for row in anchors["rows"]:
        gpu = gpus.load(row["gpu"])
        params = dict(table[anchors["like"]]["gemm"]["half"]["params"])
        m, n, k = float(row["m"]), float(row["n"]), float(row["k"])
        sheet = [gpu.peak_flops["bf16"], gpu.memory_Bps, float(gpu.num_sms), GEMM_MAX_SPLIT]
        args = np.array([[1.0, m, n, k, 2.0 * (m * k + n * k + m * n), *sheet]])
        for _ in range(20):  # the time is almost, not quite, one over eff
            rate = 2.0 * m * n * k / family.many(args, np.array(list(params.values())))[0]
            params["eff"] *= row["TFLOPS"] * 1e12 / rate
        params["eff"] = float(f"{params['eff']:.4g}")
        note = f"{anchors['source']}; shape of the curve: {anchors['like']}"
        table[row["chip"]]["gemm"]["half"] = {"params": params, "sigma": 0.15, "rows": 1, "source": note}


def derive_flash1(table: dict[str, dict[str, dict[str, dict[str, object]]]], ratio: dict[str, object]) -> None:
    """Chips with FlashAttention-2 measured and FlashAttention-1 not: the ratio that A100 has."""
    for families in table.values():
        rows = families.get("attention", {})
        if "flash2" in rows and "flash1" not in rows:
            params = dict(rows["flash2"]["params"])
            params["eff"] *= ratio["of_flash2"]
            params["score_s"] /= ratio["of_flash2"]
            rows["flash1"] = {"params": params, "sigma": 0.2, "rows": 0, "source": ratio["source"]}


if __name__ == "__main__":
    main()
