"""What a reader gathers while it goes through a file; :meth:`Draft.finish` makes the :class:`Launch` of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from proteus.errors import InputError, ProteusError
from proteus.frameworks import load
from proteus.launch.keys import Keys
from proteus.launch.launch import Hints, Launch, Need, model_of
from proteus.model import zoo
from proteus.model.graph import Model
from proteus.strategy.plan import FILL, Plan

#: what is asked for where a dim is missing
_DIMS = {
    "layers": "number of layers",
    "hidden": "width of the model",
    "heads": "number of attention heads",
    "vocab": "size of the vocabulary",
    "seq": "tokens per sample",
}


def _multiple(of: int) -> str:
    return f"; {of} of them hold one copy of the model" if of > 1 else ""


@dataclass(slots=True, kw_only=True)
class Draft:
    """Gathered words.

    Parameters
    ----------
    plan
        Fields of the plan that the file says or its framework implies.
    kernels
        Changed fields of the framework, such as ``fused_rope``.
    dp
        Data-parallel degree where the file says it; otherwise it follows from the world size.
    optimizer_copies
        Groups of data-parallel ranks that each hold what ZeRO shards (hybrid sharding).
    accumulation
        Micro-batches of a step on one rank, where the file says those and not the global batch.
    per_rank_batch
        The framework's global batch is the micro-batch of every rank unless said.
    """

    framework: str
    keys: Keys
    version: str = ""
    plan: dict[str, Any] = field(default_factory=dict)
    kernels: dict[str, Any] = field(default_factory=dict)
    architecture: str = ""
    dims: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    model: Model | None = None
    dp: int | None = None
    optimizer_copies: int = 1
    accumulation: int | None = None
    per_rank_batch: bool = False
    nodes: int | None = None
    gpus_per_node: int | None = None
    world_size: int | None = None
    assumed: list[str] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)

    def say(self, **fields: Any) -> None:
        """Fields of the plan; None says nothing."""
        self.plan |= {name: value for name, value in fields.items() if value is not None}

    def assume(self, sentence: str) -> None:
        if sentence not in self.assumed:
            self.assumed.append(sentence)

    def need(self, name: str, why: str) -> None:
        if all(need.name != name for need in self.needs):
            self.needs.append(Need(name=name, why=why))

    def degree(self, name: str) -> int:
        return int(self.plan.get(name) or 1)

    def finish(self, world_size: int | None) -> Launch:
        """The launch: degrees, batches and the model completed as far as the file allows."""
        hints = self._degrees(world_size)
        self._shard()
        self._batch()
        self._pipeline()
        model = self.model or self._model()
        text = f"{self.framework}@{self.version}" if self.version else self.framework
        if self.kernels:
            text = load(text).but(**self.kernels).text
        try:
            plan = Plan.of({**self.plan, "framework": text})
        except ProteusError as error:
            raise InputError(f"{self.keys.source}: {error}") from None
        return Launch(
            source=self.keys.source,
            framework=self.framework,
            version=self.version,
            architecture=self.architecture,
            dims=self.dims,
            facts=self.facts,
            model=model,
            plan=plan,
            cluster=hints,
            assumed=tuple(self.assumed),
            not_understood=self.keys.unused(),
            needs=tuple(self.needs),
        )

    def _degrees(self, world_size: int | None) -> Hints:
        """The data-parallel degree, from the file or from what the other degrees leave of the world."""
        tp, pp, cp = (self.degree(name) for name in ("tp", "pp", "cp"))
        others = tp * pp * cp
        product = f"tp × pp × cp = {tp} × {pp} × {cp} = {others}"
        if self.dp is not None:
            world = self.dp * others
            if world_size not in (None, world):
                raise InputError(
                    f"{self.keys.source}: dp × {product} with dp={self.dp} makes {world} ranks, and the world size is "
                    f"{world_size}; change one of them"
                )
            self.say(dp=self.dp)
            return Hints(world_size=world, gpus_per_node=self.gpus_per_node, nodes=self.nodes, is_fixed=True)
        ranks = self.world_size
        if ranks is None and self.nodes is not None and self.gpus_per_node is not None:
            ranks = self.nodes * self.gpus_per_node
        if world_size is not None:
            if world_size % others:
                raise InputError(f"{self.keys.source}: {product} does not divide the world size {world_size}")
            ranks = world_size
        if ranks is None:
            self.need("world_size", f"the file does not say how many ranks there are{_multiple(others)}")
            self.say(dp=FILL)
        elif ranks % others:
            self.need("world_size", f"the file says {ranks} ranks and {product} divides only multiples of {others}")
            self.say(dp=FILL)
            ranks = None
        else:
            self.say(dp=ranks // others)
        return Hints(world_size=ranks, gpus_per_node=self.gpus_per_node, nodes=self.nodes)

    def _shard(self) -> None:
        """Ranks over which ZeRO shards, where the file says how many copies there are."""
        dp = self.plan.get("dp")
        if self.optimizer_copies == 1 or not self.plan.get("zero"):
            return
        if not isinstance(dp, int):
            self.assume(
                f"ZeRO shards over all data-parallel ranks, not in {self.optimizer_copies} copies, until the world "
                "size is known"
            )
        elif dp % self.optimizer_copies:
            self.need("shard", f"dp={dp} is no multiple of {self.optimizer_copies} copies of the optimizer state")
        else:
            self.say(shard=dp // self.optimizer_copies)

    def _batch(self) -> None:
        micro, dp = self.plan.get("micro_batch"), self.plan.get("dp")
        if "global_batch" in self.plan:
            total = self.plan["global_batch"]
            if isinstance(dp, int) and micro is not None and total % (micro * dp):
                self.need(
                    "global_batch", f"{total} samples are no multiple of micro_batch × dp = {micro} × {dp}; change one"
                )
            return
        count = self.accumulation if self.accumulation is not None else 1 if self.per_rank_batch else None
        if count is None:
            self.need("global_batch", "the file does not say how many samples make a step")
        elif micro is None:
            return  # asked for by whoever knows its key
        elif isinstance(dp, int):
            self.say(global_batch=micro * count * dp)
            self.needs = [need for need in self.needs if need.name != "global_batch"]
        # with dp open the world size is asked for already, and gives the batch

    def _pipeline(self) -> None:
        layers, pp = self.dims.get("layers"), self.degree("pp")
        if layers is None or pp == 1 or "layers_per_stage" in self.plan:
            return
        if layers < pp:
            self.need("pp", f"{layers} layers are fewer than the {pp} pipeline stages; change one of them")

    def _model(self) -> Model | None:
        if not self.architecture:
            if self.facts:
                return None
            self.need("model", "the file does not say the architecture; give a model's name or config.json")
            return None
        for name, what in _DIMS.items():
            if self.dims.get(name) is None:
                self.need(name, f"the file does not say the {what}")
        assert set(_DIMS) == set(zoo.NEEDED_SIZES)
        try:
            return model_of(self.architecture, self.dims)
        except ProteusError as error:
            raise InputError(f"{self.keys.source}: {error}") from None
