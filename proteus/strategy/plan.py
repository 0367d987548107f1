"""The plan: everything that a recipe takes, as one typed value.

Every field may be None: the user says nothing of it.  :func:`decide` fills
it in by precedence: the user's word, the framework's default, Proteus's own.
The signature of :meth:`StrategyTree.parallelize`, the flags of the command
line, the controls of the workbench and the ``plan`` of a YAML file are views
of these fields, and :class:`Plan` is their one validator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, Literal

from proteus.arguments import Choice, Kind, Names, Real, Switch, Whole, Wholes, broken_rule
from proteus.costs import precision as precisions
from proteus.costs.optimizer import OPTIMIZERS
from proteus.errors import StrategyError, unknown
from proteus.frameworks import DEFAULT, Framework
from proteus.frameworks.framework import KINDS as FRAMEWORK_KINDS
from proteus.strategy.config import TENSOR_ROLES
from proteus.strategy.schedule import SCHEDULES
from proteus.strategy.stages import CUTS

Group = Literal["degrees", "batch", "pipeline", "memory", "communication", "numerics", "software", "model"]
GROUPS: tuple[Group, ...] = (
    "degrees", "batch", "pipeline", "memory", "communication", "numerics", "software", "model",
)  # fmt: skip
#: how context parallelism meets attention
CONTEXTS = ("all_gather", "ring", "all_to_all")
#: what is run again in the backward: ``op`` is torchtitan's per-op policy, ``auto`` as little as makes the step fit
RECOMPUTES = ("none", "selective", "full", "op", "auto")
#: ops that ``recompute_modules`` names: norms, and activation functions with their dropouts
RECOMPUTE_MODULES = ("norm", "activation")
#: the degree that fills the devices which the others leave
FILL = "fill"
#: as many virtual stages as there are layers in a stage
MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """What is known of a field of the plan, beside its type.

    Parameters
    ----------
    kind
        The values it takes.
    default
        Proteus's own default; None where it follows from other fields, as `help` says.
    help
        One sentence for people.
    group
        Which fields it stands among.
    """

    kind: Kind
    default: Any
    help: str
    group: Group


def _spec(kind: Kind, default: Any, help: str, *, group: Group) -> Any:
    return field(default=None, metadata={"spec": FieldSpec(kind=kind, default=default, help=help, group=group)})


def _degree(help: str, *, words: tuple[str, ...] = (), default: int | None = 1) -> Any:
    return _spec(Whole(minimum=1, words=words), default, help, group="degrees")


@dataclass(frozen=True, slots=True)
class FrameworkKind:
    """A framework: a name with version and changes, a YAML file, or a :class:`Framework` value."""

    rule: ClassVar[str] = (
        "a framework such as 'megatron-core' or 'nemo@24.07, attention=flash2', a YAML file, or a pt.Framework"
    )
    metavar: ClassVar[str] = "NAME[@VERSION]|FILE"

    def check(self, value: object) -> str | Framework:
        if not isinstance(value, str | Framework):
            raise ValueError(self.rule)
        return value

    def parse(self, text: str) -> str:
        return text

    def text(self, value: str | Framework) -> str:
        return value if isinstance(value, str) else value.text


FRAMEWORK = FrameworkKind()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a model is trained on many devices.

    All fields are None unless said.  Two plans are equal when they say the same.

    Examples
    --------
    >>> plan = Plan(dp=4, tp=2, zero=1)
    >>> plan
    Plan(dp=4, tp=2, zero=1)
    >>> plan.changed(zero=2, tp=None)
    Plan(dp=4, zero=2)
    >>> Plan(zero="1")
    Traceback (most recent call last):
    ...
    proteus.errors.StrategyError: zero='1'; it must be a whole number from 0 to 3
    """

    dp: int | Literal["fill"] | None = _degree(
        "data-parallel replicas; fill uses all devices that the other degrees leave", words=(FILL,)
    )
    tp: int | None = _degree("tensor-parallel ranks that share each layer")
    pp: int | None = _degree("pipeline stages of consecutive layers")
    cp: int | None = _degree("context-parallel ranks that share each sequence")
    ep: int | None = _degree("expert-parallel ranks that share the experts; they are data, context or tensor ranks")
    etp: int | None = _degree("tensor-parallel ranks of each expert; default: tp", default=None)
    shard: int | None = _degree(
        "data-parallel ranks over which ZeRO shards, replicated beyond (hybrid sharding); default: all",
        default=None,
    )
    num_devices: int | None = _degree("devices that dp=fill fills; default: the cluster's", default=None)

    seq: int | None = _spec(Whole(minimum=1), None, "sequence length [tokens]; default: the model's", group="batch")
    micro_batch: int | None = _spec(
        Whole(minimum=1), 1, "samples per micro-batch and data-parallel rank", group="batch"
    )
    global_batch: int | None = _spec(
        Whole(minimum=1), None, "samples per step; default: micro_batch × dp × pp", group="batch"
    )

    schedule: str | None = _spec(Choice(lambda: SCHEDULES, "schedule"), "1f1b", "pipeline schedule", group="pipeline")
    virtual_stages: int | Literal["max"] | None = _spec(
        Whole(minimum=1, words=(MAX,)), None,
        "model chunks per pipeline rank; more than 1 selects the interleaved schedule, max is one layer per chunk; "
        "default: 1, or 2 with the interleaved schedule", group="pipeline",
    )  # fmt: skip
    max_in_flight: int | None = _spec(
        Whole(minimum=1), None, "maximum micro-batches in flight per stage; default: the schedule's",
        group="pipeline",
    )  # fmt: skip
    layers_per_stage: tuple[int, ...] | None = _spec(
        Wholes(minimum=0), None, "layers of each pipeline chunk; default: by pipeline_cut", group="pipeline"
    )
    pipeline_cut: str | None = _spec(
        Choice(lambda: CUTS, "pipeline cut"), "balanced", "how layers are split into pipeline chunks",
        group="pipeline",
    )  # fmt: skip

    zero: int | None = _spec(
        Whole(minimum=0, maximum=3), 0, "ZeRO stage: 1 shards optimizer state, 2 gradients too, 3 parameters too",
        group="memory",
    )  # fmt: skip
    sequence_parallel: bool | None = _spec(
        Switch(), False, "shard norms, dropouts and residuals along the sequence over the tensor ranks", group="memory"
    )
    recompute: str | None = _spec(
        Choice(lambda: RECOMPUTES, "recompute"), "none",
        "activations computed again in the backward pass; op is torchtitan's per-op policy, "
        "auto the least that makes the step fit", group="memory",
    )  # fmt: skip
    recompute_layers: int | None = _spec(
        Whole(minimum=1), None, "recompute only in the first N layers of every stage; default: all", group="memory"
    )
    recompute_modules: tuple[str, ...] | None = _spec(
        Names(lambda: RECOMPUTE_MODULES, "module to recompute"), (), "cheap ops to recompute in every layer",
        group="memory",
    )  # fmt: skip
    offload: tuple[str, ...] | None = _spec(
        Names(lambda: TENSOR_ROLES, "tensor role"), (), "tensors kept in host memory", group="memory"
    )

    context: str | None = _spec(
        Choice(lambda: CONTEXTS, "context"), "all_gather",
        "context parallelism: gather keys and values, pass them round a ring, or all_to_all over heads",
        group="communication",
    )  # fmt: skip
    bucket_bytes: float | None = _spec(
        Real(above=0.0, unit="bytes"), None, "approximate size of a gradient bucket; default: the "
        "framework's", group="communication",
    )  # fmt: skip
    overlap_gradients: bool | None = _spec(
        Switch(), True, "reduce gradients during the backward pass", group="communication"
    )
    overlap_parameters: bool | None = _spec(
        Switch(), False, "gather updated parameters of ZeRO-1 and 2 during the next forward pass",
        group="communication",
    )  # fmt: skip
    overlap_tensor: str | None = _spec(
        Choice(lambda: FRAMEWORK_KINDS["overlaps_tensor"].choices, "tensor overlap"), None,
        "tensor-parallel communication that overlaps its own GEMM in chunks; default: the framework's",
        group="communication",
    )  # fmt: skip
    overlap_experts: bool | None = _spec(
        Switch(), None, "exchange expert tokens while another micro-batch computes; default: the "
        "framework's", group="communication",
    )  # fmt: skip
    overlap_steps: bool | None = _spec(
        Switch(), False, "each rank starts its next step without waiting for other ranks", group="communication"
    )

    precision: str | None = _spec(
        Choice(lambda: precisions.names(), "precision"), "bf16", "compute precision", group="numerics"
    )
    optimizer: str | None = _spec(Choice(lambda: OPTIMIZERS, "optimizer"), "adam", "optimizer", group="numerics")

    framework: str | Framework | None = _spec(  # noqa: RUF009  # it is a field, as all others are
        FRAMEWORK, DEFAULT, "training framework: its kernels, runtime, memory and defaults",
        group="software",
    )  # fmt: skip
    attention: str | None = _spec(
        Choice(lambda: FRAMEWORK_KINDS["attention"].choices, "attention kernel"), None,
        "attention kernel; default: the framework's", group="software",
    )  # fmt: skip
    compile: bool | None = _spec(Switch(), None, "compile the model (torch.compile); default: the "
        "framework's", group="software")  # fmt: skip
    cuda_graphs: bool | None = _spec(Switch(), None, "replay the step as CUDA graphs; default: the "
        "framework's", group="software")  # fmt: skip

    pad_vocab: int | None = _spec(
        Whole(minimum=0), None,
        "pad the vocabulary to a multiple of this times tp; default: 128 if tp does not divide the vocabulary; "
        "0: never", group="model",
    )  # fmt: skip
    lora: int | None = _spec(
        Whole(minimum=1), None, "rank of low-rank adapters (LoRA); all other parameters are frozen",
        group="model",
    )  # fmt: skip
    lora_targets: tuple[str, ...] | None = _spec(
        Names(), (), "GEMMs with adapters: attention.qkv, mlp, ...; default: all in the layers", group="model"
    )
    lora_dropout: float | None = _spec(
        Real(minimum=0.0, below=1.0), 0.0, "dropout rate before each adapter", group="model"
    )
    lora_base: str | None = _spec(
        Choice(lambda: ("exact", "nf4"), "base of adapters"), "exact",
        "frozen weights beside adapters: unquantised, or in 4 bits (QLoRA)", group="model",
    )  # fmt: skip
    freeze: tuple[str, ...] | None = _spec(
        Names(), (), "nodes with frozen parameters: embedding, layers.0-11, ...", group="model"
    )

    def __post_init__(self) -> None:
        for name, spec in specs().items():
            value = getattr(self, name)
            if value is None:
                continue
            try:
                object.__setattr__(self, name, spec.kind.check(value))
            except ValueError as error:
                raise StrategyError(broken_rule(name, value, error)) from None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Plan:
        """The plan with these `values`.

        Raises
        ------
        StrategyError
            A name that is not a field, with the nearest, or a value that does not fit.
        """
        for name in values:
            if name not in specs():
                raise StrategyError(unknown("field of a plan", str(name), specs()))
        return cls(**values)

    @property
    def said(self) -> dict[str, Any]:
        """The fields that are set, in their order."""
        return {name: value for name in specs() if (value := getattr(self, name)) is not None}

    def changed(self, **changes: Any) -> Plan:
        """This plan with only `changes` changed; None unsets a field."""
        return Plan.of({**self.said, **changes})

    def flags(self) -> list[str]:
        """The plan as flags of the command line.

        >>> Plan(dp=4, sequence_parallel=False, offload=("optimizer",)).flags()
        ['--dp', '4', '--no-sequence-parallel', '--offload', 'optimizer']
        """
        flags: list[str] = []
        for name, value in self.said.items():
            flag, kind = flag_of(name), specs()[name].kind
            if isinstance(value, bool):
                flags.append(flag if value else flag.replace("--", "--no-", 1))
            else:
                flags += [flag, kind.text(value)]
        return flags

    def __repr__(self) -> str:
        return f"Plan({', '.join(f'{name}={value!r}' for name, value in self.said.items())})"


@cache
def specs() -> Mapping[str, FieldSpec]:
    """Every field of the plan, in its order."""
    return {f.name: f.metadata["spec"] for f in fields(Plan)}


def flag_of(name: str) -> str:
    """The flag of a field.

    >>> flag_of("micro_batch")
    '--micro-batch'
    """
    return f"--{name.replace('_', '-')}"


Who = Literal["you", "model", "framework", "proteus"]
#: the parties in words
WHO: Mapping[Who, str] = {"you": "you", "model": "model", "framework": "framework", "proteus": "Proteus"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The value of a field, and who set it.

    Parameters
    ----------
    value
        None where nothing stands for it: what other fields imply holds.
    who
        ``you``, ``model`` (its own length), ``framework`` or ``proteus``.
    source
        Where the framework says so; empty for the others.
    """

    value: Any
    who: Who
    source: str = ""


class DecidedPlan(Mapping[str, Decision]):
    """Every field of a plan with its value and who set it.

    Examples
    --------
    >>> from proteus.frameworks import load
    >>> decided = decide(Plan(dp=4), load("megatron-core"))
    >>> decided["dp"].who, decided["tp"].value, decided["tp"].who
    ('you', 1, 'proteus')
    """

    __slots__ = ("_decisions", "framework")

    def __init__(self, decisions: Mapping[str, Decision], framework: Framework) -> None:
        self._decisions = dict(decisions)
        self.framework = framework

    def __getitem__(self, name: str) -> Decision:
        try:
            return self._decisions[name]
        except KeyError:
            raise StrategyError(unknown("field of a plan", name, self._decisions)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._decisions)

    def __len__(self) -> int:
        return len(self._decisions)

    def value(self, name: str) -> Any:
        return self._decisions[name].value

    def with_values(self, who: Who | None = None, **values: Any) -> DecidedPlan:
        """The same with derived values; who set a field stays, unless nobody has set it."""
        changed = {
            name: replace(old, value=value, who=old.who if who is None or old.value is not None else who)
            for name, value in values.items()
            for old in (self._decisions[name],)
        }
        return DecidedPlan({**self._decisions, **changed}, self.framework)

    def to_dict(self) -> dict[str, Any]:
        """Field → value, as JSON knows it; the framework as text."""
        values = {name: decision.value for name, decision in self._decisions.items()}
        framework = values["framework"]
        return {**values, "framework": framework if isinstance(framework, str) else framework.text}

    def origins(self) -> dict[str, Who]:
        """Field → who set it."""
        return {name: decision.who for name, decision in self._decisions.items()}

    def __repr__(self) -> str:
        rows = [
            (name, FrameworkKind().text(d.value) if name == "framework" else _shown(d.value), WHO[d.who], d.source)
            for name, d in self._decisions.items()
        ]
        wide = [max(len(row[at]) for row in rows) for at in range(3)]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, [*wide, 0])).rstrip() for row in rows]
        return "\n".join(lines)


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "-"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def decide(plan: Plan, framework: Framework) -> DecidedPlan:
    """Every field of `plan`: the user's value, else the framework's default, else Proteus's.

    A framework that nobody named does not change the model.
    """
    decisions: dict[str, Decision] = {}
    for name, spec in specs().items():
        value = getattr(plan, name)
        if value is not None:
            decisions[name] = Decision(value=value, who="you")
        elif name in framework.defaults and (plan.framework is not None or spec.group != "model"):
            default = spec.kind.check(framework.defaults[name])
            decisions[name] = Decision(value=default, who="framework", source=framework.sources.get(name, ""))
        else:
            decisions[name] = Decision(value=spec.default, who="proteus")
    return DecidedPlan(decisions, framework)
