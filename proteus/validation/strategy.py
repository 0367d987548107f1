"""The plan of a published run: its columns in terms of :class:`proteus.Plan`."""

from __future__ import annotations

import re
from typing import Any

from proteus import Plan, frameworks
from proteus.errors import StrategyError
from proteus.frameworks import Framework
from proteus.hardware import Gpu
from proteus.validation import words
from proteus.validation.machines import DEFAULT_GPUS_PER_NODE
from proteus.validation.runs import Run
from proteus.validation.settings import Settings

#: a run that says flash attention where its framework runs none, and Transformer Engine on its own choice
FLASH, ENGINE = "flash2", "megatron-core"
#: kernels that keep the scores, the first of which a framework that falls back on runs without flash attention
KEEPS_SCORES = ("fused_softmax", "unfused", "unfused_fp32")


def plan_of(run: Run, run_settings: Settings, gpu: Gpu, assumed: list[str]) -> Plan:
    """What a run says of its strategy; all else is left to its framework and to Proteus.

    Raises
    ------
    StrategyError
        The row contradicts itself, or has a word that is not understood.
    """
    name, framework = framework_of(run, run_settings, assumed)
    changes = dict(run_settings.framework)
    plan = _degrees(run)
    for column in (_precision, _zero, _recompute, _overlap):
        plan |= column(run, changes)
    plan |= _attention(run, framework, gpu, changes)
    plan |= _pipeline(run, framework, assumed)
    if run.sequence_parallel is not None and plan["tp"] > 1:
        plan["sequence_parallel"] = run.sequence_parallel
    if run.task == "lora":
        plan |= _adapters(framework, name, run_settings, assumed)
    plan |= run_settings.plan
    if plan.get("zero", 1) == 0:
        plan.pop("shard", None)
    plan["framework"] = changed(framework, changes).text if changes or name is not None else None
    return Plan.of({key: value for key, value in plan.items() if value is not None})


def framework_of(run: Run, run_settings: Settings, assumed: list[str]) -> tuple[str | None, Framework]:
    """(text of the framework that a row names, or None; what is consulted for what it leaves open)."""
    named = run_settings.plan.get("framework")
    if named is not None:
        framework = frameworks.load(named)
        return framework.text, framework
    known = frameworks.find(run.framework, run.version)
    if known is None:
        default = frameworks.load()
        problem = f"framework {run.framework!r} is not known" if run.framework else "no framework is stated"
        assumed.append(f"{problem}: {default.name}, which its software may differ from")
        return None, default
    return known.text, known


def changed(framework: Framework, changes: dict[str, Any]) -> Framework:
    """The framework with facts and fields that a row states."""
    facts = {name: value for name, value in changes.items() if name in frameworks.FACTS}
    fields = {name: value for name, value in changes.items() if name not in frameworks.FACTS}
    return framework.given(**facts).but(**fields)


def _degrees(run: Run) -> dict[str, Any]:
    tp, pp, cp, ep = run.tp or 1, run.pp or 1, run.cp or 1, run.ep or 1
    num_gpus = run.num_gpus or 1
    dp = run.dp or max(1, num_gpus // (tp * pp * cp))
    if dp * tp * pp * cp != num_gpus:
        raise StrategyError(f"dp {dp} x tp {tp} x pp {pp} x cp {cp} is not {num_gpus} GPUs")
    if run.global_batch is None:
        raise StrategyError("the global batch is not stated")
    if ep > 1 and not run.experts:
        raise StrategyError(f"expert parallel degree {ep} of a model without experts")
    degrees = {"dp": dp, "tp": tp, "pp": pp, "cp": cp, "ep": ep}
    etp = run.expert_tp
    if etp is None and run.experts and dp * tp * cp % (ep * tp):
        etp = 1  # the ranks of a stage do not allow the tensor degree of all else: the experts are whole
    return {**degrees, "etp": etp, "micro_batch": run.micro_batch, "global_batch": run.global_batch}


def _precision(run: Run, changes: dict[str, Any]) -> dict[str, Any]:
    if not run.precision:
        return {}
    meaning = words.read("precision", run.precision).meaning
    changes |= {key: value for key, value in meaning.framework.items() if key not in changes}
    return dict(meaning.plan)


def _zero(run: Run, changes: dict[str, Any]) -> dict[str, Any]:
    if not run.zero:
        return {}
    text, offload = words.without_offload(run.zero)
    word = words.read("zero_stage", text)
    changes |= {key: value for key, value in word.meaning.framework.items() if key not in changes}
    plan, special = word.said(), word.meaning.special
    size = int(word.parts.get("size", 0))
    if special in ("stage", "group"):
        plan["zero"] = int(word.parts["stage"])
    elif special == "host":
        plan["zero"] = 3
        size = size or max(1, (run.gpus_per_node or DEFAULT_GPUS_PER_NODE) // (run.tp or 1))
    elif special == "fsdp group":
        plan["zero"] = 3
    if 0 < size < _degrees(run)["dp"]:
        plan["shard"] = size
    return plan | ({"offload": offload} if offload else {})


def _recompute(run: Run, changes: dict[str, Any]) -> dict[str, Any]:
    if not run.recompute:
        return {}
    text, offload = words.without_offload(run.recompute)
    word = words.read("recompute", text)
    plan, special = word.said(), word.meaning.special
    if special == "every second layer":
        if run.layers is None:
            raise StrategyError("every second layer runs again, and the layers are not stated")
        plan = {"recompute": "full", "recompute_layers": -(-run.layers // 2 // (run.pp or 1))}
    elif special == "modules":
        plan = _modules(word.parts.get("modules") or word.parts["more"])
    if text != run.recompute:
        plan["offload"] = offload or ("activation",)
    return plan


def _modules(text: str) -> dict[str, Any]:
    """Recomputation of a list of Megatron-Core's modules, of which core attention is a mode of its own."""
    rest = ", ".join(word for word in re.split(r"[,\s]+", text) if word != "core_attn")
    recompute = "selective" if "core_attn" in text else "none"
    return {"recompute": recompute, "recompute_modules": words.modules(rest) if rest else ()}


def _overlap(run: Run, changes: dict[str, Any]) -> dict[str, Any]:
    plan: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in run.overlap.split(","))):
        plan |= words.read("comm_overlap", part).meaning.plan
    return plan


def _attention(run: Run, framework: Framework, gpu: Gpu, changes: dict[str, Any]) -> dict[str, Any]:
    if not run.attention:
        return {}
    word = words.read("flash_attention", run.attention)
    if word.parts.get("rms"):
        changes.setdefault("norm", "tuned")
    special = word.meaning.special
    if special == "flash":
        return {} if framework.flash else {"attention": FLASH}
    if special == "no flash":
        kept = (*framework.fallback_attention, "unfused")
        return {"attention": next(name for name in kept if name in KEEPS_SCORES)} if framework.flash else {}
    if special == "transformer engine":
        return {"attention": frameworks.load(ENGINE).on(gpu).framework.attention}
    return word.said()


def _pipeline(run: Run, framework: Framework, assumed: list[str]) -> dict[str, Any]:
    if (run.pp or 1) == 1:
        return {}
    text = words.squeezed(run.schedule)
    word = words.read("pp_schedule", text)
    plan = word.said()
    schedule = plan.get("schedule", "1f1b")
    if schedule in ("1f1b", "interleaved"):
        virtual = run.virtual_stages
        if virtual is None and schedule == "1f1b" and (text or "virtual_stages" not in framework.defaults):
            virtual = 1
        if virtual is None and schedule == "interleaved":
            assumed.append("virtual stages of the interleaved schedule are not stated")
        plan["virtual_stages"] = virtual
    return plan


def _adapters(framework: Framework, name: str | None, run_settings: Settings, assumed: list[str]) -> dict[str, Any]:
    if "lora" in run_settings.plan:
        return {}
    recipes = framework.recipes
    if name is None or "lora_rank" not in recipes:
        raise StrategyError(f"the adapters of {name or 'an unknown framework'} are not known; "
                            "their rank and places are not stated")  # fmt: skip
    targets = recipes.get("lora_targets", ())
    assumed.append(f"adapters of rank {recipes['lora_rank']} on {', '.join(targets) or 'every GEMM'}")
    return {"lora": recipes["lora_rank"], "lora_targets": targets or None}


#: fields of the plan that a framework or Proteus decides and that are told with a row
_TOLD = (
    "precision", "micro_batch", "zero", "sequence_parallel", "recompute", "attention", "virtual_stages", "pipeline_cut",
    "context", "overlap_gradients",
)  # fmt: skip
_NEEDS = {"sequence_parallel": "tp", "virtual_stages": "pp", "pipeline_cut": "pp", "context": "cp", "zero": "dp"}


def told(decided: Any) -> list[str]:
    """What the run did not say and who decided it, one line each for the framework and for Proteus.

    Parameters
    ----------
    decided
        ``tree.decided``.
    """
    lines = []
    for who, whose in (("framework", f"defaults of {decided.framework.text}"), ("proteus", "defaults of Proteus")):
        parts = []
        for name in _TOLD:
            decision, needs = decided[name], _NEEDS.get(name)
            if decision.who == who and decision.value is not None and (needs is None or decided.value(needs) != 1):
                parts.append(f"{name} {decision.value}".lower())
        if parts:
            lines.append(f"{', '.join(parts)}: {whose}")
    return lines
