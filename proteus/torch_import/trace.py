"""From a module to the nodes of its training forward, by ``torch.export``; nothing is computed or allocated."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from proteus.errors import ModelError

Loss = Literal["cross_entropy", "mse"] | Callable[..., Any]
#: where the module itself stands in the one that also computes the loss
_INNER = "module"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A traced module.

    Parameters
    ----------
    nodes
        Calls, in the order in which they run.
    parameters
        Path and parameter of each placeholder that is one; a shared parameter has the first of its paths.
    inputs
        Placeholders of the example inputs, in order.
    output
        The node whose value is trained on.
    batch
        Samples of the example inputs.
    """

    nodes: tuple[fx.Node, ...]
    parameters: Mapping[fx.Node, tuple[str, nn.Parameter]]
    inputs: tuple[fx.Node, ...]
    output: fx.Node
    batch: int


class _WithLoss(nn.Module):
    """A module whose output goes through the caller's loss, which also sees the inputs."""

    def __init__(self, module: nn.Module, loss: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self._loss = module, loss

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._loss(self.module(*args, **kwargs), *args, *kwargs.values())


def trace(module: nn.Module, example_inputs: Any, loss: Loss | None) -> Trace:
    """The training forward of `module` on `example_inputs`.

    Raises
    ------
    ModelError
        The module's control flow depends on data, or its example inputs do not fit it.
    """
    args, kwargs = _arguments(example_inputs)
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    (args, kwargs), batch = _samples((args, kwargs), device)
    whole = _WithLoss(module, loss) if callable(loss) else module
    modes = {child: child.training for child in whole.modules()}
    try:
        whole.train()
        with _quiet():
            program = torch.export.export(whole, args, kwargs, strict=False)
    except Exception as error:
        raise ModelError(_refusal(module, error)) from error
    finally:
        for child, mode in modes.items():
            child.training = mode
    signature = program.graph_signature
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    prefix = f"{_INNER}." if whole is not module else ""
    named = dict(whole.named_parameters(remove_duplicate=False))
    first = {id(p): path for path, p in reversed(list(named.items()))}
    parameters = {
        placeholders[name]: (first[id(named[path])].removeprefix(prefix), named[path])
        for name, path in signature.inputs_to_parameters.items()
    }
    nodes = tuple(node for node in program.graph.nodes if node.op == "call_function")
    for node in nodes:
        node.meta["path"] = _path(node, prefix)
    (last,) = (node for node in program.graph.nodes if node.op == "output")
    user = [out for out in last.args[0] if isinstance(out, fx.Node) and out.name in signature.user_outputs]
    return Trace(
        nodes=nodes,
        parameters=parameters,
        inputs=tuple(placeholders[name] for name in signature.user_inputs if name in placeholders),
        output=_trained(user, type(module).__name__),
        batch=batch,
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What torch prints while it traces is said again, shorter, where it matters: in the error."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


def _samples(inputs: Any, device: torch.device) -> tuple[Any, int]:
    """The inputs on the module's device, two samples where there was one: a dim of size 1 leaves no trace."""
    tensors = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    if not tensors:
        raise ModelError("from_torch: example_inputs hold no tensor; give what forward takes, for example (tokens,)")
    if not tensors[0].dim():
        raise ModelError("from_torch: the first example input is a scalar; its first dim must be the batch")
    batch = tensors[0].shape[0]

    def ready(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if batch == 1 and leaf.dim() and leaf.shape[0] == 1:
            leaf = leaf.detach().expand(2, *leaf.shape[1:])
        return leaf.detach().to(device)

    return pytree.tree_map(ready, inputs), max(batch, 2)


def _path(node: fx.Node, prefix: str) -> str:
    """Path of the module that a node belongs to."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    path = re.sub(r"@\d+", "", path).removeprefix("L['self']").removeprefix(".")
    return path.removeprefix(prefix) if path != _INNER or not prefix else ""


def _trained(outputs: Sequence[fx.Node], name: str) -> fx.Node:
    """The output that is trained on: a scalar where there is one, as Hugging Face returns its loss, else the first."""
    values = [out for out in outputs if isinstance(out.meta.get("val"), torch.Tensor)]
    scalars = [out for out in values if not out.meta["val"].dim() and out.meta["val"].is_floating_point()]
    if not values:
        raise ModelError(f"from_torch: {name} returns no tensor; return the loss, or what it is computed from")
    return (scalars or values)[0]


#: how a trace ends where a Python number, shape or branch would depend on a tensor's content
_DATA = re.compile(
    r"data-dependent|GuardOnDataDependent|DataDependent|unbacked|Cannot call (item|numpy)|meta tensors", re.I
)


def _refusal(module: nn.Module, error: Exception) -> str:
    name, text = type(module).__name__, str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    where = _line_of(error, text)
    if _DATA.search(text) or _DATA.search(type(error).__name__):
        return (
            f"from_torch: {name}: control flow depends on the content of a tensor{where}: {first}; a graph has one "
            "path: route by a fixed rule (every expert a fixed share of the tokens), or use torch.cond or torch.where"
        )
    return f"from_torch: {name} does not run on the example inputs{where}: {first}"


def _line_of(error: Exception, text: str) -> str:
    """File and line of the user's code, the innermost that is not torch's."""
    frames = []
    at: BaseException | None = error
    while at is not None:
        step = at.__traceback__
        while step is not None:
            frames.append((step.tb_frame.f_code.co_filename, step.tb_lineno))
            step = step.tb_next
        at = at.__cause__ or at.__context__
    frames += [(file, int(line)) for file, line in re.findall(r'File "([^"]+)", line (\d+)', text)]
    own = [(f, n) for f, n in frames if "/torch/" not in f and "/proteus/" not in f and not f.startswith("<")]
    own = [pair for pair in own if "importlib" not in pair[0]]
    return f" at {own[-1][0].rpartition('/')[2]}:{own[-1][1]}" if own else ""
