"""The strategy tree: a value that says how a model is spread over devices.

The tree mirrors the module hierarchy of the model.  It is stored as the
model plus the configs of the nodes that say something; everything else is
propagated when it is compiled.  Trees are frozen: every change gives a new
tree that remembers the one before (:meth:`StrategyTree.undo`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Literal, Never

from proteus import frameworks
from proteus.arguments import A, Each, Maybe, Text, Whole, takes
from proteus.errors import InputError, StrategyError, context, unknown
from proteus.frameworks import Framework
from proteus.identity import MemoKey
from proteus.mesh import Mesh
from proteus.model.graph import Block, Model, Op, Role
from proteus.strategy import recipe
from proteus.strategy.config import (
    RECOMPUTES,
    TENSOR_ROLES,
    Frozen,
    Memory,
    NodeConfig,
    ScheduleConfig,
    Stage,
    Training,
)
from proteus.strategy.effect import ineffective, why_not
from proteus.strategy.plan import FILL, DecidedPlan, Plan, specs
from proteus.strategy.select import check_selector, match_block, segments_of

RowKind = Literal["model", "stage", "block", "module", "op"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """A line of the tree as people see it, equal blocks of a stage grouped.

    `parent` is the id of the row above in the hierarchy, -1 for the model.
    `path` is a selector that names exactly this row.
    """

    id: int
    parent: int
    path: str
    label: str
    kind: RowKind
    count: int = 1
    stage: int = -1
    badges: tuple[str, ...] = ()
    partition: str = ""
    memory: str = ""


@dataclass(frozen=True, kw_only=True)  # no slots: `key` and the configs are found once and kept
class BlockRun:
    """Neighbouring copies of one block with equal configs, in one stage."""

    block: Block
    copies: range
    chunk: int
    entries: tuple[tuple[str, NodeConfig], ...]

    @cached_property
    def path(self) -> str:
        if not self.block.indexed:
            return self.block.name
        first, last = (self.block.first + i for i in (self.copies[0], self.copies[-1]))
        return f"{self.block.name}.{first}" if first == last else f"{self.block.name}.{first}-{last}"

    def config(self, op: Op) -> NodeConfig:
        """What the tree says for an op: the nearest node that speaks wins."""
        return self.configs[op.name]

    @cached_property
    def configs(self) -> Mapping[str, NodeConfig]:
        """What the tree says for every op of the block."""
        return _configs_of(MemoKey(self, id(self.block), self.key))  # an edit elsewhere finds them again

    def says(self, role: str) -> bool:
        """Whether any node above an op of the run has a memory config for `role`."""
        return any(role in (config.memory or {}) for _, config in self.entries)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for runs whose nodes say the same."""
        return (self.block.name, tuple((selector_tail(s, self.block), c.key()) for s, c in self.entries))


@lru_cache(maxsize=512)
def _configs_of(key: MemoKey[BlockRun]) -> Mapping[str, NodeConfig]:
    block = key.value.block
    matches = [(match, config) for selector, config in key.value.entries if (match := match_block(selector, block))]
    merged = {}
    for op in block.ops:
        op_config = NodeConfig()
        for match, config in matches:
            if match.covers_op(op.name):
                op_config = config.over(op_config)
        merged[op.name] = op_config
    return merged


def selector_tail(selector: str, block: Block) -> tuple[str, ...]:
    match = match_block(selector, block)
    return match.tail if match else ()


def _is_whole(op: Op, dim: str) -> bool:
    return dim in op.dims and op.dims[dim].role is Role.INDIVISIBLE


#: fields of a schedule that a plan calls otherwise
_PLAN_NAME = {"name": "schedule"}


def _merged(edits: Edits, selector: str, config: NodeConfig) -> Edits:
    """`edits` with `config` merged into the edits of the node since it was last cleared."""
    at = max((n for n, (path, _) in enumerate(edits) if path == selector), default=-1)
    before = edits[at][1] if at >= 0 else None
    if before is None:
        return (*edits, (selector, config))
    return (*edits[:at], (selector, config.over(before)), *edits[at + 1 :])


def _axes(value: object) -> tuple[str, ...]:
    axes = (value,) if isinstance(value, str) else value
    if not isinstance(axes, tuple | list) or not all(isinstance(axis, str) for axis in axes):
        raise StrategyError(f"{value!r} names no mesh axes; give a name or a tuple of names")
    return tuple(axes)


#: (selector, config) in order; None where the node was cleared
Edits = tuple[tuple[str, NodeConfig | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """How a tree came about: the plan carried out on a model, and the edits made since, by selector.

    None instead of a config stands for a node that was made to say nothing.
    `num_devices` are those that ``dp="fill"`` fills where the plan says no number.
    """

    model: Model
    plan: Plan
    decided: DecidedPlan
    notes: tuple[str, ...]
    configs: tuple[tuple[str, NodeConfig], ...]
    edits: Edits = ()
    num_devices: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    mesh: Mesh
    stages: tuple[Stage, ...]
    schedule: ScheduleConfig
    training: Training
    configs: tuple[tuple[str, NodeConfig], ...]
    origin: _Origin | None = field(default=None, compare=False)


class StrategyTree:
    """A strategy for one model.

    Parameters
    ----------
    model
        The model to spread.

    Examples
    --------
    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=2, tp=2, global_batch=8)
    >>> tree.mesh
    mesh(pp=1, dp=2, tp=2)
    >>> tree.set("layers.3.mlp.fc1", partition={"ffn": ()}).diff(tree)
    ['layers.3.mlp.fc1: - → {ffn: -}']
    """

    __slots__ = ("_previous", "_rows", "_runs", "_state", "model")

    def __init__(self, model: Model, *, _state: _State | None = None, _previous: StrategyTree | None = None) -> None:
        if not isinstance(model, Model):
            raise StrategyError(f"{model!r} is no model; load one with pt.models.load(name) or pt.from_hf(path)")
        whole = Mesh((("dp", 1),))
        self.model = model
        self._state = _state or _State(
            mesh=whole,
            stages=(Stage(blocks=(0, model.num_blocks), rank=0, mesh=whole, first_device=0),),
            schedule=ScheduleConfig(),
            training=Training(),
            configs=(),
        )
        self._previous = _previous
        self._runs: tuple[BlockRun, ...] | None = None
        self._rows: tuple[list[TreeRow], dict[tuple[str, str], int]] | None = None

    # -- what it says -----------------------------------------------------

    @property
    def mesh(self) -> Mesh:
        """Axes over all devices, pipeline first."""
        return self._state.mesh

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Chunks of the chain of blocks, in model order."""
        return self._state.stages

    @property
    def schedule(self) -> ScheduleConfig:
        return self._state.schedule

    @property
    def training(self) -> Training:
        return self._state.training

    @property
    def configs(self) -> tuple[tuple[str, NodeConfig], ...]:
        """(selector, config) of the nodes that say something, in order."""
        return self._state.configs

    @property
    def plan(self) -> Plan | None:
        """What was said to :meth:`parallelize`, later changes included; None for a tree that was built by hand."""
        return self._state.origin.plan if self._state.origin else None

    @property
    def decided(self) -> DecidedPlan:
        """Every field of the plan with its value and who set it; for a tree built by hand, what its nodes show."""
        if self._state.origin is not None:
            return self._state.origin.decided
        from proteus.strategy.by_hand import shown

        return shown(self)

    @property
    def given_model(self) -> Model:
        """The model that the plan was carried out on: before its vocabulary was padded or adapters were added."""
        return self._state.origin.model if self._state.origin else self.model

    @property
    def edits(self) -> Edits:
        """(selector, config) of what :meth:`set` said on top of the plan; None where :meth:`unset` took it back."""
        return self._state.origin.edits if self._state.origin else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan filled in, and what it or an edit says that changes nothing here."""
        origin = self._state.origin
        if origin is None:
            return ()
        return (*origin.notes, *self._edits_without_effect())

    def _edits_without_effect(self) -> Iterator[str]:
        """Edits that another plan left without effect; they stay, for a later plan."""
        for selector, config in self.edits:
            if config is None:
                continue
            before = self._without_edit(selector)
            for word in ineffective(before, before.told(selector, config), selector, config):
                yield f"{selector or 'model'}: {word} changes nothing: {why_not(self, selector, word, config)}"

    def _without_edit(self, selector: str) -> StrategyTree:
        origin = self._state.origin
        assert origin is not None
        configs = dict(origin.configs)
        for path, config in origin.edits:
            if path == selector:
                continue
            if config is None:
                configs.pop(path, None)
            else:
                configs[path] = config.over(configs.get(path, NodeConfig()))
        return self._with(configs=tuple(configs.items()))

    @property
    def num_devices(self) -> int:
        return max(stage.first_device + stage.mesh.size for stage in self.stages)

    @property
    def num_pipeline_ranks(self) -> int:
        return 1 + max(stage.rank for stage in self.stages)

    @property
    def samples_per_micro_batch(self) -> int:
        """Samples that pass a stage together: micro-batch times batch degree."""
        root = dict(self.configs).get("", NodeConfig())
        axes = (root.partition or {}).get("batch", ())
        stage = self.stages[0].mesh
        return self.training.micro_batch * stage.degree(tuple(a for a in axes if a in stage.names))

    @property
    def num_micro_batches(self) -> int:
        samples, batch = self.samples_per_micro_batch, self.training.global_batch
        if batch % samples:
            below = batch // samples * samples
            near = [str(b) for b in (below, below + samples) if b]
            raise StrategyError(
                f"global_batch={batch} is not a multiple of micro_batch × batch degree = {samples}; "
                f"nearest: {', '.join(near)}"
            )
        return self.training.global_batch // samples

    def runs(self) -> tuple[BlockRun, ...]:
        """The chain of blocks, cut where the stage or the configs change."""
        if self._runs is None:
            self._runs = self._find_runs()
        return self._runs

    def _find_runs(self) -> tuple[BlockRun, ...]:
        runs: list[BlockRun] = []
        position = 0
        ordered = sorted(self.configs, key=lambda item: len(segments_of(item[0])))
        borders = [(stage.blocks, chunk) for chunk, stage in enumerate(self.stages)]
        for block in self.model.blocks:
            matched = [(item, found_) for item in ordered if (found_ := match_block(item[0], block)) is not None]
            cuts = {0, block.count}
            for (first, last), _ in borders:
                cuts.update(edge - position for edge in (first, last) if 0 < edge - position < block.count)
            for _, where in matched:
                if where.copies is not None:
                    cuts.update((where.copies.start, where.copies.stop))
            edges = sorted(cuts)
            for first, last in pairwise(edges):
                chunk = next(c for (lo, hi), c in borders if lo <= position + first < hi)
                entries = tuple(item for item, where in matched if where.covers(first))
                run = BlockRun(block=block, copies=range(first, last), chunk=chunk, entries=entries)
                before = runs[-1] if runs else None
                if before and before.block is block and before.chunk == chunk and before.key == run.key:
                    run = replace(run, copies=range(before.copies.start, last))
                    runs.pop()
                runs.append(run)
            position += block.count
        return tuple(runs)

    # -- changes, each giving a new tree ----------------------------------

    def _with(self, **changes: Any) -> StrategyTree:
        return StrategyTree(self.model, _state=replace(self._state, **changes), _previous=self)

    def set(
        self,
        selector: str,
        *,
        partition: Mapping[str, tuple[str, ...] | str] | None = None,
        memory: Mapping[str, Memory] | None = None,
        recompute: str | None = None,
        exchange: str | None = None,
        frozen: Frozen | None = None,
    ) -> StrategyTree:
        """Give the nodes named by `selector` a config, on top of what they said.

        Parameters
        ----------
        selector
            See :mod:`proteus.strategy.select`; ``""`` is the whole model.
        partition
            dim → mesh axes that cut it; an empty tuple leaves it whole.
        memory
            parameter, gradient, optimizer or activation → :class:`Memory`.
        recompute
            none, selective or full.
        exchange
            all_gather or ring, where attention is cut along ``seq``.
        frozen
            True leaves the parameters of the node untrained, ``nf4`` keeps
            them in 4 bits besides, False trains them below a frozen node.

        Raises
        ------
        StrategyError
            No such node, no such axis, no such dim, an axis used twice.
        """
        with context(selector or "model" if isinstance(selector, str) else "selector"):
            if not isinstance(selector, str):
                raise StrategyError(f"{selector!r} is not a path; it is text such as 'layers.0-3.mlp'")
            check_selector(selector, self.model)
            config = self._checked(selector, partition, memory, recompute, exchange, frozen)
            new = self.told(selector, config)
            for word in ineffective(self, new, selector, config):
                raise StrategyError(f"{word} would change nothing: {why_not(new, selector, word, config)}")
        return new

    def edit(self, selector: str, **given: Any) -> StrategyTree:
        """As :meth:`set`, but settings without effect are kept and listed in :attr:`notes`."""
        with context(selector or "model"):
            check_selector(selector, self.model)
            names = ("partition", "memory", "recompute", "exchange", "frozen")
            return self.told(selector, self._checked(selector, *(given.get(name) for name in names)))

    def told(self, selector: str, config: NodeConfig) -> StrategyTree:
        """The tree whose node `selector` says `config` on top of what it said, unchecked; :meth:`set` checks."""
        configs = dict(self.configs)
        configs[selector] = config.over(configs.get(selector, NodeConfig()))
        origin = self._state.origin
        if origin is not None:
            origin = replace(origin, edits=_merged(origin.edits, selector, config))
        return self._with(configs=tuple(configs.items()), origin=origin)

    def _checked(
        self, selector: str, partition: object, memory: object, recompute: object, exchange: object, frozen: object
    ) -> NodeConfig:
        """The config that the arguments of :meth:`set` mean."""
        if partition is not None and not isinstance(partition, Mapping):
            raise StrategyError(f"partition={partition!r}; it maps dims to mesh axes, such as {{'ffn': 'tp'}}")
        if memory is not None and not isinstance(memory, Mapping):
            raise StrategyError(f"memory={memory!r}; it maps tensor roles to pt.Memory(...)")
        cut = None if partition is None else {str(dim): _axes(axes) for dim, axes in partition.items()}
        for role, kept in (memory or {}).items():
            if role not in TENSOR_ROLES:
                raise StrategyError(unknown("tensor role", str(role), TENSOR_ROLES))
            if not isinstance(kept, Memory):
                raise StrategyError(f"{role}: {kept!r} is no pt.Memory(axes=..., offload=...)")
            if role == "activation" and kept.axes:
                raise StrategyError(
                    f"activation: saved activations cannot be sharded over {', '.join(kept.axes)}; "
                    "sequence_parallel shards them along seq, offload=True keeps them on the host"
                )
        self._check_axes(selector, cut or {}, memory or {})
        if recompute is not None and recompute not in RECOMPUTES:
            raise StrategyError(f"recompute={recompute!r}; choose from {', '.join(RECOMPUTES)}")
        if exchange not in (None, "all_gather", "ring"):
            raise StrategyError(f"exchange={exchange!r}; choose from all_gather, ring")
        if frozen is not None and not isinstance(frozen, bool) and frozen != "nf4":
            raise StrategyError(f"frozen={frozen!r}; it is True, False or 'nf4'")
        return NodeConfig(
            partition=cut,
            memory=memory,
            recompute=recompute,
            exchange=exchange,
            frozen=frozen,
        )

    @takes(StrategyError, selector=A(str))
    def unset(self, selector: str) -> StrategyTree:
        """Forget what the node named by `selector` says, the recipe's word for it included."""
        if selector not in dict(self.configs):
            raise StrategyError(f"{selector or 'model'} has no config of its own")
        origin = self._state.origin
        if origin is not None:
            others = tuple(edit for edit in origin.edits if edit[0] != selector)
            origin = replace(origin, edits=(*others, (selector, None)))
        return self._with(configs=tuple(item for item in self.configs if item[0] != selector), origin=origin)

    def _check_axes(self, selector: str, cut: Mapping[str, tuple[str, ...]], memory: Mapping[Any, Memory]) -> None:
        axes = {name for stage in self.stages for name in stage.mesh.names}
        dims = {
            dim
            for block in self.model.blocks
            if (match := match_block(selector, block))
            for op in block.ops
            if match.covers_op(op.name)
            for dim in op.dims
        }
        used: dict[str, str] = {}
        named = self._ops_named(selector)
        for op in named:
            whole = [dim for dim, names in cut.items() if names and _is_whole(op, dim)]
            if whole:
                raise StrategyError(f"{op.name} needs the whole of {whole[0]}: its results depend on all of it")
        for dim, names in cut.items():
            if dim not in dims:
                raise StrategyError(f"no op here has a dim {dim!r}; dims: {', '.join(sorted(dims))}")
            for name in names:
                if name not in axes:
                    raise StrategyError(f"{dim}: mesh axis {name!r} does not exist; axes: {', '.join(sorted(axes))}")
                if name in used and (named or used[name] == dim):
                    raise StrategyError(f"axis {name!r} cuts {used[name]} and {dim}; an axis cuts one dim of an op")
                used[name] = dim
        for role, kept in memory.items():
            twice = [name for name in kept.axes if kept.axes.count(name) > 1]
            if twice:
                raise StrategyError(f"{role}: mesh axis {twice[0]!r} is named twice; an axis cuts it once")
            bad = [name for name in kept.axes if name not in axes]
            if bad:
                raise StrategyError(f"{role}: mesh axis {bad[0]!r} does not exist; axes: {', '.join(sorted(axes))}")

    def _ops_named(self, selector: str) -> list[Op]:
        """Ops that the selector names themselves, not through a module above."""
        return [
            op
            for block in self.model.blocks
            if (match := match_block(selector, block))
            for op in block.ops
            if len(match.tail) == len(op.name.split(".")) and match.covers_op(op.name)
        ]

    def with_training(self, **changes: Any) -> StrategyTree:
        """Change batch sizes, precision, optimizer, framework (a value, or its text) or how gradients are reduced."""
        known = [f.name for f in fields(Training)]
        for name in changes:
            if name not in known:
                raise StrategyError(unknown("field of training", name, known))
        if self.plan is not None:
            return self.change(**changes)
        changes = {name: getattr(Plan.of({name: value}), name) for name, value in changes.items() if value is not None}
        if isinstance(changes.get("framework"), str):
            changes["framework"] = frameworks.load(changes["framework"])
        elif "precision" in changes and "framework" not in changes:
            changes["framework"] = self.training.framework.given(precision=changes["precision"])
        return self._with(training=replace(self.training, **changes))

    @takes(StrategyError, framework=A(Framework))
    def in_framework(self, framework: Framework) -> StrategyTree:
        """The same configs carried out by another framework, whose defaults are not asked: a what-if."""
        return self._with(training=replace(self.training, framework=framework))

    def with_schedule(self, **changes: Any) -> StrategyTree:
        """Change the pipeline schedule: its `name`, `virtual_stages`, `max_in_flight`, or its `grid`."""
        known = [f.name for f in fields(ScheduleConfig)]
        for name in changes:
            if name not in known:
                raise StrategyError(unknown("field of a schedule", name, known))
        Plan.of({_PLAN_NAME.get(name, name): value for name, value in changes.items() if name != "grid"})
        if changes.get("grid") is not None and not isinstance(changes["grid"], str):
            raise StrategyError(f"grid={changes['grid']!r}; it is text with one row of actions per pipeline rank")
        tree = self
        if self.plan is not None and set(changes) - {"grid"}:
            tree = self.change(**{_PLAN_NAME.get(k, k): v for k, v in changes.items() if k != "grid"})
            changes = {k: v for k, v in changes.items() if k == "grid"}
        new = tree._with(schedule=replace(tree.schedule, **changes)) if changes else tree
        return _undoing(new, self)

    @takes(StrategyError, mesh=A(Mesh), stages=Each(A(Stage), minimum=1))
    def with_mesh(self, mesh: Mesh, stages: tuple[Stage, ...]) -> StrategyTree:
        """Set the devices: the whole mesh and the stages on it.

        Raises
        ------
        StrategyError
            When the stages do not cover the chain of blocks once, in order.
        """
        at = 0
        for number, stage in enumerate(stages):
            if stage.blocks[0] != at or stage.blocks[1] <= at:
                raise StrategyError(
                    f"stage {number} holds blocks {stage.blocks}, expected to begin at {at}: "
                    "stages cover the chain in order"
                )
            at = stage.blocks[1]
        if at != self.model.num_blocks:
            raise StrategyError(f"the stages end at block {at}, the model has {self.model.num_blocks}")
        return self._with(mesh=mesh, stages=stages, origin=None)

    @takes(StrategyError, model=A(Model))
    def on(self, model: Model) -> StrategyTree:
        """A tree without any config on `model`."""
        return StrategyTree(model, _previous=self)

    def undo(self) -> StrategyTree:
        """The tree before the last change; itself when there was none."""
        return self._previous or self

    def parallelize(
        self,
        plan: Plan | None = None,
        *,
        dp: int | Literal["fill"] | None = None,
        tp: int | None = None,
        pp: int | None = None,
        cp: int | None = None,
        ep: int | None = None,
        etp: int | None = None,
        shard: int | None = None,
        num_devices: int | None = None,
        seq: int | None = None,
        micro_batch: int | None = None,
        global_batch: int | None = None,
        schedule: str | None = None,
        virtual_stages: int | Literal["max"] | None = None,
        max_in_flight: int | None = None,
        layers_per_stage: tuple[int, ...] | None = None,
        pipeline_cut: str | None = None,
        zero: int | None = None,
        sequence_parallel: bool | None = None,
        recompute: str | None = None,
        recompute_layers: int | None = None,
        recompute_modules: tuple[str, ...] | None = None,
        offload: tuple[str, ...] | None = None,
        context: str | None = None,
        bucket_bytes: float | None = None,
        overlap_gradients: bool | None = None,
        overlap_parameters: bool | None = None,
        overlap_tensor: str | None = None,
        overlap_experts: bool | None = None,
        overlap_steps: bool | None = None,
        precision: str | None = None,
        optimizer: str | None = None,
        framework: str | Framework | None = None,
        attention: str | None = None,
        compile: bool | None = None,
        cuda_graphs: bool | None = None,
        pad_vocab: int | None = None,
        lora: int | None = None,
        lora_targets: tuple[str, ...] | None = None,
        lora_dropout: float | None = None,
        lora_base: str | None = None,
        freeze: tuple[str, ...] | None = None,
        **unknown_fields: Never,
    ) -> StrategyTree:
        """A new tree with the configs of a usual recipe; configs set before are dropped.

        What is not said is the framework's default, and else Proteus's;
        :attr:`decided` tells which.  See :class:`~proteus.strategy.plan.Plan`
        for what every argument means, :meth:`change` for keeping the rest.

        Parameters
        ----------
        plan
            A plan to begin with; the arguments change it.

        Raises
        ------
        StrategyError
            A degree that the model or the batch cannot carry, with the possible ones.

        Examples
        --------
        >>> import proteus as pt
        >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=2, tp=2, zero=1)
        >>> tree.decided["zero"].who, tree.decided["precision"].value
        ('you', 'bf16')
        """
        fields = {name: value for name, value in locals().items() if name in specs() and value is not None}
        given_fields = {**fields, **unknown_fields}
        if plan is not None and not isinstance(plan, Plan):
            raise StrategyError(f"{plan!r} is no pt.Plan; degrees are given by name, such as dp=4")
        return _carried_out(self._to_carry_out(), (plan or Plan()).changed(**given_fields), self)

    def _to_carry_out(self) -> Model:
        """The model that another plan begins with: adapters stay, what else a plan made of it does not."""
        given, lora = self.given_model, self.model.lora
        return given if lora is None else recipe.with_adapters(given, lora)

    def change(self, **changes: Any) -> StrategyTree:
        """The tree of the plan with `changes`, and of the edits; nothing else changes.

        None takes a word back: the framework's default holds again.

        Raises
        ------
        StrategyError
            A value that cannot be, an edit that no longer fits, or a tree that was built by hand.

        Examples
        --------
        >>> import proteus as pt
        >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=2, tp=2, framework="torchtitan")
        >>> tree.change(zero=1).plan
        Plan(dp=2, tp=2, zero=1, framework='torchtitan')
        """
        origin = self._state.origin
        if origin is None:
            raise StrategyError(
                "this tree was built by hand, not by parallelize(), so it has no plan to change; "
                "use set(), with_training() and with_schedule()"
            )
        return self._again(origin.plan.changed(**changes), origin.num_devices)

    def with_edits(self, edits: Iterable[tuple[str, NodeConfig | None]]) -> StrategyTree:
        """The tree of the same plan with `edits`, in their order, in place of its own; see :attr:`edits`.

        Raises
        ------
        StrategyError
            An edit that does not fit, or a tree that was built by hand.
        """
        origin = self._state.origin
        if origin is None:
            raise StrategyError("this tree was built by hand, so nothing tells its edits apart; use set() and unset()")
        return self._again(origin.plan, origin.num_devices, tuple(edits))

    def _again(self, plan: Plan, num_devices: int | None, edits: Edits | None = None) -> StrategyTree:
        """The tree of another plan, with the edits made on this one unless others are given."""
        origin = self._state.origin
        assert origin is not None
        new = _carried_out(origin.model, plan, self, num_devices)
        if self.schedule.grid is not None:
            new = new._with(schedule=replace(new.schedule, grid=self.schedule.grid))
        with context("an edit does not fit"):
            for selector, config in origin.edits if edits is None else edits:
                new = new._edited(selector, config)
        return _undoing(new, self)

    def _edited(self, selector: str, config: NodeConfig | None) -> StrategyTree:
        """The tree with an edit made on another one."""
        if config is None:
            return self.unset(selector) if selector in dict(self.configs) else self
        with context(selector or "model"):
            check_selector(selector, self.model)
            self._check_axes(selector, config.partition or {}, config.memory or {})
        return self.told(selector, config)

    @takes(StrategyError, num_devices=Whole(minimum=1))
    def on_devices(self, num_devices: int) -> StrategyTree:
        """The tree on a cluster of that many devices, which ``dp="fill"`` fills, now or after a later change."""
        origin = self._state.origin
        if origin is None or num_devices == origin.num_devices:
            return self
        if origin.plan.dp == FILL and origin.plan.num_devices is None:
            new = self._again(origin.plan, num_devices)
            return StrategyTree(new.model, _state=new._state, _previous=self._previous)
        state = replace(self._state, origin=replace(origin, num_devices=num_devices))
        same = StrategyTree(self.model, _state=state, _previous=self._previous)
        same._runs, same._rows = self._runs, self._rows
        return same

    def without_history(self) -> StrategyTree:
        """The same tree with nothing to undo and nothing that was found out about it; for those who keep many."""
        return StrategyTree(self.model, _state=self._state)

    def noting(self, note: str) -> StrategyTree:
        """The same tree with one more line among its notes."""
        origin = self._state.origin
        assert origin is not None, "only a plan has notes"
        state = replace(self._state, origin=replace(origin, notes=(*origin.notes, note)))
        return StrategyTree(self.model, _state=state, _previous=self._previous)

    # -- reading it -------------------------------------------------------

    @takes(StrategyError, selector=A(str))
    def __getitem__(self, selector: str) -> Selection:
        check_selector(selector, self.model)
        return Selection(tree=self, selector=selector)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StrategyTree) and self._trains(other) and self._state == other._state

    def _trains(self, other: StrategyTree) -> bool:
        return self.model is other.model or self.model == other.model

    def __hash__(self) -> int:
        return hash((self.model, self.mesh, self.stages, self.schedule, self.training, len(self.configs)))

    def diff(self, other: StrategyTree) -> list[str]:
        """One line for everything in which this tree differs from `other`."""
        if not isinstance(other, StrategyTree):
            raise StrategyError(f"{other!r} is not a strategy tree to compare with")
        lines = []
        if self.model.lora != other.model.lora:
            lines.append(f"lora: {other.model.lora!r} → {self.model.lora!r}")
        for name in ("mesh", "stages", "schedule", "training"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                lines.append(f"{name}: {theirs!r} → {mine!r}")
        here, there = dict(self.configs), dict(other.configs)
        for selector in sorted({*here, *there}):
            mine, theirs = here.get(selector, NodeConfig()), there.get(selector, NodeConfig())
            if mine.key() != theirs.key():
                lines.append(f"{selector or 'model'}: {theirs!r} → {mine!r}")
        return lines

    def rows(self) -> list[TreeRow]:
        """The tree as lines, equal blocks of a stage grouped."""
        return list(self._numbered()[0])

    def node_ids(self) -> dict[tuple[str, str], int]:
        """(path of a run, op name) → id of its row; the empty name is the run itself."""
        return self._numbered()[1]

    def _numbered(self) -> tuple[list[TreeRow], dict[tuple[str, str], int]]:
        if self._rows is None:
            from proteus.strategy.rows import number_rows

            self._rows = number_rows(self)
        return self._rows

    def to_yaml(self, *, written_out: bool = False) -> str:
        """The tree as YAML text; :meth:`from_yaml` reads it back.

        Parameters
        ----------
        written_out
            Write mesh, stages and the configs of all nodes instead of the
            plan and the edits; what is read back then has no plan.
        """
        from proteus.strategy.yaml_io import to_yaml

        return to_yaml(self, written_out=written_out)

    @staticmethod
    @takes(InputError, text=A(str, "YAML text"), model=Maybe(A(Model)), source=Text())
    def from_yaml(text: str, *, model: Model | None = None, source: str = "tree") -> StrategyTree:
        """Read a tree from YAML text.

        Parameters
        ----------
        model
            Needed when the text names a model that is not in the zoo.
        source
            Name of the file, for error messages.
        """
        from proteus.strategy.yaml_io import from_yaml

        return from_yaml(text, model=model, source=source)

    def __repr__(self) -> str:
        training = self.training
        head = (
            f"StrategyTree({self.model.name} on {self.mesh!r}, {self.schedule.name}, "
            f"{training.global_batch} samples a step in {training.micro_batch}s, {training.precision})"
        )
        lines = []
        for selector, config in self.configs:
            lines.append(f"  {selector or 'model'}: {config!r}")
        return "\n".join([head, *lines])


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The nodes that a selector names, ready to be read or changed."""

    tree: StrategyTree
    selector: str

    @property
    def paths(self) -> list[str]:
        """Full paths of the ops it covers, runs of equal blocks as ranges."""
        paths: list[str] = []
        for run in self.tree.runs():
            where = match_block(self.selector, run.block)
            if where is None or (where.copies is not None and not set(where.copies) & set(run.copies)):
                continue
            paths.extend(f"{run.path}.{op.name}" for op in run.block.ops if where.covers_op(op.name))
        return paths

    def config(self) -> dict[str, NodeConfig]:
        """What the tree says for every op it covers (before propagation)."""
        paths = set(self.paths)
        return {
            path: run.config(op)
            for run in self.tree.runs()
            for op in run.block.ops
            if (path := f"{run.path}.{op.name}") in paths
        }

    def set(self, **changes: Any) -> StrategyTree:
        """:meth:`StrategyTree.set` on these nodes."""
        return self.tree.set(self.selector, **changes)

    def __repr__(self) -> str:
        return "\n".join(f"{path}: {config!r}" for path, config in self.config().items())


def _carried_out(model: Model, plan: Plan, before: StrategyTree, num_devices: int | None = None) -> StrategyTree:
    """The tree of a recipe, `before` as the one that undo goes back to."""
    made = recipe.write(model, plan, num_devices)
    origin = _Origin(
        model=model,
        plan=plan,
        decided=made.decided,
        notes=made.notes,
        configs=made.configs,
        num_devices=num_devices,
    )
    state = _State(
        mesh=made.mesh,
        stages=made.stages,
        schedule=made.schedule,
        training=made.training,
        configs=made.configs,
        origin=origin,
    )
    return StrategyTree(made.model, _state=state, _previous=before)


def _undoing(new: StrategyTree, before: StrategyTree) -> StrategyTree:
    """`new` with `before` as the one tree that undo goes back to."""
    return StrategyTree(new.model, _state=new._state, _previous=before)
