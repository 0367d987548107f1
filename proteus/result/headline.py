"""What was simulated, in one line, and what stands behind it that the user did not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proteus.strategy.plan import DecidedPlan

if TYPE_CHECKING:
    from proteus.result.result import Result

#: degrees as the headline names them, in its order
_DEGREES = ("dp", "tp", "pp", "cp", "ep", "etp", "virtual_stages")
#: fields whose value is an assumption worth a line where the user did not say it
_ASSUMED = ("precision", "optimizer", "zero", "recompute", "schedule", "overlap_gradients", "attention", "context")


def headline(result: Result) -> str:
    """Model, length, batch, degrees, ZeRO, recomputation, framework and devices, in one line.

    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=8, global_batch=64)
    >>> print(headline(pt.simulate(tree, pt.clusters.load("dgx-a100", nodes=2))))
    gpt2 · seq 1024 · global batch 64, micro-batch 1 · dp 8 · ZeRO 0 · recompute none · megatron-core · 8 of 16 devices
    """
    plan, training = result.plan, result.tree.training
    parts = [
        result.model.name,
        *([f"seq {result.model.seq}"] if result.model.seq > 1 else []),
        f"global batch {training.global_batch}, micro-batch {training.micro_batch}",
        degrees_text(plan),
        f"ZeRO {plan.value('zero')}",
        f"recompute {recompute_text(plan)}",
        framework_text(plan),
        f"{result.num_devices} of {result.cluster.num_devices} devices",
    ]
    return " · ".join(parts)


def degrees_text(plan: DecidedPlan) -> str:
    """The degrees above 1; dp always.

    >>> from proteus.strategy.plan import Plan, decide
    >>> from proteus.frameworks import load
    >>> degrees_text(decide(Plan(dp=4, tp=2), load("megatron-core")))
    'dp 4 × tp 2'
    """
    names = {"virtual_stages": "v"}
    values = {name: plan.value(name) for name in _DEGREES}
    if values["etp"] == values["tp"]:
        values["etp"] = None
    shown = [f"{names.get(name, name)} {value}" for name, value in values.items() if name == "dp" or (value or 1) != 1]
    return " × ".join(shown)


def framework_text(plan: DecidedPlan) -> str:
    """The framework as the user named it, or the default."""
    framework = plan.value("framework")
    return framework if isinstance(framework, str) else str(framework.text)


def recompute_text(plan: DecidedPlan) -> str:
    """What is recomputed, in a few words."""
    layers, modules = plan.value("recompute_layers"), plan.value("recompute_modules")
    text = f"{plan.value('recompute')}" + (f" in {layers} layers of a stage" if layers else "")
    return f"{text}, {' and '.join(modules)} ops" if modules else text


def idle_warning(result: Result) -> str:
    """Empty where all devices are used, else how many are not and what would use them."""
    idle = result.idle_devices
    if not idle:
        return ""
    there = result.cluster.num_devices
    return f"{idle} of {there} devices are idle; dp='fill' (--dp fill) uses all that the other degrees leave"


def assumptions(result: Result) -> list[str]:
    """What was filled in where the user said nothing, and what was guessed, one line each."""
    plan = result.plan
    framework = plan["framework"]
    lines = []
    if framework.who != "you":
        lines.append(f"framework {framework_text(plan)}: none was named")
    for who, whose in (("framework", f"default of {result.tree.training.framework.name}"), ("proteus", "default")):
        settings = [f"{name} {plan.value(name)}" for name in _ASSUMED if plan[name].who == who]
        settings = [text for text in settings if plan.value("cp") > 1 or not text.startswith("context")]
        if settings:
            lines.append(f"{', '.join(settings)}: {whose}")
    return [
        *lines,
        *result.tree.notes,
        *result.model.assumptions,
        *result.graph.notes,
        *map(str, result.graph.borrowed),
        *result.cluster.warnings,
        *([warning] if (warning := idle_warning(result)) else []),
    ]
