"""The fields of the plan as the controls show them: all of them, derived from :func:`proteus.strategy.plan.specs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from proteus.arguments import Choice, Kind, Names, Real, Switch, Whole, Wholes
from proteus.strategy import StrategyTree
from proteus.strategy.plan import GROUPS, FrameworkKind, specs

#: fields that are shown at once; the others are one click away
FIRST = (
    "dp", "tp", "pp", "cp", "ep", "seq", "micro_batch", "global_batch", "schedule", "virtual_stages", "zero",
    "sequence_parallel", "recompute", "precision", "optimizer", "framework",
)  # fmt: skip
#: names of fields where the plan's own is not what people say
LABELS = {
    "dp": "data",
    "tp": "tensor",
    "pp": "pipeline",
    "cp": "context",
    "ep": "expert",
    "etp": "expert tensor",
    "shard": "shard",
    "num_devices": "devices to fill",
    "seq": "sequence",
    "micro_batch": "micro-batch",
    "virtual_stages": "virtual",
    "zero": "ZeRO",
    "sequence_parallel": "sequence par.",
    "bucket_bytes": "bucket [bytes]",
    "cuda_graphs": "CUDA graphs",
    "lora": "LoRA rank",
    "lora_targets": "LoRA targets",
    "lora_dropout": "LoRA dropout",
    "lora_base": "LoRA base",
}
#: what stands beside a value
MEANINGS: dict[str, dict[Any, str]] = {
    "zero": {0: "nothing", 1: "optimizer", 2: "+ gradients", 3: "+ parameters"},
}
#: whole numbers of which a menu shows those that may be possible
DEGREES = ("dp", "tp", "pp", "cp", "ep", "etp", "shard", "micro_batch", "virtual_stages")
#: values of a range that a menu can show
MAX_VALUES = 8

Form = Literal["menu", "number", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the plan on the screen.

    `plain_default` says that leaving the field out means nothing but its
    default number: the menu then needs no entry for that.
    """

    name: str
    label: str
    group: str
    help: str
    kind: Kind
    first: bool
    plain_default: bool

    @property
    def form(self) -> Form:
        """What the user sets it with."""
        kind = self.kind
        if isinstance(kind, Choice | Switch) or self.name in DEGREES:
            return "menu"
        if isinstance(kind, Whole) and kind.maximum - kind.minimum < MAX_VALUES:
            return "menu"
        return "number" if isinstance(kind, Whole | Real) else "text"

    def text(self, value: Any) -> str:
        """A value in words."""
        if value is None:
            return "not set"
        if value == ():
            return "none"
        if isinstance(value, bool):
            return "on" if value else "off"
        if isinstance(value, float):
            return f"{value:g}"
        meaning = MEANINGS.get(self.name, {}).get(value) if isinstance(value, int) else None
        return f"{value} · {meaning}" if meaning else self.kind.text(value)

    def parse(self, text: str) -> Any:
        """The value that a typed text means; ValueError where it means none."""
        return self.kind.parse(text)


def _fields() -> tuple[Field, ...]:
    fields = []
    for group in GROUPS:
        for name, spec in specs().items():
            if spec.group == group:
                fields.append(
                    Field(
                        name=name,
                        label=LABELS.get(name, name.replace("_", " ")),
                        group=group.capitalize(),
                        help=spec.help,
                        kind=spec.kind,
                        first=name in FIRST,
                        plain_default=name in DEGREES and spec.default is not None,
                    )
                )
    return tuple(fields)


#: in the order of the panel
FIELDS = _fields()
BY_NAME = {field.name: field for field in FIELDS}


def is_typed(field: Field) -> bool:
    """Whether what the user sets is text that must be read."""
    return isinstance(field.kind, Names | Wholes | FrameworkKind)


def said(tree: StrategyTree, name: str) -> Any:
    """What the user said of a field; of a tree that was built by hand, what it shows."""
    return tree.decided.value(name) if tree.plan is None else getattr(tree.plan, name)


def shown(tree: StrategyTree, name: str) -> str:
    """What holds for a field, in words; a word such as ``fill`` with what it comes to.

    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp="fill", tp=2).on_devices(8)
    >>> shown(tree, "dp"), shown(tree, "tp")
    ('fill (4)', '2')
    """
    field, word, value = BY_NAME[name], said(tree, name), tree.decided.value(name)
    text = field.text(value)
    return f"{word} ({text})" if is_word(field, word) and word != value else text


def is_word(field: Field, value: Any) -> bool:
    """Whether `value` is a word that stands for a number, such as ``fill``."""
    return isinstance(value, str) and isinstance(field.kind, Whole)


def origin(tree: StrategyTree, name: str) -> str:
    """Who set a field, for people."""
    decision = tree.decided[name]
    if decision.who == "framework":
        return f"default of {tree.training.framework.name}"
    return {"you": "set by you", "model": "from the model", "proteus": "default"}[decision.who]


#: what a change of other fields may change, and people must see
FOLLOWING = ("dp", "global_batch", "seq")


def differences(before: StrategyTree, after: StrategyTree) -> list[str]:
    """What a strategy says otherwise than the one before, a line per field.

    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=2, tp=4, global_batch=8)
    >>> differences(tree, tree.change(dp=4, tp=2))
    ['dp 2 → 4', 'tp 4 → 2']
    """
    sentences = []
    by_hand = before.plan is None or after.plan is None
    for name in BY_NAME:
        was, now = shown(before, name), shown(after, name)
        changed = by_hand or name in FOLLOWING or said(before, name) != said(after, name)
        if was != now and changed:
            sentences.append(f"{name.replace('_', ' ')} {was} → {now}")
    return sentences
