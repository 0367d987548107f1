"""The flags that name a model, a cluster and a strategy.

The flags of a strategy are the fields of :class:`~proteus.strategy.plan.Plan`,
one each.  A flag that was not given is not passed on: what holds then is
decided in one place, :func:`proteus.strategy.plan.decide`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from proteus.arguments import Kind, Switch
from proteus.errors import InputError
from proteus.model.dims import parse
from proteus.strategy.plan import GROUPS, flag_of, specs


def positive(text: str) -> int:
    """A whole number of at least 1.

    >>> positive("8")
    8
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def words(text: str) -> tuple[str, ...]:
    """Words with commas between them.

    >>> words("optimizer,activation")
    ('optimizer', 'activation')
    """
    return tuple(part.strip() for part in text.split(","))


def dims(text: str) -> dict[str, Any]:
    """Dims of a model.

    >>> dims("layers=4,experts.num=8")
    {'layers': 4, 'experts': {'num': 8}}
    """
    try:
        return parse(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def pair_of_words(text: str) -> tuple[str, str]:
    """Two words with ``=`` between them.

    >>> pair_of_words("3=mlx5_0")
    ('3', 'mlx5_0')
    """
    left, equals, right = text.rpartition("=")
    if not (left and equals and right):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form A=B")
    return left, right


def named_factor(text: str) -> tuple[str, float]:
    """A name and a factor with ``=`` between them.

    >>> named_factor("5=1.3")
    ('5', 1.3)
    """
    name, value = pair_of_words(text)
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is not a number") from None


def add_cluster_flags(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """What completes a topology file, and what-if faults."""
    parser.add_argument(
        "--gpu", metavar="NAME|FILE.yaml", help="GPU of the hosts, e.g. a100-40gb, or a YAML file that describes one"
    )
    parser.add_argument("--nodes", type=positive, metavar="N", help="number of hosts (default 1)")
    faults = {
        "--slow-device": (named_factor, "DEVICE=FACTOR", "this device computes FACTOR times as long; may be repeated"),
        "--slow-link": (named_factor, "LINK=FRACTION", "links that match this name at a fraction of their speed"),
        "--without-nic": (pair_of_words, "HOST=NIC", "this host lacks a network interface"),
    }
    for flag, (kind, metavar, meaning) in faults.items():
        parser.add_argument(flag, type=kind, metavar=metavar, action="append", default=[], help=meaning)


def add_model_flags(parser: argparse.ArgumentParser | argparse._ArgumentGroup, *, needed: bool = False) -> None:
    """Which model, and dims of it that are otherwise."""
    parser.add_argument(
        "--model",
        required=needed,
        metavar="NAME|config.json|MODULE:FUNCTION",
        help="a built-in model, an architecture such as llama with its sizes in --set, a Hugging Face config, or a "
        "function that makes a PyTorch module (it is run)",
    )
    parser.add_argument(
        "--set",
        dest="dims",
        type=dims,
        metavar="DIM=VALUE,...",
        help="dims of a built-in model or sizes of an architecture, e.g. layers=40,hidden=5120,experts.num=8",
    )


def add_cluster_flag(parser: argparse.ArgumentParser | argparse._ArgumentGroup, *, needed: bool = True) -> None:
    """Which hosts."""
    parser.add_argument(
        "--cluster",
        required=needed,
        nargs="+",
        metavar="NAME[:NODES]|HOSTS|FILE",
        help="a preset, hosts in words such as '4 x 8 x a100-80gb, network_Gbps=200', or a topology file of a real "
        "host; several are one cluster of mixed hosts",
    )


def add_strategy_flags(parser: argparse.ArgumentParser, *, needs_cluster: bool = True) -> None:
    """The flags that `simulate` and its kin share."""
    inputs = parser.add_argument_group("model and cluster")
    add_model_flags(inputs)
    add_cluster_flag(inputs, needed=needs_cluster)
    add_cluster_flags(inputs)
    inputs.add_argument(
        "--tree", metavar="FILE", help="a saved strategy tree (YAML); the flags below then do not apply"
    )
    inputs.add_argument(
        "--launch",
        metavar="FILE",
        help="a launch file of a training framework says model and strategy; the flags below go before it",
    )
    add_plan_flags(parser, specs())


def add_plan_flags(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """A flag for each of the fields `names` of the plan, in the groups of the plan."""
    wanted = set(names)
    for title in GROUPS:
        fields = {name: spec for name, spec in specs().items() if spec.group == title and name in wanted}
        if not fields:
            continue
        group = parser.add_argument_group(title)
        for name, spec in fields.items():
            default = "" if spec.default in (None, (), False, True) else f" (default {spec.default})"
            meaning = f"{spec.help}{default}".replace("%", "%%")
            if isinstance(spec.kind, Switch):
                action = argparse.BooleanOptionalAction
                group.add_argument(flag_of(name), dest=name, action=action, default=None, help=meaning)
            else:
                kind, metavar = _parser_of(spec.kind), spec.kind.metavar
                group.add_argument(flag_of(name), dest=name, type=kind, metavar=metavar, help=meaning)


def _parser_of(kind: Kind) -> Callable[[str], Any]:
    """The kind as argparse wants it."""

    def parse(text: str) -> Any:
        try:
            return kind.parse(text)
        except ValueError as error:
            rule = str(error)
            message = rule if rule.startswith("unknown ") else f"{text!r} is not {rule}"
            raise argparse.ArgumentTypeError(message) from None

    return parse


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The strategy flags that the user gave, as fields of the plan.

    >>> given_settings(argparse.Namespace(dp=4, tp=None, zero=1))
    {'dp': 4, 'zero': 1}
    """
    return {name: value for name in specs() if (value := getattr(options, name, None)) is not None}
