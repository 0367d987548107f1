"""Sessions as YAML files: a strategy tree as :meth:`StrategyTree.to_yaml` writes it, and the cluster beside it.

    proteus_session: 2
    cluster: {name: dgx-a100, nodes: 4}
    model: llama3-8b
    plan: {dp: fill, tp: 4, zero: 1}
    nodes:
      layers.0-3: {recompute: full}

A model or cluster that no name loads again is written as ``{own: its name}``;
whoever reads the file brings it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from proteus.cluster import Cluster
from proteus.errors import InputError, ProteusError, context
from proteus.files import atomic_write
from proteus.model.graph import Model
from proteus.strategy import StrategyTree
from proteus.strategy.yaml_io import from_yaml
from proteus_widgets.moment import Moment
from proteus_widgets.origin import Preset, preset_of

MARK, VERSION = "proteus_session", 2
#: fields of a tree that the model says itself
OF_THE_MODEL = ("model", "seq", "lora")


def write(path: str | os.PathLike[str], moment: Moment) -> None:
    """Write `moment`; the file is replaced only when the whole text is there."""
    tree = yaml.safe_load(moment.tree.to_yaml())
    if not _loads_again(moment.tree):
        tree = {"model": {"own": moment.model.name}, **{k: v for k, v in tree.items() if k not in OF_THE_MODEL}}
    document = {MARK: VERSION, "cluster": _named(moment.cluster), **tree}
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read(path: str | os.PathLike[str], *, model: Model | None = None, cluster: Cluster | None = None) -> Moment:
    """Read what :func:`write` wrote.

    Raises
    ------
    InputError, StrategyError
        Not such a file, or a field that does not fit.
    """
    with context(str(path)):
        try:
            text = Path(path).read_text("utf-8")
            document = yaml.safe_load(text)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
            raise InputError(f"not a readable session: {' '.join(str(error).split())}") from error
        if not isinstance(document, dict) or MARK not in document:
            raise InputError(f"not a saved session: it must begin with {MARK}: {VERSION}")
        if document[MARK] != VERSION:
            raise InputError(
                f"a session of version {document[MARK]!r}, but only version {VERSION} can be read: "
                "build its strategy again with parallelize() and save it"
            )
        match document.get("model"):
            case {"own": name} if model is None:
                raise InputError(f"model: {name!r} is not built in; load it and pass model=")
        cluster = cluster or _cluster(document.get("cluster"))
        tree = from_yaml(text, model=model, source="session", beside=(MARK, "cluster"))
    return Moment(tree=tree, cluster=cluster)


def _loads_again(tree: StrategyTree) -> bool:
    """Whether the file of a tree says enough to have its very model again."""
    try:
        return from_yaml(tree.to_yaml()).given_model == tree.given_model
    except ProteusError:
        return False


def _named(cluster: Cluster) -> dict[str, Any]:
    preset = preset_of(cluster)
    if preset is None:
        return {"own": cluster.name}
    return {"name": preset.name, "nodes": preset.nodes, **({"gpu": preset.gpu} if preset.gpu else {})}


def _cluster(entry: Any) -> Cluster:
    match entry:
        case {"name": str(name), "nodes": int(nodes), **more}:
            gpu = more.get("gpu")
            return Preset(name=name, nodes=nodes, gpu=None if gpu is None else str(gpu)).load()
        case {"own": name}:
            raise InputError(f"cluster: {name!r} is not built in, or was changed; load it and pass cluster=")
        case _:
            raise InputError(f"cluster: {entry!r} must have a name and a number of nodes")
