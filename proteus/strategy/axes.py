"""Mesh axes of a recipe: the devices of a stage, divided in two ways at once.

Everything but the experts is cut by dp × cp × tp, the experts by
edp × ep × etp, tensor innermost in both (Megatron's parallel folding, Liu et
al., arXiv 2504.14960).  A mesh has every boundary of both::

    dp=2                    cp=2        tp=2
    ├───────────┬───────────┼─────┬─────┤
    edp=2       ep=2              etp=2          axes  dp=2  cp_ep=2  tp=2

An axis is named by what it is to both: ``cp_ep`` is context parallel, and
expert parallel among the experts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from proteus.errors import StrategyError
from proteus.mesh import Mesh

#: what an axis is to the experts: copies, other experts, parts of one
Region = Literal["data", "expert", "tensor"]

#: axis → (degree that it is part of, what it is to the experts), in the order of the devices, outermost first.
#: ``tq`` is the part of tp that cuts the queries of one key-value head.
AXES: Mapping[str, tuple[str, Region]] = {
    "dp": ("dp", "data"),
    "shard": ("dp", "data"),
    "ep": ("dp", "expert"),
    "dp_tp": ("dp", "tensor"),
    "cp": ("cp", "data"),
    "cp_ep": ("cp", "expert"),
    "cp_tp": ("cp", "tensor"),
    "tp_dp": ("tp", "data"),
    "tp_ep": ("tp", "expert"),
    "tp": ("tp", "tensor"),
    "tq_dp": ("tq", "data"),
    "tq_ep": ("tq", "expert"),
    "tq": ("tq", "tensor"),
}
_NAMES = {part: name for name, part in AXES.items() if name != "shard"}


def named(names: Sequence[str], *bases: str) -> tuple[str, ...]:
    """Those of the axes that are part of the degrees `bases`.

    >>> named(("dp", "ep", "tp"), "dp", "cp")
    ('dp', 'ep')
    """
    return tuple(name for name in names if name in AXES and AXES[name][0] in bases)


def among_experts(names: Sequence[str], region: Region) -> tuple[str, ...]:
    """Those of the axes that are `region` to the experts.

    >>> among_experts(("dp", "ep", "cp_ep", "tp"), "expert")
    ('ep', 'cp_ep')
    """
    return tuple(name for name in names if name in AXES and AXES[name][1] == region)


def degrees(mesh: Mesh) -> dict[str, int]:
    """The degrees, in terms of ``parallelize``, that a mesh of a recipe was made of.

    >>> degrees(Mesh((("dp", 2), ("cp_ep", 2), ("tp", 2))))
    {'dp': 2, 'tp': 2, 'cp': 2, 'ep': 2, 'etp': 2}
    """
    names = mesh.names
    return {
        "dp": mesh.degree(named(names, "dp")),
        "tp": mesh.degree(named(names, "tp", "tq")),
        "cp": mesh.degree(named(names, "cp")),
        "ep": mesh.degree(among_experts(names, "expert")),
        "etp": mesh.degree(among_experts(names, "tensor")),
    }


def copy_axes(mesh: Mesh) -> tuple[str, ...]:
    """Axes along which ranks hold copies of some parameter: those that ZeRO can cut states over.

    >>> copy_axes(Mesh((("dp", 2), ("ep", 2), ("cp", 1), ("tp", 2))))
    ('dp', 'ep')
    """
    axis_names = {*named(mesh.names, "dp", "cp"), *among_experts(mesh.names, "data")}
    return tuple(name for name, size in mesh.axes if name in axis_names and size > 1)


def folded(*, dp: int, cp: int, tp: int, tq: int, ep: int, etp: int) -> dict[str, int] | None:
    """Sizes of the axes in device order; None where the two divisions have no common refinement.

    >>> folded(dp=4, cp=2, tp=2, tq=1, ep=4, etp=1)
    {'dp': 4, 'cp_ep': 2, 'tp_ep': 2}
    >>> folded(dp=3, cp=2, tp=1, tq=1, ep=3, etp=1) is None
    True
    """
    left: dict[Region, int] = {"tensor": etp, "expert": ep}
    size_of_axis: dict[str, int] = {}
    for base, size in (("tq", tq), ("tp", tp), ("cp", cp), ("dp", dp)):
        for region, wanted in left.items():
            part = math.gcd(size, wanted)
            size, left[region] = size // part, wanted // part
            size_of_axis[_NAMES[base, region]] = part
            if size > 1 and left[region] > 1:
                return None
        size_of_axis[_NAMES[base, "data"]] = size
    if any(wanted > 1 for wanted in left.values()):
        return None
    return {name: size_of_axis[name] for name in AXES if size_of_axis.get(name, 1) > 1}


def mesh_axes(
    *, dp: int, shard: int | None, cp: int, tp: int, tq: int, ep: int, etp: int
) -> tuple[tuple[str, int], ...]:
    """The axes of a stage, outermost first; one of tensor parallelism, and dp, are always among them."""
    sizes = folded(dp=dp, cp=cp, tp=tp, tq=tq, ep=ep, etp=etp)
    assert sizes is not None, "degrees are checked before"
    whole = sizes.get("dp", 1)
    if shard is not None:
        if shard < 1 or whole % shard:
            possible = ", ".join(str(s) for s in range(1, whole + 1) if whole % s == 0)
            raise StrategyError(f"shard={shard} does not divide {whole} data-parallel ranks; possible: {possible}")
        sizes |= {"dp": whole // shard, "shard": shard}
    always = ("dp",) if named(tuple(sizes), "tp", "tq") else ("dp", "tp")
    return tuple((name, sizes.get(name, 1)) for name in AXES if sizes.get(name, 1) > 1 or name in always)
