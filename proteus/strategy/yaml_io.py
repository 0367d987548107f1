"""Trees as YAML: what is written reads back equal; a mistake names its line.

A tree of a plan is the plan and the edits made on it; a node that was made to
say nothing is ``null``:

    model: llama3-8b
    plan: {dp: 4, tp: 4, pp: 2, zero: 1, global_batch: 128}
    nodes:
      layers.0-3: {recompute: full}

A tree that was built by hand is written out:

    model: llama3-8b
    mesh: {pp: 2, dp: 4, tp: 4}
    training: {micro_batch: 1, global_batch: 128, framework: megatron-core}
    schedule: {name: 1f1b}
    stages:
    - {blocks: [0, 17], rank: 0, first_device: 0}
    nodes:
      model: {partition: {batch: [dp], ...}}
      layers.*.mlp.norm: {partition: {seq: [tp]}}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import yaml

from proteus import frameworks
from proteus.errors import InputError, context, unknown
from proteus.files import read_yaml
from proteus.mesh import Mesh
from proteus.model import zoo
from proteus.model.graph import Lora, Model
from proteus.model.lora import with_lora
from proteus.model.origin import Origin
from proteus.strategy.config import TENSOR_ROLES, Memory, NodeConfig, ScheduleConfig, Stage, Training, plain
from proteus.strategy.plan import Plan, specs
from proteus.strategy.recipe import framework_of
from proteus.strategy.tree import StrategyTree

#: how the root is written among the nodes
ROOT = "model"
_TOP = ("model", "digest", "seq", "lora", "plan", "mesh", "training", "schedule", "stages", "nodes")
#: what a plan says itself
_NOT_BESIDE_PLAN = ("mesh", "training", "stages")
#: the recipe's setting of a node is dropped before any other edit of the node
RESET = "reset"
_NODE = ("partition", "memory", "recompute", "exchange", "frozen")


def to_yaml(tree: StrategyTree, *, written_out: bool = False) -> str:
    """YAML text of a tree: its plan and edits, or all configs where it has no plan or they are asked for."""
    if tree.plan is None or written_out:
        document = {**_model(tree.model), **_by_hand(tree)}
    else:
        document = {**_model(tree.given_model), **_planned(tree, tree.plan)}
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120))


def _model(model: Model) -> dict[str, Any]:
    """How the model is built again; one that nothing builds again is named, with a digest of its content."""
    lora = {} if model.lora is None else {"lora": plain(model.lora)}
    if model.origin is None:
        return {"model": model.name, "digest": model.digest, **lora}
    return {"model": model.origin.plain(), **lora}


def _planned(tree: StrategyTree, given_plan: Plan) -> dict[str, Any]:
    plan = {name: list(value) if isinstance(value, tuple) else value for name, value in given_plan.said.items()}
    if given_plan.framework is not None:
        plan["framework"] = specs()["framework"].kind.text(given_plan.framework)
    nodes: dict[str, Any] = {}
    for selector, config in tree.edits:
        name = selector or ROOT
        if config is None:
            nodes[name] = None
        else:  # a node that was made to say nothing before says so first
            nodes[name] = {**({RESET: True} if name in nodes else {}), **_plain_node(config)}
    return {
        "plan": plan,
        **({} if tree.schedule.grid is None else {"schedule": {"grid": tree.schedule.grid}}),
        **({"nodes": nodes} if nodes else {}),
    }


def _by_hand(tree: StrategyTree) -> dict[str, Any]:
    stages = []
    for stage in tree.stages:
        row: dict[str, Any] = {"blocks": list(stage.blocks), "rank": stage.rank, "first_device": stage.first_device}
        if stage.mesh != _inner(tree.mesh):
            row["mesh"] = dict(stage.mesh.axes)
        stages.append(row)
    training = {f.name: getattr(tree.training, f.name) for f in fields(Training)}
    training["framework"] = tree.training.framework.text
    return {
        "mesh": dict(tree.mesh.axes),
        "training": training,
        "schedule": plain(tree.schedule),
        "stages": stages,
        "nodes": {selector or ROOT: _plain_node(config) for selector, config in tree.configs},
    }


def _inner(mesh: Mesh) -> Mesh:
    """The mesh of one stage: all axes but the pipeline's."""
    return Mesh(tuple(axis for axis in mesh.axes if axis[0] != "pp"))


def _plain_node(config: NodeConfig) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if config.partition is not None:
        row["partition"] = {dim: list(axes) for dim, axes in config.partition.items()}
    if config.memory is not None:
        row["memory"] = {
            role: {"axes": list(memory.axes), **({"offload": True} if memory.offload else {})}
            for role, memory in config.memory.items()
        }
    if config.recompute is not None:
        row["recompute"] = config.recompute
    if config.exchange is not None:
        row["exchange"] = config.exchange
    if config.frozen is not None:
        row["frozen"] = config.frozen
    return row


def from_yaml(
    text: str, *, model: Model | None = None, source: str = "tree", beside: Sequence[str] = ()
) -> StrategyTree:
    """The tree that YAML text describes.

    Parameters
    ----------
    model
        Needed when the text names a model that is not in the zoo.
    source
        Name of the file, for error messages.
    beside
        Fields that stand beside those of the tree, for another reader.

    Raises
    ------
    InputError
        Not YAML, or not of this form: with line and field.
    StrategyError
        A node, dim, axis or degree that does not exist.
    """
    document, lines = read_yaml(text, source=source)
    reader = _Reader(source, lines)
    top = reader.mapping(document, ())
    reader.only(top, (*_TOP, *beside), ())
    model = reader.model(top, model)
    if top.get("lora") is not None:
        with context(reader.where(("lora",))):
            model = with_lora(model, reader.lora(top["lora"], ("lora",)))
    tree = reader.planned(top, model) if "plan" in top else reader.by_hand(top, model)
    for selector, row in reader.mapping(top.get("nodes", {}), ("nodes",)).items():
        path = ("nodes", str(selector))
        node = "" if selector == ROOT else str(selector)
        where = f"{source}, line {lines.get(path, 0)}"
        with context(where):
            if row is None:
                tree = tree.unset(node)
            elif tree.plan is None:
                tree = tree.set(node, **reader.node(row, path))
            else:  # the plan may have changed since the edit, which then says nothing for now
                row = dict(reader.mapping(row, path))
                if row.pop(RESET, False) is True and node in dict(tree.configs):
                    tree = tree.unset(node)
                tree = tree.edit(node, **reader.node(row, path))
    return StrategyTree(tree.model, _state=tree._state)


class _Reader:
    def __init__(self, source: str, lines: Mapping[tuple[str, ...], int]) -> None:
        self.source, self.lines = source, lines

    def where(self, path: tuple[str, ...]) -> str:
        line = self.lines.get(path)
        name = ".".join(path) or "the document"
        return f"{self.source}, line {line}: {name}" if line else f"{self.source}: {name}"

    def fail(self, path: tuple[str, ...], message: str) -> InputError:
        return InputError(f"{self.where(path)}: {message}")

    def mapping(self, value: Any, path: tuple[str, ...]) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fail(path, f"expected a mapping, found {type(value).__name__}")
        return value

    def only(self, value: Mapping[str, Any], known: Sequence[str], path: tuple[str, ...]) -> None:
        for key in value:
            if key not in known:
                raise self.fail((*path, str(key)), unknown("field", str(key), known))

    def text(self, value: Any, path: tuple[str, ...]) -> str:
        if not isinstance(value, str):
            raise self.fail(path, f"expected a name, found {value!r}")
        return value

    def integer(self, value: Any, path: tuple[str, ...], minimum: int = 0) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise self.fail(path, f"expected a whole number of at least {minimum}, found {value!r}")
        return value

    def optional_int(self, value: Mapping[str, Any], key: str, path: tuple[str, ...]) -> int | None:
        return None if value.get(key) is None else self.integer(value[key], (*path, key), 1)

    def mesh(self, value: Any, path: tuple[str, ...]) -> Mesh:
        axes = self.mapping(value, path)
        return Mesh(tuple((str(name), self.integer(size, (*path, str(name)), 1)) for name, size in axes.items()))

    def model(self, top: Mapping[str, Any], given: Model | None) -> Model:
        """The model that the file names, or the one that its caller gave for a name that nothing builds."""
        if given is None:
            with context(self.where(("model",))):
                if "digest" in top:
                    name = self.text(top.get("model"), ("model",))
                    raise InputError(f"{name!r} is a model of somebody's own; pass it as model= (--model)")
                origin = Origin.parse(top.get("model"))
                seq = self.optional_int(top, "seq", ())
                return zoo.rebuild(origin if seq is None else origin.with_seq(seq))
        if "digest" in top and top.get("lora") is None and given.digest != top["digest"]:
            raise self.fail(("digest",), f"the tree was made on another model than {given!r}, which was given for it")
        return given

    def planned(self, top: Mapping[str, Any], model: Model) -> StrategyTree:
        for name in _NOT_BESIDE_PLAN:
            if name in top:
                raise self.fail((name,), "the plan says this; drop it, or write the tree without a plan")
        row = self.mapping(top["plan"], ("plan",))
        for name, value in row.items():
            with context(self.where(("plan", str(name)))):
                Plan.of({name: value})
        with context(self.where(("plan",))):
            tree = StrategyTree(model).parallelize(Plan.of(row))
        schedule = self.mapping(top.get("schedule", {}), ("schedule",))
        self.only(schedule, ("grid",), ("schedule",))
        return tree.with_schedule(grid=self.text(schedule["grid"], ("schedule", "grid"))) if schedule else tree

    def by_hand(self, top: Mapping[str, Any], model: Model) -> StrategyTree:
        mesh = self.mesh(top.get("mesh", {"dp": 1}), ("mesh",))
        stages = self.stages(top.get("stages"), mesh, model)
        ranks = 1 + max(stage.rank for stage in stages)
        if "pp" in mesh.names and mesh.degree("pp") != ranks:
            raise self.fail(
                ("mesh", "pp"), f"{mesh.degree('pp')}, but the stages are on {ranks} pipeline ranks; make them equal"
            )
        with context(self.source):
            tree = StrategyTree(model).with_mesh(mesh, stages)
        tree = tree.with_training(**self.training(top.get("training", {}), ("training",)))
        return tree.with_schedule(**self.fields(top.get("schedule", {}), ScheduleConfig, ("schedule",)))

    def training(self, value: Any, path: tuple[str, ...]) -> dict[str, Any]:
        """Fields of :class:`Training`, each checked as the plan's field of that name."""
        row = self.mapping(value, path)
        self.only(row, [f.name for f in fields(Training)], path)
        values: dict[str, Any] = {}
        for name, item in row.items():
            with context(self.where((*path, name))):
                values[name] = getattr(Plan.of({name: item}), name)
                if name == "framework":
                    values[name] = framework_of(Plan(framework=item))
        return values

    def fields(self, value: Any, of: type, path: tuple[str, ...]) -> dict[str, Any]:
        row = self.mapping(value, path)
        kinds = {f.name: f.type for f in fields(of)}
        self.only(row, list(kinds), path)
        items = {}
        for key, item in row.items():
            kind = str(kinds[key])
            at = (*path, key)
            if kind.startswith("bool") and not isinstance(item, bool):
                raise self.fail(at, f"expected true or false, found {item!r}")
            if kind.startswith("int"):
                if item is not None or "None" not in kind:
                    self.integer(item, at, 1)
            elif kind.startswith("float") and (
                isinstance(item, bool) or not isinstance(item, int | float) or not 0 < item < math.inf
            ):
                raise self.fail(at, f"expected a number above 0, found {item!r}")
            elif kind.startswith("str") and not isinstance(item, str):
                raise self.fail(at, f"expected text, found {item!r}")
            elif kind.startswith("tuple"):
                item = self.names(item, at)
            elif kind == "Framework":
                with context(self.where(at)):
                    item = frameworks.load(self.text(item, at))
            items[key] = item
        return items

    def lora(self, value: Any, path: tuple[str, ...]) -> Lora:
        row = self.mapping(value, path)
        self.only(row, ("rank", "targets", "dropout", "base"), path)
        dropout = row.get("dropout", 0.0)
        if isinstance(dropout, bool) or not isinstance(dropout, int | float):
            raise self.fail((*path, "dropout"), f"expected a number, found {dropout!r}")
        return Lora(
            rank=self.integer(row.get("rank"), (*path, "rank"), 1),
            targets=self.names(row.get("targets", []), (*path, "targets")),
            dropout=float(dropout),
            base=self.text(row.get("base", "exact"), (*path, "base")),  # type: ignore[arg-type]
        )

    def stages(self, value: Any, mesh: Mesh, model: Model) -> tuple[Stage, ...]:
        inner = _inner(mesh)
        if value is None:
            return (Stage(blocks=(0, model.num_blocks), rank=0, mesh=inner, first_device=0),)
        if not isinstance(value, list) or not value:
            raise self.fail(("stages",), "expected a list of stages")
        stages = []
        for number, item in enumerate(value):
            path = ("stages", str(number))
            row = self.mapping(item, path)
            self.only(row, ("blocks", "rank", "first_device", "mesh"), path)
            blocks = row.get("blocks")
            if not isinstance(blocks, list) or len(blocks) != 2:
                raise self.fail((*path, "blocks"), f"expected [first, stop], found {blocks!r}")
            first, stop = (self.integer(b, (*path, "blocks")) for b in blocks)
            stages.append(
                Stage(
                    blocks=(first, stop),
                    rank=self.integer(row.get("rank", number), (*path, "rank")),
                    mesh=self.mesh(row["mesh"], (*path, "mesh")) if "mesh" in row else inner,
                    first_device=self.integer(row.get("first_device", number * inner.size), (*path, "first_device")),
                )
            )
        return tuple(stages)

    def names(self, value: Any, path: tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.fail(path, f"expected a list of names, found {value!r}")
        return tuple(value)

    def node(self, value: Any, path: tuple[str, ...]) -> dict[str, Any]:
        row = self.mapping(value, path)
        self.only(row, _NODE, path)
        config: dict[str, Any] = {key: row[key] for key in ("recompute", "exchange") if row.get(key) is not None}
        if row.get("frozen") is not None:
            if not isinstance(row["frozen"], bool) and row["frozen"] != "nf4":
                raise self.fail((*path, "frozen"), f"expected true, false or nf4, found {row['frozen']!r}")
            config["frozen"] = row["frozen"]
        if row.get("partition") is not None:
            at = (*path, "partition")
            config["partition"] = {
                str(dim): self.names(axes, (*at, str(dim))) for dim, axes in self.mapping(row["partition"], at).items()
            }
        if row.get("memory") is not None:
            at = (*path, "memory")
            memory = self.mapping(row["memory"], at)
            self.only(memory, TENSOR_ROLES, at)
            config["memory"] = {}
            for role, kept in memory.items():
                item = self.mapping(kept, (*at, role))
                self.only(item, ("axes", "offload"), (*at, role))
                if not isinstance(item.get("offload", False), bool):
                    raise self.fail((*at, role, "offload"), f"expected true or false, found {item['offload']!r}")
                config["memory"][role] = Memory(
                    axes=self.names(item.get("axes", []), (*at, role, "axes")), offload=item.get("offload", False)
                )
        return config
