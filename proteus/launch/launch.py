"""What a launch file says, as one value: the model, the plan, what was assumed, not used and is still needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from proteus.errors import InputError
from proteus.launch.keys import Unused
from proteus.model import zoo
from proteus.model.graph import Model
from proteus.strategy.plan import FILL, FRAMEWORK, Plan, specs


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Something that the file cannot say or says wrongly, and what to give.

    >>> str(Need(name="vocab", why="the tokenizer's size is not in the file"))
    "vocab: the tokenizer's size is not in the file"
    """

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the file says of the machines: None where it says nothing.

    Parameters
    ----------
    is_fixed
        The degrees of the file say the number of ranks by themselves.
    """

    world_size: int | None = None
    gpus_per_node: int | None = None
    nodes: int | None = None
    is_fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch file, read.

    Parameters
    ----------
    framework, version
        Name in :mod:`proteus.frameworks` and release; version is empty where the file names none.
    architecture
        The architecture of the zoo whose switches the model has; empty where the file says no model.
    dims
        Dims of the model that the file says or its framework implies.
    facts
        What the file says of a model that is not built from `architecture` and `dims`.
    model
        The model; None while `needs` lists one of its dims.
    plan
        The plan, framework included.
    cluster
        What the file says of the machines.
    assumed
        What was filled in or taken another way, a sentence each.
    not_understood
        Every key that was not used, with its place and the reason.
    needs
        What is still needed before this can be simulated.
    """

    source: str
    framework: str
    version: str = ""
    architecture: str = ""
    dims: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    model: Model | None = None
    plan: Plan
    cluster: Hints = field(default_factory=Hints)
    assumed: tuple[str, ...] = ()
    not_understood: tuple[Unused, ...] = ()
    needs: tuple[Need, ...] = ()

    def with_dims(self, **dims: Any) -> Launch:
        """The same with dims of the model that the file does not say, such as the size of the vocabulary."""
        if not self.architecture:
            raise InputError(f"{self.source}: says no model, so no dim of it can be given; name a model instead")
        values = {**self.dims, **dims}
        needs = tuple(need for need in self.needs if need.name not in dims)
        return replace(self, dims=values, needs=needs, model=model_of(self.architecture, values))

    def with_model(self, model: Model) -> Launch:
        """The same with another model."""
        needs = tuple(need for need in self.needs if need.name not in (*zoo.SIZES, "model"))
        return replace(self, model=model, architecture="", dims={}, facts={}, needs=needs)

    def joined(self, other: Launch) -> Launch:
        """This file and another one of the same run: what `other` says goes before what this one says."""
        said = {**self.plan.said, **other.plan.said}
        if self.plan.dp not in (None, FILL) and other.plan.dp == FILL:
            said["dp"] = self.plan.dp
        with_model = other if other.architecture or other.model or other.facts else self
        settled = {name for launch in (self, other) for name in launch.plan.said if launch.plan.said[name] != FILL}
        has_model = with_model.model is not None
        needs = {
            need.name: need
            for need in (*self.needs, *other.needs)
            if need.name not in settled and not (has_model and need.name in (*zoo.SIZES, "model"))
        }
        hints = other.cluster if other.cluster.world_size is not None else self.cluster
        return Launch(
            source=f"{self.source} + {other.source}",
            framework=other.framework,
            version=other.version or self.version,
            architecture=with_model.architecture,
            dims=with_model.dims,
            facts=with_model.facts,
            model=with_model.model,
            plan=Plan.of(said),
            cluster=hints,
            assumed=tuple(dict.fromkeys((*self.assumed, *other.assumed))),
            not_understood=(*self.not_understood, *other.not_understood),
            needs=tuple(needs.values()),
        )

    def without_needs(self, settings: Mapping[str, Any]) -> Launch:
        """The same without the needs that these fields of a plan answer."""
        met = {*settings, *(("plan",) if settings else ())}
        return replace(self, needs=tuple(need for need in self.needs if need.name not in met))

    def check(self) -> None:
        """Raise one message with all that is still needed.

        Raises
        ------
        InputError
            Something is needed.
        """
        if self.needs:
            raise InputError(f"{self.source}: needs " + "; ".join(map(str, self.needs)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``proteus launch --json`` prints them."""
        said = {name: getattr(self.plan, name) for name in specs()}
        if self.plan.framework is not None:
            said["framework"] = FRAMEWORK.text(self.plan.framework)
        said = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
        return {
            "framework": self.framework,
            "version": self.version,
            "model": dict(self.facts) or shown_dims(self.architecture, self.dims, self.model),
            "plan": said,
            "cluster": {
                "world_size": self.cluster.world_size,
                "nodes": self.cluster.nodes,
                "gpus_per_node": self.cluster.gpus_per_node,
            },
            "assumed": list(self.assumed),
            "not_understood": [
                {"key": unused.key, "value": unused.value, "line": unused.line, "why": unused.why}
                for unused in self.not_understood
            ],
            "needs": [{"name": need.name, "why": need.why} for need in self.needs],
        }

    def __repr__(self) -> str:
        return (
            f"Launch({self.source}: {self.framework}, model={self.model.name if self.model else None}, {self.plan}, "
            f"{len(self.not_understood)} keys not used, needs {', '.join(n.name for n in self.needs) or 'nothing'})"
        )


def model_of(architecture: str, dims: Mapping[str, Any]) -> Model | None:
    """The model of these dims; None while one is missing."""
    if not architecture or any(dims.get(name) is None for name in zoo.NEEDED_SIZES):
        return None
    return zoo.load(architecture, **dims)


def shown_dims(architecture: str, dims: Mapping[str, Any], model: Model | None) -> dict[str, Any] | None:
    """Dims without nesting, under the names of a model's facts; None where no model is said."""
    if model is not None and not dims:
        return {"name": model.name, "architecture": architecture or model.name, **model.facts}
    if not architecture:
        return None
    experts = dims.get("experts") or {}
    told = {name: value for name, value in dims.items() if name != "experts"}
    if experts:
        told |= {"experts": experts.get("num"), "topk": experts.get("topk"), "expert_ffn": experts.get("ffn")}
    return {"name": model.name if model else architecture, "architecture": architecture, **told}
