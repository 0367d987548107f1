"""What the flags name: loading models, clusters and strategy trees, each by its public name."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proteus.cli.flags import given_settings
from proteus.errors import InputError, needs_extra
from proteus.strategy.plan import Plan

if TYPE_CHECKING:
    from proteus.cluster.cluster import Cluster
    from proteus.costs.ops import Calibration
    from proteus.model.graph import Model
    from proteus.strategy.tree import StrategyTree


def load_model(options: argparse.Namespace) -> Model:
    """The model that the flags name."""
    import proteus as pt

    if options.model is None:
        raise InputError("--model is missing: a built-in model, a Hugging Face config.json, or package.module:function")
    if is_function_name(options.model):
        if options.dims:
            raise InputError(f"--set is for models of the zoo; {options.model} makes its model itself")
        model = _load_named(options.model)
        return model if options.seq is None else model.with_seq(options.seq)
    if names_a_file(options.model):
        if options.dims:
            raise InputError(f"--set is for built-in models; change the sizes in {options.model}")
        return pt.from_hf(options.model, seq=options.seq)
    dims = options.dims or {}
    if options.seq is not None and "seq" in dims:
        raise InputError(f"--seq {options.seq} and seq={dims['seq']} in --set; give one of them")
    return pt.models.load(options.model, **({"seq": options.seq} if options.seq is not None else {}), **dims)


def is_function_name(text: str) -> bool:
    """Whether ``--model`` names a function of the user's, which makes the model.

    >>> is_function_name("my_pkg.models:make"), is_function_name("llama3-8b"), is_function_name("a/config.json")
    (True, False, False)
    """
    return re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", text) is not None


def _load_named(name: str) -> Model:
    """What the user's function makes: the only place where user code runs, and only because the user names it."""
    with needs_extra("torch", f"--model {name}"):
        from proteus.torch_import.named import load_named

    return load_named(name)


def load_cluster(options: argparse.Namespace) -> Cluster:
    """The cluster that the flags name, its faults included."""
    import proteus as pt

    names = options.cluster
    if options.nodes and len(names) > 1:
        raise InputError(f"--nodes {options.nodes} with {len(names)} kinds of host; write the number after each name")
    parts = [load_hosts(name, options) for name in names]
    cluster = parts[0] if len(parts) == 1 else pt.Cluster.mixed(parts, name="+".join(names))
    for device, factor in options.slow_device:
        cluster = cluster.slow_device(whole_number("--slow-device", device), factor)
    for pattern, fraction in options.slow_link:
        cluster = cluster.slow_link(pattern, fraction)
    for host, nic in options.without_nic:
        cluster = cluster.without_nic(whole_number("--without-nic", host), int(nic) if nic.isdecimal() else nic)
    return cluster


def load_hosts(name: str, options: argparse.Namespace) -> Cluster:
    """Equal hosts: of a preset, or as a topology file or a measured machine says; the number after a colon."""
    import proteus as pt
    from proteus.cluster import described
    from proteus.profiling import is_machine
    from proteus.profiling import load as load_machine

    path, colon, count = name.rpartition(":")
    nodes = int(count) if colon and count.isdecimal() else None
    path = path if nodes is not None else name
    if described.is_description(name) or not names_a_file(path):
        return pt.clusters.load(name, nodes=options.nodes, gpu=options.gpu)
    if nodes is not None and options.nodes not in (None, nodes):
        raise InputError(f"--cluster {name} and --nodes {options.nodes} disagree; give one of them")
    if nodes is None:
        nodes = options.nodes or 1
    if is_machine(path):
        cluster = load_machine(path).cluster()
        cluster = cluster.with_gpu(options.gpu) if options.gpu else cluster
        return cluster.with_nodes(nodes) if nodes > 1 else cluster
    return pt.Cluster.load_file(path, gpu=options.gpu, nodes=nodes)


def load_calibration(options: argparse.Namespace) -> Calibration | None:
    """What was measured: the file of ``--calibration``, or the measured machine that ``--cluster`` names."""
    from proteus.cluster import described
    from proteus.profiling import is_machine, load

    if options.calibration:
        return load(options.calibration).calibration
    machines = [
        name
        for name in options.cluster
        if not described.is_description(name) and names_a_file(name) and is_machine(name)
    ]
    return load(machines[0]).calibration if len(options.cluster) == len(machines) == 1 else None


def load_tree(options: argparse.Namespace, cluster: Cluster | None = None) -> StrategyTree:
    """The strategy tree: the file's, or the recipe's with the flags given."""
    import proteus as pt

    settings = given_settings(options)
    if options.launch is not None:
        return _launched(options, settings, cluster)
    if options.tree is None:
        return pt.StrategyTree(load_model(options)).parallelize(Plan.of(settings))
    if options.dims and options.model is None:
        raise InputError(f"--tree {options.tree} says the model; drop --set, or name the model with --model")
    if options.model is not None:
        settings.pop("seq", None)  # it says how long the samples of the model are that the file needs
    if settings:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in settings)
        raise InputError(f"--tree {options.tree} says the whole strategy; drop {flags}, or change the file")
    try:
        text = Path(options.tree).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{options.tree}: not a text file in UTF-8 (byte {error.start}); is it a strategy tree?"
        ) from error
    return pt.StrategyTree.from_yaml(text, model=load_model(options) if options.model else None, source=options.tree)


def _launched(options: argparse.Namespace, settings: dict[str, Any], cluster: Cluster | None) -> StrategyTree:
    """The tree of a launch file, with the flags that the user gave before what the file says."""
    import proteus as pt
    from proteus.strategy.plan import FILL

    if options.tree is not None:
        raise InputError(f"--launch {options.launch} and --tree {options.tree} both say the strategy; give one of them")
    launch = pt.launch.read(options.launch)
    if cluster is not None and not launch.cluster.is_fixed and launch.cluster.world_size != cluster.num_devices:
        launch = pt.launch.read(options.launch, world_size=cluster.num_devices)
    if options.model is not None:
        launch = launch.with_model(load_model(options))
    elif options.dims:
        launch = launch.with_dims(**options.dims)
    launch.without_needs(settings).check()
    assert launch.model is not None
    if {"tp", "pp", "cp"} & set(settings) and "dp" not in settings:
        settings["dp"] = FILL  # what the file or its world size left for it no longer holds
    return pt.StrategyTree(launch.model).parallelize(launch.plan.changed(**settings))


def names_a_file(text: str) -> bool:
    """Whether a flag's value means a file and not a name that Proteus knows.

    >>> names_a_file("llama3-8b"), names_a_file("dgx-a100:4"), names_a_file("topo.xml")
    (False, False, True)
    """
    path = Path(text)
    return "/" in text or path.suffix.lower() in {".json", ".xml", ".txt", ".yaml", ".yml", ".log"} or path.is_file()


def whole_number(flag: str, text: str) -> int:
    """The number of a device or host."""
    if not text.isdecimal():
        raise InputError(f"{flag}: {text!r} is not a number counted from 0")
    return int(text)
