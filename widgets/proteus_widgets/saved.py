"""Sessions as YAML files: model, cluster, settings and edits, by name.

A model or cluster that no name loads again is written as ``{own: its name}``;
whoever reads the file brings it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

import proteus as pt
from proteus.cluster import Cluster
from proteus.errors import InputError, context
from proteus.files import atomic_write
from proteus.model.graph import Model
from proteus.strategy import Memory, NodeConfig
from proteus.strategy.config import plain
from proteus_widgets.moment import Moment
from proteus_widgets.origin import Preset, is_built_in, preset_of
from proteus_widgets.settings import Settings

VERSION = 1


def write(path: str | os.PathLike[str], moment: Moment) -> None:
    """Write `moment`; the file is replaced only when the whole text is there."""
    document = {
        "proteus_session": VERSION,
        "model": _model_named(moment.model),
        "cluster": _named(moment.cluster),
        "settings": moment.settings.to_dict(),
        "edits": [{"path": path, **plain(config)} for path, config in moment.edits],
    }
    text = yaml.safe_dump(document, sort_keys=False)
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read(path: str | os.PathLike[str], *, model: Model | None = None, cluster: Cluster | None = None) -> Moment:
    """Read what :func:`write` wrote.

    Raises
    ------
    InputError
        Not such a file, or a field that does not fit.
    """
    with context(str(path)):
        try:
            document = yaml.safe_load(Path(path).read_text("utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InputError(f"not a readable session: {' '.join(str(error).split())}") from error
        if not isinstance(document, dict) or document.get("proteus_session") != VERSION:
            raise InputError(f"not a saved session: it must begin with proteus_session: {VERSION}")
        return Moment(
            model=model or _model(document.get("model")),
            cluster=cluster or _cluster(document.get("cluster")),
            settings=Settings.from_dict(_mapping(document, "settings")),
            edits=tuple(_edit(entry) for entry in document.get("edits") or ()),
        )


def _named(cluster: Cluster) -> dict[str, Any]:
    preset = preset_of(cluster)
    if preset is None:
        return {"own": cluster.name}
    return {"name": preset.name, "nodes": preset.nodes, **({"gpu": preset.gpu} if preset.gpu else {})}


def _model_named(model: Model) -> str | dict[str, Any]:
    if is_built_in(model):
        return model.name
    if model.lora is not None and model.base is not None and is_built_in(model.base):
        return {"name": model.name, "lora": plain(model.lora)}
    return {"own": model.name}


def _model(entry: Any) -> Model:
    match entry:
        case str(name):
            return pt.models.load(name)
        case {"name": str(name), "lora": {"rank": int()} as told}:
            fields: dict[str, Any] = {str(key): tuple(v) if isinstance(v, list) else v for key, v in told.items()}
            try:
                return pt.with_lora(pt.models.load(name), pt.Lora(**fields))
            except TypeError as error:
                raise InputError(f"model: lora: {error}") from error
        case {"own": name}:
            raise InputError(f"model: {name!r} is not built in; load it and pass model=")
        case _:
            raise InputError(f"model: {entry!r} is not a name")


def _mapping(document: dict[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    if not isinstance(value, dict):
        raise InputError(f"{name}: {value!r} is not a mapping")
    return value


def _cluster(entry: Any) -> Cluster:
    match entry:
        case {"name": str(name), "nodes": int(nodes), **more}:
            gpu = more.get("gpu")
            return Preset(name=name, nodes=nodes, gpu=None if gpu is None else str(gpu)).load()
        case {"own": name}:
            raise InputError(f"cluster: {name!r} is not built in, or was changed; load it and pass cluster=")
        case _:
            raise InputError(f"cluster: {entry!r} must have a name and a number of nodes")


def _edit(entry: Any) -> tuple[str, NodeConfig]:
    match entry:
        case {"path": str(path), **others}:
            rest: dict[str, Any] = {str(name): value for name, value in others.items()}
        case _:
            raise InputError(f"edits: {entry!r} has no path")
    unknown = set(rest) - {"partition", "memory", "recompute", "exchange", "frozen"}
    if unknown:
        raise InputError(f"edits: {path}: unknown field {sorted(unknown)[0]!r}")
    try:
        partition = None if "partition" not in rest else {d: tuple(axes) for d, axes in rest["partition"].items()}
        memory = None if "memory" not in rest else {role: _memory(kept) for role, kept in rest["memory"].items()}
    except (AttributeError, TypeError) as error:
        raise InputError(f"edits: {path}: {error}") from error
    return path, NodeConfig(
        partition=partition,
        memory=memory,
        recompute=rest.get("recompute"),
        exchange=rest.get("exchange"),
        frozen=rest.get("frozen"),
    )


def _memory(kept: dict[str, Any]) -> Memory:
    return Memory(axes=tuple(kept.get("axes", ())), offload=bool(kept.get("offload", False)))
