"""Fit ``proteus/costs/data/collectives.yaml`` to published measurements.

    python benchmarks/fit_collectives.py MEASUREMENTS.csv            errors, all and held out
    python benchmarks/fit_collectives.py MEASUREMENTS.csv --write    and write the data file

The form is that of :func:`proteus.costs.collectives.terms_with`; the algorithm
and protocol of a row are the ones that the model itself would choose, unless
the row names them.  Each family of links is fitted by itself, on the logarithm
of the time, starting from (and held near) NCCL's own tuner constants.

*Held out* means: all numbers of the family are fitted again without one source
of measurements, and that source is predicted.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from proteus.cluster.cluster import Cluster
from proteus.cluster.host import build
from proteus.cluster.kinds import LinkKind
from proteus.cluster.layout import Layout, Slot
from proteus.costs.collectives import (
    Algorithm,
    Choice,
    Collective,
    GroupShape,
    algorithms,
    num_channels,
    protocols,
    terms_with,
)
from proteus.costs.links import LinkTraits, ProtocolTraits
from proteus.costs.shapes import group_shapes
from proteus.hardware import gpus
from proteus.units import GB, MB, US

DATA = Path(__file__).parents[1] / "proteus/costs/data/collectives.yaml"
#: errors are reported for messages from here on [bytes]
LARGE_BYTES = 1 * MB
#: weight of small messages: their time is start-up, which differs by software and clock
SMALL_WEIGHT = 0.4
#: families are started from families like them, so all are fitted this often
ROUNDS = 2
#: relative spread that the starting values are trusted to; less for those that few rows tell apart
PRIOR_SIGMA = {"hop": 0.4, "own": 0.3}
DEFAULT_PRIOR_SIGMA = 0.8
#: strength of the starting values: one row of the table that is off by this weighs as much as one sigma
PRIOR_WEIGHT = 0.15
#: fewer held-out rows than this do not tell the spread of a family
FEW_ROWS = 20
#: one process that drives several GPUs launches them one after another [s]; the usual cost of a launch
LAUNCH_S = 3.5 * US
NAMES = {
    "all_reduce": Collective.ALL_REDUCE,
    "all_gather": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
    "all_to_all": Collective.ALL_TO_ALL,
    "broadcast": Collective.BROADCAST,
    "sendrecv": Collective.SEND,
}

#: LL carries 4 bytes of data with 4 of flag, LL128 120 with 8 (NCCL src/include/device.h).
PROTOCOLS = {
    "ll": ProtocolTraits(efficiency=0.5),
    "ll128": ProtocolTraits(efficiency=120 / 128),
    "simple": ProtocolTraits(efficiency=1.0),
}


# --- the machines that were measured -----------------------------------------


@dataclass(frozen=True)
class Machine:
    """What a source measured on: enough to build the cluster."""

    family: str
    gpu: str
    per_host: int = 8
    link_GBps: float = 0.0
    nics: int = 0
    nic_GBps: float = 0.0
    is_spread: bool = False  # over the sockets, when not all GPUs take part
    socket_GBps: float = 0.0
    pairs: bool = False


# Nominal rates of one direction: data sheets of the GPUs; NICs as the source states them.
NVLINK2 = Machine("nvlink2", "v100-sxm3-32gb", per_host=16, link_GBps=150)
CUBE_MESH = Machine("nvlink2", "v100-sxm2-16gb", link_GBps=25, pairs=True)
NVLINK3 = Machine("nvlink3", "a100-80gb", link_GBps=300)
NVLINK4 = Machine("nvlink4", "h100-sxm", link_GBps=450)
NVLINK5 = Machine("nvlink5", "b200", link_GBps=900)
# Two sockets of four GPUs; 6 and 22 GB/s between sockets (NCCL src/graph/topo.h).
SOCKET = Machine("socket", "titan-xp", link_GBps=15.75, socket_GBps=6, is_spread=True)
PCIE5 = Machine("pcie5", "rtx-pro-6000", link_GBps=63, socket_GBps=64)
BRIDGE5 = Machine("pcie5", "h100-pcie", link_GBps=63, socket_GBps=64, pairs=True)


def machine_of(row: Mapping[str, str]) -> Machine | None:
    """The machine of a row; None where its links are not known."""
    link, source, nodes = row["link"], row["source"], row["n_nodes"]
    if "TCPXO" in link:
        return replace(NVLINK4, family="tcpxo", nics=8, nic_GBps=25)
    if "EFA" in link:
        return replace(NVLINK3, family="efa", nics=4, nic_GBps=12.5)
    if "ConnectX-5 RoCE" in link:
        return replace(NVLINK2, family="roce", per_host=8, nics=2, nic_GBps=12.5)
    if source.startswith(("A100-2node", "multi-guest")):  # not stated: the usual eight 200 Gb/s cards
        return replace(NVLINK3, family="ib", nics=8, nic_GBps=25)
    if "4x200G HDR" in link:
        return replace(NVLINK3, family="ib", nics=4, nic_GBps=25)
    if float(nodes or 1) > 1:
        return None
    if link.startswith("NCCL 2.0"):
        return SOCKET
    if link == "PCIe5":
        return PCIE5
    if link.startswith("NVLink bridge pairs + PCIe5") and row["n_ranks"] == "4":
        return BRIDGE5
    for name, machine in (("NVLink2 (DGX-1", CUBE_MESH), ("NVLink2", NVLINK2), ("NVLink3", NVLINK3)):
        if name in link:
            return machine
    if source.startswith("aicb/A100"):
        return NVLINK3
    if "NVLink4" in link or "Hopper" in row["gpu"] + row["system"]:
        return NVLINK4
    return NVLINK5 if "NVLink5" in link else None


@cache
def cluster_of(machine: Machine, nodes: int) -> Cluster:
    """The machine as a cluster of `nodes` hosts."""
    n, on_pcie = machine.per_host, machine.family.startswith(("pcie", "socket"))
    lanes = (machine.link_GBps if on_pcie else 63) * GB
    parents = (
        [f"cpu{i * 2 // n}" for i in range(n)] if on_pcie else [f"sw{i * max(machine.nics, 1) // n}" for i in range(n)]
    )
    direct: tuple[tuple[int, int, float], ...] = ()
    if machine == CUBE_MESH:
        double = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
        single = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))
        direct = (*((a, b, 50 * GB) for a, b in double), *((a, b, 25 * GB) for a, b in single))
    elif machine.pairs:
        direct = tuple((a, a + 1, 300 * GB) for a in range(0, n, 2))
    layout = Layout(
        cpus=("cpu0", "cpu1"),
        switches=()
        if on_pcie
        else tuple(Slot(name=f"sw{i}", parent="cpu0", up_Bps=63 * GB) for i in range(max(machine.nics, 1))),
        gpu_slots=tuple(Slot(name=f"gpu{i}", parent=parent, up_Bps=lanes) for i, parent in enumerate(parents)),
        nics=tuple(
            Slot(name=f"nic{i}", parent=f"sw{i}", up_Bps=machine.nic_GBps * GB, kind=LinkKind.NIC, rail=i)
            for i in range(machine.nics)
        ),
        gpus=(gpus.load(machine.gpu),) * n,
        direct=direct,
        switched_Bps=() if on_pcie or direct else (machine.link_GBps * GB,) * n,
        socket_Bps=(machine.socket_GBps or 20) * GB,
        memory_Bps=100 * GB,
    )
    return Cluster(name=machine.family, runs=((build(machine.family, layout), nodes),))


@cache
def shape_of(machine: Machine, nodes: int, ranks: int) -> GroupShape:
    """The shape of the group that was measured."""
    per_host = ranks // nodes
    local = np.arange(per_host) * (machine.per_host // per_host if machine.is_spread else 1)
    members = (np.arange(nodes)[:, None] * machine.per_host + local).reshape(1, -1)
    shapes, _ = group_shapes(members, cluster_of(machine, nodes))
    return replace(shapes[0], inter=machine.family) if nodes > 1 else shapes[0]


@dataclass(frozen=True)
class Row:
    """One measurement."""

    source: str
    family: str
    kind: Collective
    shape: GroupShape
    size_bytes: float
    time_s: float
    forced: Algorithm | None
    weight: float
    launch_s: float


def read(path: Path) -> list[Row]:
    """The rows whose links are known."""
    rows = []
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            machine = machine_of(row)
            if machine is None or not row["time_us"] or "poor perf" in row["source"] or "Single" in row["link"]:
                continue
            kind, ranks = NAMES[row["collective"]], int(row["n_ranks"])
            nodes = int(float(row["n_nodes"] or 1))
            if kind is Collective.SEND:
                ranks = 2  # a shift by one: every rank sends to the next
            text = row["link"] + row["notes"]
            forced = Algorithm.RING if "NVLS off" in text or "algo=Ring" in text or "ring" in row["system"] else None
            forced = Algorithm.RING if "NCCL 2.0" in text else forced  # trees came with NCCL 2.4
            forced = Algorithm.NVLS if "algo=NVLS" in text else forced
            size = float(row["size_bytes"])
            if size < 512 and nodes == 1:  # of many sizes with one time, few
                continue
            weight = 1.0 if size >= LARGE_BYTES else SMALL_WEIGHT
            shape = shape_of(machine, nodes, ranks)
            rows.append(
                Row(
                    row["source"],
                    machine.family,
                    kind,
                    shape,
                    size,
                    float(row["time_us"]) * US,
                    forced,
                    weight,
                    LAUNCH_S * ranks if "one process" in row["system"] else 0.0,
                )
            )
    return rows


# --- the numbers of a family as a vector --------------------------------------

# Start: NCCL's tuner (src/graph/tuning.cc: baseLat, hwLat), and shares of nominal of the order that nccl-tests show.
# A tree that NVLink limits (it carries chains up and down at once) gets half: the tuner's own ratio.
START = {
    "base_us": 5.0, "hop_ll": 0.6, "hop_ll128": 1.2, "hop_simple": 2.5, "pair_us": 0.6, "nvls_us": 6.0,
    "ring": 0.82, "tree": 0.5, "nvls": 0.65, "pairs": 0.72, "p2p": 0.82,
    "half_ring": 1.5e5, "half_tree": 1.5e5, "half_nvls": 1.5e5, "half_pairs": 1.5e5, "half_p2p": 3e5,
    "ll": 0.5, "ll128": 0.6, "own_ring": 0.4, "own_pairs": 0.3, "power": 0.6,
}  # fmt: skip
START_NET = START | {
    "base_us": 10.0, "hop_ll": 2.7, "hop_ll128": 4.0, "hop_simple": 12.0, "ll": 0.4, "ll128": 0.8, "pair_us": 1.0,
    "ring": 0.93, "tree": 0.88, "nvls": 0.88, "pairs": 0.8, "p2p": 0.93, "half_ring": 5e5, "half_tree": 5e5,
    "half_nvls": 5e5,
}  # fmt: skip
START_PCIE = START | {"hop_ll": 1.0, "hop_ll128": 2.5, "hop_simple": 5.7, "ring": 0.75, "tree": 0.7, "pairs": 0.6}
PARAMETERS = tuple(START)
SHARES = ("ring", "tree", "nvls", "pairs", "p2p", "ll", "ll128", "power")
CLOUD = ("efa", "tcpxo")  # their proxies cost more than a verb
NETWORKS = ("ib", "roce", "efa", "tcpxo")


def start_of(family: str, fitted: Mapping[str, np.ndarray]) -> np.ndarray:
    """Where the fit of a family starts: the mean of families like it, or NCCL's constants."""
    alike = [v for name, v in fitted.items() if name != family and _is_alike(name, family)]
    if alike:
        mean: np.ndarray = np.exp(np.mean(np.log(alike), axis=0))
        return mean
    start = START_NET if family in NETWORKS else START_PCIE if family.startswith("pcie") else START
    return np.array([start[name] for name in PARAMETERS])


def _is_alike(one: str, peer: str) -> bool:
    if one in NETWORKS:
        return (one in CLOUD) == (peer in CLOUD) and peer in NETWORKS
    return one.rstrip("0123456789") == peer.rstrip("0123456789")


def traits(vector: np.ndarray) -> LinkTraits:
    p = dict(zip(PARAMETERS, vector.tolist(), strict=True))
    return LinkTraits(
        base_s=p["base_us"] * US,
        hop_s={name: p[f"hop_{name}"] * US for name in ("ll", "ll128", "simple")},
        pair_s=p["pair_us"] * US,
        nvls_s=p["nvls_us"] * US,
        efficiency={name: p[name] for name in ("ring", "tree", "nvls", "pairs", "p2p")},
        half_bytes={name: p[f"half_{name}"] for name in ("ring", "tree", "nvls", "pairs", "p2p")},
        protocol_share={name: p[name] for name in ("ll", "ll128")},
        own_share={name: p[f"own_{name}"] for name in ("ring", "pairs")},
        ramp_power=p["power"],
        sigma=0.0,
        source="",
    )


def predict(row: Row, link_traits: LinkTraits, inside: Mapping[str, LinkTraits]) -> float:
    """Time of a row when the numbers of its family are `link_traits` [s]."""
    many = row.shape.num_hosts > 1
    intra, inter = (inside[row.shape.intra], link_traits) if many else (link_traits, link_traits)
    usable = algorithms(row.kind, row.shape, all_known=True)
    names = (row.forced,) if row.forced in usable else algorithms(row.kind, row.shape)
    best = math.inf
    for name in names:
        for protocol in protocols(name, row.shape):
            choice = Choice(name, protocol, num_channels(name, row.shape))
            price = terms_with(row.kind, row.shape, choice, row.size_bytes, intra, inter, PROTOCOLS[protocol])
            best = min(best, price.alone_s)
    return best + row.launch_s


def fit(rows: list[Row], start: np.ndarray, inside: Mapping[str, LinkTraits]) -> np.ndarray:
    """Numbers of one family from `rows`, near `start` where they say nothing."""
    share = np.array([name in SHARES for name in PARAMETERS])

    def to_vector(free: np.ndarray) -> np.ndarray:
        # Shares stay below 1 by a logistic, the rest positive by an exponential.
        odds = start / (1 - np.minimum(start, 0.999)) * np.exp(free)
        return np.where(share, odds / (1 + odds), start * np.exp(free))

    weights = _weights(rows)
    trust = np.array([PRIOR_SIGMA.get(name.partition("_")[0], DEFAULT_PRIOR_SIGMA) for name in PARAMETERS])

    def residuals(free: np.ndarray) -> np.ndarray:
        link_traits = traits(to_vector(free))
        error = np.array([math.log(predict(row, link_traits, inside) / row.time_s) for row in rows])
        return np.concatenate([weights * error, free / trust * PRIOR_WEIGHT])

    solution = least_squares(residuals, np.zeros(len(start)), loss="soft_l1", f_scale=0.15, diff_step=1e-3, max_nfev=40)
    return to_vector(solution.x)


def _weights(rows: list[Row]) -> np.ndarray:
    """Sources count alike up to the square root of their rows, so that a long table does not outvote all others."""
    count: dict[str, int] = {}
    for row in rows:
        count[row.source] = count.get(row.source, 0) + 1
    return np.array([row.weight * count[row.source] ** -0.25 for row in rows]) * 2


def errors(rows: Iterable[Row], link_traits: LinkTraits, inside: Mapping[str, LinkTraits]) -> np.ndarray:
    """Relative errors of rows of large messages."""
    return np.array([predict(r, link_traits, inside) / r.time_s - 1 for r in rows if r.size_bytes >= LARGE_BYTES])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measurements", type=Path)
    parser.add_argument("--write", action="store_true", help="write the data file")
    arguments = parser.parse_args()
    rows = read(arguments.measurements)
    by_family: dict[str, list[Row]] = {}
    for row in rows:
        by_family.setdefault(row.family, []).append(row)
    fitted: dict[str, np.ndarray] = {}
    sigma: dict[str, float] = {}
    inside: dict[str, LinkTraits] = {}
    all_held: list[np.ndarray] = []
    order = sorted(by_family, key=lambda f: (f in NETWORKS, f))
    for _ in range(ROUNDS):
        for family in order:
            fitted[family] = fit(by_family[family], start_of(family, fitted), inside)
            inside[family] = traits(fitted[family])
    for family in order:
        mine, link_traits = by_family[family], inside[family]
        print(
            f"{family:8} {len(mine):4} rows  fitted on all: mean |error| {_percent(errors(mine, link_traits, inside))}"
        )
        held = []
        for source in sorted({row.source for row in mine}):
            out = [row for row in mine if row.source == source]
            rest = [row for row in mine if row.source != source]
            start = start_of(family, fitted)
            error = errors(out, traits(fit(rest, start, inside) if rest else start), inside)
            if len(error):
                held.append(error)
                now = _percent(errors(out, link_traits, inside))
                print(f"         {source[:52]:52} {len(error):4} rows  held out {_percent(error)}  fitted {now}")
        if held:
            together = np.concatenate(held)
            all_held.append(together)
            sigma[family] = _sigma(together)
            if len(together) < FEW_ROWS:
                sigma[family] = max(sigma[family], ASSUMED_SIGMA)
            print(f"         held out: mean |error| {_percent(together)}, sigma {sigma[family]:.2f}")
    if all_held:
        print(f"all families held out, messages of 1 MB and more: mean |error| {_percent(np.concatenate(all_held))}")
    if arguments.write:
        write(fitted, sigma, by_family)


def _sigma(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.log1p(error) ** 2)))


def _percent(error: np.ndarray) -> str:
    return f"{100 * np.abs(error).mean():5.1f}%" if len(error) else "  none"


#: families without measurements of their own, and the ones they are taken from
ASSUMED = {
    "nvlink1": ("nvlink2", "as nvlink2; no measurements"),
    "xgmi": ("nvlink4", "as nvlink4; no measurements"),
    "pcie3": ("pcie4", "NCCL's tuner constants (src/graph/tuning.cc, topo.h: 12 GB/s of 15.75); no measurements"),
    "pcie4": ("pcie4", "NCCL's tuner constants (src/graph/tuning.cc, topo.h: 24 GB/s of 31.5); no measurements"),
}
#: relative error to expect where nothing was measured
ASSUMED_SIGMA = 0.3
HEADER = """\
# How collectives behave on each family of links; the fields are those of proteus.costs.links.
# Written by benchmarks/fit_collectives.py from published nccl-tests tables; do not edit by hand.
# sigma: root mean square of log(predicted / measured) for messages of 1 MB and more, each source
# predicted from a fit without it.
"""


def write(fitted: Mapping[str, np.ndarray], sigma: Mapping[str, float], rows: Mapping[str, list[Row]]) -> None:
    """The data file."""
    vectors = dict(fitted) | {"pcie4": start_of("pcie4", {})}
    for name, (model, _) in ASSUMED.items():
        vectors[name] = vectors[model]
    lines = [HEADER, "protocols:"]
    for protocol, protocol_traits in PROTOCOLS.items():
        lines.append(f"  {protocol}: {{efficiency: {protocol_traits.efficiency:g}}}")
    lines.append("links:")
    for name in sorted(vectors):
        p = {key: float(f"{value:.3g}") for key, value in zip(PARAMETERS, vectors[name], strict=True)}
        source = ASSUMED[name][1] if name in ASSUMED else "; ".join(sorted({_cited(row.source) for row in rows[name]}))
        lines += [
            f"  {name}:",
            f"    base_us: {p['base_us']:g}",
            f"    hop_us: {_flow(p, 'hop_', ('ll', 'll128', 'simple'))}",
            f"    pair_us: {p['pair_us']:g}",
            f"    nvls_us: {p['nvls_us']:g}",
            f"    efficiency: {_flow(p, '', ('ring', 'tree', 'nvls', 'pairs', 'p2p'))}",
            f"    half_bytes: {_flow(p, 'half_', ('ring', 'tree', 'nvls', 'pairs', 'p2p'))}",
            f"    protocol_share: {_flow(p, '', ('ll', 'll128'))}",
            f"    own_share: {_flow(p, 'own_', ('ring', 'pairs'))}",
            f"    ramp_power: {p['power']:g}",
            f"    sigma: {sigma.get(name, ASSUMED_SIGMA):.2g}",
            f"    source: {json.dumps(source)}",
        ]
    DATA.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cited(source: str) -> str:
    """A source without the remarks in brackets."""
    return source.partition(" (")[0].partition(" aws-batch")[0]


def _flow(p: Mapping[str, float], prefix: str, names: Iterable[str]) -> str:
    return "{" + ", ".join(f"{name}: {p[prefix + name]:g}" for name in names) + "}"


if __name__ == "__main__":
    main()
