"""From ops over factors to the blocks of a model: named dims, roles, and equal layers as one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from proteus.model.graph import BATCH, Block, Dim, Op, Operand, OpKind, Role, Saved, Tensor
from proteus.torch_import.factors import Factor, atoms
from proteus.torch_import.raw import RawOp, RawTensor

#: ops of an entry of a module list, on average, below which the list is no list of layers
MIN_OPS = 2.5
_INDEX = re.compile(r"\.(\d+)(?=\.|$)")
#: ops whose dims are named in the model's own terms
_HEAD_OPS = (OpKind.CROSS_ENTROPY, OpKind.LOSS)


@dataclass(frozen=True, slots=True)
class _Place:
    """A copy of a layer: ``model.layers`` and 3."""

    container: str
    index: int

    @property
    def path(self) -> str:
        return f"{self.container}.{self.index}"


@dataclass(slots=True, kw_only=True)
class _Segment:
    """Ops that run together: of one copy of a layer, or between layers."""

    place: _Place | None
    name: str
    ops: list[RawOp]
    ins: list[RawTensor]
    outs: list[RawTensor]

    @property
    def prefix(self) -> str:
        return f"{self.place.path}." if self.place else ""


def blocks_of(ops: Sequence[RawOp], batch: Factor, loss: RawTensor, rename: Mapping[str, str]) -> tuple[Block, ...]:
    """The chain of blocks; equal neighbours of a module list are one block with a count."""
    _name_products(ops)
    segments = _segments(ops)
    _hand_over(segments, loss)
    namer = _Namer(batch.root(), rename)
    owners: dict[int, str] = {}
    blocks: list[Block] = []
    previous: _Segment | None = None
    for segment in segments:
        block = _BlockMaker(segment, namer, owners).block()
        if (
            previous is not None
            and previous.place is not None
            and segment.place is not None
            and previous.place.container == segment.place.container
            and segment.place.index == previous.place.index + 1
            and _content(blocks[-1]) == _content(block)
        ):
            blocks[-1] = replace(blocks[-1], count=blocks[-1].count + 1)
        else:
            blocks.append(block)
        previous = segment
    return tuple(blocks)


def _content(block: Block) -> Block:
    return replace(block, name="", count=1, first=0)


def _name_products(ops: Sequence[RawOp]) -> None:
    """Hints for what a linear makes: ``ffn`` before an activation, else the module's name."""
    for op in ops:
        if op.kind is OpKind.ACTIVATION:
            for tensor, _ in op.ins:
                if tensor.maker is not None and tensor.maker.kind is OpKind.LINEAR:
                    for factor in atoms(tensor.factors):
                        if factor in atoms(tensor.maker.ins[1][0].factors):
                            factor.hint("ffn", 15)
    for op in ops:
        if op.kind is OpKind.LINEAR:
            inside = set(map(id, atoms(op.ins[0][1])))
            for (_, out), (_, weight) in zip(op.outs, op.ins[1:], strict=False):
                for factor in atoms(out):
                    if id(factor) not in inside and factor in atoms(weight):
                        factor.hint(re.sub(r"\W", "_", op.path.rpartition(".")[2]) or "features", 1)


# -- segments ------------------------------------------------------------------------


def _places(path: str) -> list[_Place]:
    """Every place in a module list along a path, outermost first."""
    return [_Place(f".{path}"[1 : match.start()], int(match[1])) for match in _INDEX.finditer(f".{path}")]


def _containers(ops: Sequence[RawOp]) -> set[str]:
    """Module lists whose entries are layers: the outermost whose entries repeat, else the outermost that is large."""
    entries: dict[str, dict[int, list[tuple[str, str, tuple[int, ...]]]]] = {}
    for op in ops:
        for place in _places(op.path):
            shape = tuple(f.size for _, out in op.outs for f in atoms(out))
            row = (op.path.removeprefix(place.path), op.kind.value, shape)
            entries.setdefault(place.container, {}).setdefault(place.index, []).append(row)
    large = {
        name for name, rows in entries.items() if sum(map(len, rows.values())) >= MIN_OPS * len(rows) or _repeats(rows)
    }
    chosen: set[str] = set()
    for name in sorted(large, key=lambda n: n.count(".")):
        if any(_is_inside(name, outer) for outer in chosen):
            continue
        inner = [other for other in large if _is_inside(other, name)]
        if _repeats(entries[name]) or not any(_repeats(entries[other]) for other in inner):
            chosen.add(name)
    return chosen


def _is_inside(inner: str, outer: str) -> bool:
    return inner.startswith(f"{outer}.")


def _repeats(rows: Mapping[int, Any]) -> bool:
    order = sorted(rows)
    return any(rows[a] == rows[b] for a, b in pairwise(order))


def _segments(ops: Sequence[RawOp]) -> list[_Segment]:
    containers = _containers(ops)
    places = [next((p for p in _places(op.path) if p.container in containers), None) for op in ops]
    places = _with_tails(ops, places)
    last: dict[str, int] = {place.container: number for number, place in enumerate(places) if place is not None}
    runs: list[tuple[_Place | None, list[RawOp]]] = []
    current: _Place | None = None
    for number, (op, place) in enumerate(zip(ops, places, strict=True)):
        if place is None and current is not None and number < last[current.container]:
            place = current  # between two layers: it belongs to the one before
        if not runs or place != current:
            runs.append((place, []))
        runs[-1][1].append(op)
        current = place
    names: dict[str, int] = {}
    found = []
    for number, (place, mine) in enumerate(runs):
        if place is not None:
            name = place.container
            names[place.path] = names.get(place.path, 0) + 1
            if names[place.path] > 1:
                name, place = f"{place.container}.{place.index}.again_{names[place.path]}", None
        else:
            name = _run_name(mine, number, len(runs))
            names[name] = names.get(name, 0) + 1
            name = name if names[name] == 1 else f"{name}_{names[name]}"
        found.append(_Segment(place=place, name=name, ops=mine, ins=[], outs=[]))
    return found


def _with_tails(ops: Sequence[RawOp], places: Sequence[_Place | None]) -> list[_Place | None]:
    """Ops that follow the last layer in the module above it, as they follow every layer before, belong to it."""
    found = list(places)
    for container in {place.container for place in places if place is not None}:
        starts: dict[int, int] = {}
        for number, place in enumerate(places):
            if place is not None and place.container == container:
                starts.setdefault(place.index, number)
        order = sorted(starts.values())
        if len(order) < 2:
            continue
        before, last = order[-2], order[-1]
        size = last - before
        kinds = [op.kind for op in ops[before:last]]
        end = last + size
        if [op.kind for op in ops[last:end]] == kinds and len(ops) > end:
            for number in range(last, end):
                if found[number] is None and found[before] is not None:
                    found[number] = places[last]
    return found


def _run_name(ops: Sequence[RawOp], number: int, total: int) -> str:
    if total == 1:
        return "model"
    if any(op.kind in _HEAD_OPS for op in ops):
        return "head"
    if number == 0:
        return "embedding" if any(op.kind in (OpKind.EMBEDDING, OpKind.EMBEDDING_BAG) for op in ops) else "stem"
    return "between"


def _hand_over(segments: Sequence[_Segment], loss: RawTensor) -> None:
    """What every segment takes from the one before and hands on, tensors that only pass through included."""
    made: dict[int, int] = {}
    tensors: dict[int, RawTensor] = {}
    last: dict[int, int] = {}
    for number, segment in enumerate(segments):
        for op in segment.ops:
            for tensor, _ in op.ins:
                if id(tensor) in made:
                    last[id(tensor)] = number
            for tensor, _ in op.outs:
                made[id(tensor)], tensors[id(tensor)] = number, tensor
    carried: list[RawTensor] = []
    for number, segment in enumerate(segments[:-1]):
        segment.ins = list(carried)
        new = [tensors[key] for key, start in made.items() if start == number and last.get(key, start) > number]
        kept: list[RawTensor] = []
        for tensor in carried:  # what a layer makes stands where what it was made of stood
            if last[id(tensor)] > number:
                kept.append(tensor)
            elif new:
                kept.append(new.pop(0))
        carried = [*kept, *new]
        segment.outs = list(carried)
    segments[-1].ins = list(carried)
    segments[-1].outs.append(loss)


# -- one block ----------------------------------------------------------------------------


class _Namer:
    """Names of factors, the same in every block where their hints are the same."""

    def __init__(self, batch: Factor, rename: Mapping[str, str]) -> None:
        self.batch, self.rename = batch, rename

    def wish(self, factor: Factor) -> str:
        if factor is self.batch:
            return BATCH
        hints = factor.root().hints
        name = max(sorted(hints), key=hints.__getitem__) if hints else f"dim{factor.size}"
        return self.rename.get(name, name)


class _BlockMaker:
    """One block from one segment."""

    def __init__(self, segment: _Segment, namer: _Namer, owners: dict[int, str]) -> None:
        self.segment, self.namer, self.owners = segment, namer, owners
        self.dims: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.tensors: dict[str, Tensor] = {}
        self.of: dict[int, str] = {}
        self.op_names: dict[int, str] = {}

    def block(self) -> Block:
        for tensor in self.segment.ins:
            self.tensor(tensor)
        self._name_ops()
        ops = tuple(self.op(op) for op in self.segment.ops)
        place = self.segment.place
        block = Block(
            name=place.container if place else self.segment.name,
            indexed=place is not None,
            first=place.index if place else 0,
            dims=self.dims,
            tensors=self.tensors,
            ops=ops,
            inputs=tuple(self.of[id(t)] for t in self.segment.ins),
            outputs=tuple(self.of[id(t)] for t in self.segment.outs),
        )
        block.validate()
        return block

    def relative(self, path: str) -> str:
        return path.removeprefix(self.segment.prefix)

    def _name_ops(self) -> None:
        used: dict[str, int] = {}
        for op in self.segment.ops:
            name = self.relative(op.path)
            while name in used:
                used[name] += 1
                name = f"{name}_{used[name]}"
            used[name] = 1
            self.op_names[id(op)] = name

    def name(self, factor: Factor) -> str:
        root = factor.root()
        if id(root) not in self.names:
            wish = name = self.namer.wish(root)
            number = 1
            while name in self.dims:
                number += 1
                name = f"{wish}_{number}"
            self.names[id(root)] = name
            self.dims[name] = 1 if root is self.namer.batch else root.size
        return self.names[id(root)]

    def tensor(self, tensor: RawTensor, name: str | None = None, dim_of: Callable[[Factor], str] | None = None) -> str:
        """The name of a tensor in this block, which it enters when it is first met."""
        if id(tensor) in self.of:
            return self.of[id(tensor)]
        if name is None:
            name = self.relative(tensor.name)
        if tensor in self.segment.ins:
            name = "x" if len(self.segment.ins) == 1 else f"x{self.segment.ins.index(tensor)}"
        while name in self.tensors:
            name = f"{name}_2"
        tied_to = None
        if tensor.kind == "parameter":
            path = f"{self.segment.place.path if self.segment.place else self.segment.name}.{name}"
            owner = self.owners.setdefault(id(tensor), path)
            tied_to = owner if owner != path else None
        dims: list[str] = []
        for factor in atoms(tensor.factors):
            dim = self.name(factor) if dim_of is None else dim_of(factor)
            if dim in dims:  # a square weight
                dim = self._second(dim)
            dims.append(dim)
        self.of[id(tensor)] = name
        self.tensors[name] = Tensor(name=name, dims=tuple(dims), kind=tensor.kind, dtype=tensor.dtype, tied_to=tied_to)
        return name

    def _second(self, dim: str) -> str:
        """A dim of the same size beside one that a tensor has twice."""
        name = f"{dim}_in"
        self.dims.setdefault(name, self.dims[dim])
        return name

    def op(self, raw: RawOp) -> Op:
        name = self.op_names[id(raw)]
        special = self._special(raw)

        def dim_of(factor: Factor) -> str:
            root = factor.root()
            return special.get(id(root)) or self.name(root)

        square = self._square(raw)

        def operand(item: tuple[RawTensor, list[Factor]], is_input: bool, place: int) -> Operand:
            tensor, factors = item
            dims: list[str] = []
            for factor in atoms(factors):
                dim = dim_of(factor)
                twice = dim in dims or (is_input and place == 0 and id(factor.root()) in square)
                dims.append(self._second(dim) if twice else dim)
            return Operand(self.tensor(tensor), tuple(dims))

        inputs = tuple(operand(item, True, place) for place, item in enumerate(raw.ins))
        for number, (tensor, _) in enumerate(raw.outs):
            tail = tensor.name.rpartition(".")[2] or f"out{number}"
            self.tensor(tensor, tensor.name if tensor.name.startswith("loss") else f"{name}.{tail}")
        outputs = tuple(operand(item, False, place) for place, item in enumerate(raw.outs))
        dims = self._roles(raw, inputs, outputs, dim_of)
        for dim in dims:
            self.dims.setdefault(dim, dims[dim].size)
        return Op(
            name=name,
            kind=raw.kind,
            dims=dims,
            inputs=inputs,
            outputs=outputs,
            saves=self._saves(raw.saves, name, dim_of),
            saves_unfused=self._saves(raw.saves_unfused, name, dim_of),
            attrs=self._attrs(raw, dim_of),
            selective=raw.selective,
        )

    def _special(self, raw: RawOp) -> dict[int, str]:
        """Names that attention has for its own dims, whatever its tensors call them."""
        if raw.kind is not OpKind.ATTENTION:
            return {}
        (q, _), (_, k_factors) = raw.ins[0], raw.ins[1]
        outs = atoms(raw.outs[0][1])
        columns = [f for f in atoms(k_factors) if "kv_seq" in f.hints]
        width = set(map(id, atoms(k_factors)))
        rows = [f for f in outs if f.is_whole and id(f) not in width and f in atoms(q.factors)]
        names = {id(f): "kv_seq" for f in columns} | {id(f): "seq" for f in rows[:1]}
        for factor in {id(f): f for f in [*outs, *atoms(k_factors)]}.values():
            if id(factor) not in names and self.namer.wish(factor) in ("seq", "kv_seq"):
                names[id(factor)] = f"{self.name(factor)}_outer"
        return names

    def _square(self, raw: RawOp) -> set[int]:
        """Factors that a weight has twice: the product's input then reads them by another name."""
        if raw.kind is not OpKind.LINEAR:
            return set()
        weights = raw.ins[1 : 1 + len(raw.outs)]
        return {id(f) for _, w in weights for f in atoms(w) if sum(g is f for g in atoms(w)) > 1}

    def _roles(self, raw: RawOp, inputs: Sequence[Operand], outputs: Sequence[Operand], dim_of: Any) -> dict[str, Dim]:
        written = {dim for operand in outputs for dim in operand.dims}
        indivisible = {dim_of(f) for f in atoms(raw.indivisible)}
        reduction = {dim_of(f) for f in atoms(raw.reduction)}
        if raw.kind in (OpKind.LINEAR, OpKind.MATMUL):
            biased = raw.kind is OpKind.LINEAR and len(inputs) > 1 + len(outputs)
            summed = {dim for operand in inputs for dim in operand.dims} - written
            indivisible, reduction = (indivisible | summed, reduction) if biased else (indivisible, reduction | summed)
        dims: dict[str, Dim] = {}
        for operand in (*outputs, *inputs):
            tensor = self.tensors[operand.tensor]
            for dim, own in zip(operand.dims, tensor.dims, strict=True):
                role = Role.PARALLEL if dim in written else Role.INDIVISIBLE
                if dim in reduction and dim not in written:
                    role = Role.REDUCTION
                if dim in indivisible:
                    role = Role.INDIVISIBLE
                dims.setdefault(dim, Dim(self.dims[own], role))
        if raw.kind is OpKind.ATTENTION and "kv_heads" not in dims:  # one key-value head for all
            dims["kv_heads"] = Dim(1, Role.INDIVISIBLE)
        return dims

    def _saves(self, tensors: Iterable[RawTensor], name: str, dim_of: Callable[[Factor], str]) -> tuple[Saved, ...]:
        found = []
        for tensor in tensors:
            if tensor.kind == "saved":
                found.append(Saved(self.tensor(tensor, f"{name}.{tensor.name.rpartition('.')[2]}", dim_of)))
            else:
                found.append(Saved(self.tensor(tensor)))
        return tuple({saved.tensor: saved for saved in found}.values())

    def _attrs(self, raw: RawOp, dim_of: Any) -> dict[str, Any]:
        attrs = dict(raw.attrs)
        if "merge" in attrs:
            whole, parts = attrs["merge"]
            attrs["merge"] = {dim_of(whole): tuple(dim_of(f) for f in parts)}
        if isinstance(attrs.get("dim"), Factor):
            attrs["dim"] = dim_of(attrs["dim"])
        return attrs
