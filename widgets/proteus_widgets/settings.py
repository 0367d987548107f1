"""The settings that the controls offer: the arguments of the recipe, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from proteus.errors import InputError, StrategyError, unknown
from proteus.model import zoo as models
from proteus.model.graph import Model
from proteus.strategy import NodeConfig, StrategyTree
from proteus.strategy.axes import degrees, named
from proteus.strategy.config import TensorRole

INTERLEAVED = "interleaved"
#: what ZeRO cuts, stage by stage
ZERO_ORDER: tuple[TensorRole, ...] = ("optimizer", "gradient", "parameter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Arguments of :meth:`StrategyTree.parallelize`."""

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    micro_batch: int = 1
    global_batch: int = 1
    schedule: str = "1f1b"
    virtual_stages: int = 1
    zero: int = 0
    sequence_parallel: bool = False
    recompute: str = "none"
    precision: str = "bf16"
    optimizer: str = "adam"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from untrusted values.

        Raises
        ------
        InputError
            A name or a type that does not fit.
        """
        types = {f.name: type(f.default) for f in fields(cls)}
        for name, value in values.items():
            if name not in types:
                raise InputError(unknown("setting", str(name), types))
            if type(value) is not types[name]:
                raise InputError(f"{name}={value!r} is a {type(value).__name__}; it must be a {types[name].__name__}")
        return cls(**values)

    def changed(self, **changes: Any) -> Settings:
        """These settings with `changes`, checked as :meth:`from_dict` does."""
        return Settings.from_dict({**self.to_dict(), **changes})


def follow(settings: Settings, changed: frozenset[str], num_devices: int) -> Settings:
    """`settings` with the degrees that follow from those the user changed.

    The data-parallel degree fills the devices that the others leave, as far
    as the global batch divides; it stays as it is when the user set it.
    Virtual stages and the interleaved schedule come and go together.

    >>> follow(Settings(tp=4, dp=8, global_batch=64), frozenset({"tp"}), 16).dp
    4
    """
    settings = _follow_chunks(settings, changed)
    if not changed & {"tp", "pp", "cp", "cluster", "micro_batch", "global_batch"} or "dp" in changed:
        return settings
    room = num_devices // (settings.tp * settings.pp * settings.cp)
    if "tp" not in changed and not changed & {"pp", "cp", "cluster"}:
        room = min(room, settings.dp)  # a batch that does not divide may shrink dp, but never grows it
    batches = settings.global_batch // settings.micro_batch
    fits = [d for d in range(1, room + 1) if batches % d == 0 and d * settings.cp % settings.ep == 0]
    return replace(settings, dp=fits[-1]) if fits else settings


def _follow_chunks(settings: Settings, changed: frozenset[str]) -> Settings:
    """Only the interleaved schedule has virtual stages: each brings the other along."""
    if "schedule" in changed:
        chunks = max(2, settings.virtual_stages) if settings.schedule == INTERLEAVED else 1
        return replace(settings, virtual_stages=chunks)
    if "virtual_stages" in changed:
        if settings.virtual_stages > 1:
            return replace(settings, schedule=INTERLEAVED)
        return replace(settings, schedule="1f1b" if settings.schedule == INTERLEAVED else settings.schedule)
    return settings


def apply_edit(tree: StrategyTree, path: str, config: NodeConfig) -> StrategyTree:
    """`tree` with what the user said at `path` on top of what stands there."""
    return tree.set(
        path,
        partition=config.partition,
        memory=None if config.memory is None else {str(role): kept for role, kept in config.memory.items()},
        recompute=config.recompute,
        exchange=config.exchange,
        frozen=config.frozen,
    )


def tree_for(
    model: Model,
    settings: Settings,
    edits: tuple[tuple[str, NodeConfig], ...],
) -> tuple[StrategyTree, list[str]]:
    """The tree of the recipe with the edits on top, and a line for every edit that no longer fits."""
    tree = StrategyTree(model).parallelize(**settings.to_dict())
    lost = []
    for path, config in edits:
        try:
            tree = apply_edit(tree, path, config)
        except StrategyError as error:
            lost.append(f"an edit was dropped: {error}")
    return tree, lost


def settings_of(tree: StrategyTree) -> Settings:
    """The settings that a tree shows; what the recipe cannot say stays in its configs."""
    root = dict(tree.configs).get("", NodeConfig())
    memory = dict(root.memory or {})
    roles = sum(1 for role in ZERO_ORDER if role in memory and memory[role].axes)
    blocks = {"", *(block.name for block in tree.model.blocks)}  # the recipe recomputes in whole blocks
    recompute = [c.recompute for path, c in tree.configs if path in blocks and c.recompute not in (None, "none")]
    found = degrees(tree.stages[0].mesh)
    sequence = any(named((c.partition or {}).get("seq", ()), "tp") for path, c in tree.configs if path)
    return Settings(
        dp=found["dp"],
        tp=found["tp"],
        pp=dict(tree.mesh.axes).get("pp", 1),
        cp=found["cp"],
        ep=found["ep"],
        micro_batch=tree.training.micro_batch,
        global_batch=tree.training.global_batch,
        schedule=tree.schedule.name,
        virtual_stages=tree.schedule.virtual_stages,
        zero=roles,
        sequence_parallel=sequence,
        recompute=recompute[-1] if recompute else "none",
        precision=tree.training.precision,
        optimizer=tree.training.optimizer,
    )


def model_of(tree: StrategyTree, settings: Settings) -> Model:
    """The model that the recipe was given: it pads vocabularies, and other degrees pad them otherwise.

    Known for built-in models; of any other it is the model of the tree.
    """
    model = tree.model
    if model.name not in models.names():
        return model
    try:
        given = models.load(model.name)
        made = StrategyTree(given).parallelize(**settings.to_dict()).model
    except StrategyError:
        return model
    return given if made == model else model


def edits_of(tree: StrategyTree, settings: Settings) -> tuple[tuple[str, NodeConfig], ...]:
    """Configs of `tree` that the recipe of `settings` would not have written."""
    try:
        recipe = dict(StrategyTree(tree.model).parallelize(**settings.to_dict()).configs)
    except StrategyError:
        return ()
    return tuple((path, c) for path, c in tree.configs if path not in recipe or recipe[path].key() != c.key())
