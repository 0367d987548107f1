"""Primus YAML: an experiment whose module hands Megatron's or torchtitan's keys on.

Names: AMD-AGI/Primus ``examples/*/configs`` and the pages "configuration
reference" of rocm.docs.amd.com/projects/primus.
"""

from __future__ import annotations

import re
from dataclasses import replace

from proteus.launch import megatron, torchtitan
from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch
from proteus.model import zoo

_AT = "modules.pre_trainer."
_IGNORED = (
    "work_group",
    "user_name",
    "exp_name",
    "workspace",
    f"{_AT}config",
    "platform.*",
    "stderr_sink_level",
    "wandb_project",
)


def recognises(document: Document) -> bool:
    module = document.section("modules").get("pre_trainer")
    return isinstance(module, dict) and "framework" in module and "overrides" in module


def read(document: Document, world_size: int | None) -> Launch:
    framework = str(document.section("modules")["pre_trainer"]["framework"]).lower()
    prefix = f"{_AT}overrides."
    entries = tuple(replace(e, value=_default(e.value)) for e in document.entries)
    keys = Keys(entries, document.source, named=lambda name: name.removeprefix(prefix))
    draft = Draft(framework="primus", keys=keys)
    keys.raw(f"{_AT}framework")
    known = zoo.meant(str(keys.raw(f"{_AT}model", default="")).removesuffix(".yaml").removesuffix("-pretrain"))
    if framework == "torchtitan":
        launch = torchtitan.from_keys(draft, world_size)
        return replace(launch, framework="torchtitan")
    megatron.plan(draft)
    seq = keys.whole("seq_length")
    if known is not None:
        draft.architecture = known
        draft.dims = {**zoo.fields(known), **({"seq": seq} if seq else {})}
        draft.model = zoo.load(known, **({"seq": seq} if seq else {}))
    else:
        draft.need("model", "the model is another file of Primus; give the model's name")
    draft.say(seq=seq)
    keys.ignore([*megatron.IGNORED, *_IGNORED])
    return draft.finish(world_size)


def _default(value: object) -> object:
    """``${NAME:default}`` as Primus writes it: the default."""
    match = re.fullmatch(r"\$\{\w+:([^}]*)\}", value) if isinstance(value, str) else None
    return match[1] if match else value
