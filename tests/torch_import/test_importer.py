"""Imported modules are the modules: parameters, FLOP, numbers, and the zoo's own graph where it has the same model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as fn
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import proteus as pt
from proteus.errors import ModelError
from proteus.model.graph import Model, OpKind
from proteus.torch_import.importer import from_torch
from proteus.verify import verify
from proteus.verify.problem import make_problem
from proteus.verify.reference import undivided
from tests.torch_import import modules as m

CLUSTER = pt.clusters.load("dgx-a100", nodes=1)


def ids(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.long)


#: module, example inputs and loss of every kind of module, at full or at small widths
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...], str | None]] = {
    "llama": (lambda: m.Llama(2, 256, 8, 2, 512, 1000), (ids(2, 64), ids(2, 64)), None),
    "llama written": (lambda: m.Llama(2, 256, 8, 2, 512, 1000, written=True), (ids(2, 64), ids(2, 64)), None),
    "gpt2": (lambda: m.Gpt2(2), (ids(2, 128), ids(2, 128)), None),
    "bert": (lambda: m.Bert(2), (ids(2, 128),) * 3, None),
    "vit": (lambda: m.Vit(2), (torch.zeros(2, 3, 224, 224),), "cross_entropy"),
    "resnet": (m.Resnet, (torch.zeros(2, 3, 224, 224),), "cross_entropy"),
    "mixer": (m.Mixer, (torch.zeros(2, 3, 224, 224),), "cross_entropy"),
    "one key head": (m.OneKeyHead, (ids(2, 64),), "cross_entropy"),
    "two towers": (m.TwoTowers, (ids(2, 7), ids(2), torch.zeros(2)), None),
    "encoder-decoder": (m.EncoderDecoder, (ids(2, 16), ids(2, 24)), "cross_entropy"),
    "recurrent": (m.Recurrent, (ids(2, 16),), "cross_entropy"),
    "unet": (m.UNet, (torch.zeros(2, 3, 64, 64),), "cross_entropy"),
    "dense experts": (m.DenseExperts, (torch.zeros(2, 16, 64),), "mse"),
}


def imported(name: str) -> tuple[nn.Module, Model]:
    make, inputs, loss = CASES[name]
    with torch.device("meta"):
        module = make()
    return module, from_torch(module, inputs, loss=loss)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_parameters_and_flop_are_those_of_pytorch(name: str) -> None:
    module, model = imported(name)
    assert model.num_params == sum(p.numel() for p in module.parameters())
    inputs = CASES[name][1]
    # the meta device has no flash attention; the operators that it is made of are counted
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*(x.to("meta") for x in inputs))
    assert model.flop() == pytest.approx(counter.get_total_flops() / inputs[0].shape[0], rel=0.005)


@pytest.mark.parametrize("name", CASES)
def test_every_model_is_simulated(name: str) -> None:
    _, model = imported(name)
    result = pt.simulate(pt.StrategyTree(model).parallelize(dp=4, zero=3, micro_batch=1, global_batch=4), CLUSTER)
    assert result.step_time_s > 0


ZOO: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...], str | None, Callable[[], Model]]] = {
    "llama": (m.Llama, (ids(1, 8192),) * 2, None, lambda: pt.models.load("llama3-8b", seq=8192)),
    "llama written": (
        lambda: m.Llama(written=True), (ids(1, 2048),) * 2, None, lambda: pt.models.load("llama3-8b", seq=2048),
    ),
    "gpt2": (m.Gpt2, (ids(1, 1024),) * 2, None, lambda: pt.models.load("gpt2")),
    "bert": (m.Bert, (ids(1, 512),) * 3, None, lambda: pt.models.load("bert-base", head="mlm", predictions=None)),
    "vit": (m.Vit, (torch.zeros(1, 3, 224, 224),), "cross_entropy", lambda: pt.models.load("vit-b/16")),
    "resnet": (m.Resnet, (torch.zeros(1, 3, 224, 224),), "cross_entropy", lambda: pt.models.load("resnet50")),
}  # fmt: skip
PLANS: tuple[dict[str, Any], ...] = (
    {"dp": 8, "zero": 3},
    {"dp": 2, "tp": 4, "sequence_parallel": True, "zero": 1},
    {"dp": 2, "tp": 2, "pp": 2, "recompute": "full"},
    {"dp": 4, "pp": 2, "recompute": "selective"},
    {"dp": 4, "tp": 2, "framework": "torchtitan"},
)


@pytest.mark.parametrize("name", ZOO)
def test_step_time_and_memory_are_those_of_the_zoo(name: str) -> None:
    make, inputs, loss, load = ZOO[name]
    with torch.device("meta"):
        model = from_torch(make(), inputs, loss=loss)  # type: ignore[arg-type]
    zoo = load()
    assert model.num_params == zoo.num_params
    assert model.flop() == pytest.approx(zoo.flop())
    for plan in PLANS if name != "resnet" else ({"dp": 8}, {"dp": 8, "framework": "torchtitan"}, {"dp": 4, "pp": 2}):
        ours, theirs = (
            pt.simulate(pt.StrategyTree(of).parallelize(micro_batch=2, global_batch=16, **plan), CLUSTER)
            for of in (model, zoo)
        )
        assert ours.step_time_s == pytest.approx(theirs.step_time_s, rel=0.02), plan
        assert ours.peak_memory_bytes == pytest.approx(theirs.peak_memory_bytes, rel=0.02), plan


#: small modules in float64 without dropout, and how they are called on the data of a problem
NUMBERS: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...], str | None]] = {
    "llama": (lambda: m.Llama(2, 32, 4, 2, 48, 50), (ids(2, 8),) * 2, None),
    "llama written": (lambda: m.Llama(2, 32, 4, 2, 48, 50, written=True), (ids(2, 8),) * 2, None),
    "bert": (lambda: m.Bert(2, 32, 4, 50, 8, 0.0), (ids(2, 8),) * 3, None),
    "vit": (lambda: m.Vit(2, 32, 4, 16, 4, 10), (torch.zeros(2, 3, 16, 16),), "cross_entropy"),
    "resnet": (lambda: m.Resnet(10, (2, 1, 1, 1), 4), (torch.zeros(2, 3, 32, 32),), "cross_entropy"),
    "mixer": (lambda: m.Mixer(2, 16, 4, 8, 10), (torch.zeros(2, 3, 8, 8),), "cross_entropy"),
    "one key head": (lambda: m.OneKeyHead(2, 32, 4, 50), (ids(2, 8),), "cross_entropy"),
}


def small(name: str) -> tuple[nn.Module, Model]:
    make, inputs, loss = NUMBERS[name]
    module = make().double()
    doubled = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    return module, from_torch(module, doubled, loss=loss)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NUMBERS)
def test_the_graph_computes_what_the_module_does(name: str) -> None:
    """Loss and gradients of the undivided graph are the module's own, on the same parameters and data."""
    module, model = small(name)
    problem = make_problem(model, 2, seed=0)
    outcome = undivided(problem, "sgd")
    path_of = own_paths(model)
    of_module = {path_of[path]: value for path, value in problem.parameters.items()}
    gradients = {path_of[path]: value for path, value in outcome.gradients.items()}
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for path, parameter in parameters.items():
            parameter.copy_(whole(of_module, path, parameter))
    data = {tensor: value for (_, tensor), value in problem.data.items()}
    named = [data[name] for name in ("ids", "types", "image") if name in data]
    if CASES[name][2] is None:
        loss = module(*named, data["labels"])
    else:
        logits = module(*named)
        loss = fn.cross_entropy(logits.flatten(0, -2), data["labels"].flatten())
    loss.backward()
    assert float(loss.detach()) == pytest.approx(outcome.loss, abs=1e-9)
    for path, parameter in parameters.items():
        assert parameter.grad is not None
        assert float((whole(gradients, path, parameter) - parameter.grad).abs().max()) < 1e-9, path


def own_paths(model: Model) -> dict[str, str]:
    """The module's path of every parameter of the model: blocks that are no layers have a name of ours in front."""
    names = [block.name for block in model.blocks if not block.indexed]
    return {
        path: next((path.removeprefix(f"{name}.") for name in names if path.startswith(f"{name}.")), path)
        for path in model.parameter_paths()
    }


def whole(values: dict[str, Tensor], path: str, like: Tensor) -> Tensor:
    """A parameter from its dims or, where a product was split, from its parts."""
    if path in values:
        return values[path].reshape(like.shape)
    parts = [values[name] for name in sorted(values) if name.startswith(f"{path}.")]
    return torch.cat([part.reshape(-1, *like.shape[1:]) for part in parts]).reshape(like.shape)


@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "resnet"])
@pytest.mark.parametrize(
    "plan",
    [
        {"dp": 2, "tp": 2, "zero": 3},
        {"tp": 2, "pp": 2, "sequence_parallel": True},
        {"dp": 2, "recompute": "full", "zero": 2},
    ],
    ids=str,
)
def test_cut_models_train_like_the_undivided(name: str, plan: dict[str, Any]) -> None:
    _, model = small(name)
    found = verify(pt.StrategyTree(model).parallelize(micro_batch=1, global_batch=4, **plan))
    assert found.equal, found


def test_layers_are_one_block_with_the_module_s_paths() -> None:
    _, model = imported("llama")
    assert [(block.name, block.count) for block in model.blocks] == [("embedding", 1), ("layers", 2), ("head", 1)]
    layer = model.blocks[1]
    assert [op.name for op in layer.ops] == [
        "input_layernorm", "self_attn.qkv", "self_attn.core", "self_attn.o_proj", "add",
        "post_attention_layernorm", "mlp.gate_up", "mlp.silu", "mlp.down_proj", "add_2",
    ]  # fmt: skip
    assert {"batch", "seq", "hidden", "kv_heads", "q_per_kv", "head_dim", "ffn"} <= set(layer.dims)
    core = next(op for op in layer.ops if op.kind is OpKind.ATTENTION)
    assert core.attrs["causal"] and core.attrs["rope"]
    assert model.assumptions == ()


def test_a_shared_weight_is_one_parameter() -> None:
    _, model = imported("gpt2")
    assert model.blocks[-1].tensors["wte.weight"].tied_to == "embedding.wte.weight"


def test_a_batch_of_one_is_a_batch() -> None:
    with torch.device("meta"):
        module = m.Gpt2(1, 64, 4, 100, 32)
    assert from_torch(module, (ids(1, 32), ids(1, 32))) == from_torch(module, (ids(4, 32), ids(4, 32)))


def test_what_is_not_understood_is_said_and_cut_along_the_batch_alone() -> None:
    _, model = imported("recurrent")
    assert any(said.startswith("gru (gru) is costed by FLOP and bytes alone") for said in model.assumptions)
    opaque = [op for block in model.blocks for op in block.ops if op.kind is OpKind.OPAQUE]
    assert opaque
    for op in opaque:
        assert [dim for dim, row in op.dims.items() if row.role.value == "parallel"] == ["batch"]
        assert op.flop() > 0
    with pytest.raises(ModelError, match="imported by its cost alone and cannot be run"):
        verify(pt.StrategyTree(model).parallelize(dp=2))


def test_dims_are_renamed_and_inputs_named() -> None:
    with torch.device("meta"):
        module = m.Mixer(2, 32, 4, 16)
    image = torch.zeros(2, 3, 16, 16)
    model = from_torch(module, (image,), loss="cross_entropy", dims={"ffn": "wide"})
    assert "wide" in model.blocks[1].dims
    with pytest.raises(ModelError, match="no dim is called 'depth'"):
        from_torch(module, (image,), loss="cross_entropy", dims={"depth": "deep"})
    with pytest.raises(ModelError, match="it has 4 dims"):
        from_torch(module, (image,), loss="cross_entropy", dims={"image": ("batch",)})


def test_a_loss_may_be_a_function() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(50, 16), nn.Linear(16, 5)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.out(self.embed(tokens))

    tokens = ids(2, 8)
    whole_loss = from_torch(
        Tagger(), tokens, loss=lambda out, given: fn.cross_entropy(out.flatten(0, 1), given.flatten())
    )
    assert [block.num_params() for block in whole_loss.blocks] == [50 * 16 + 16 * 5 + 5]
    assert from_torch(Tagger(), tokens, loss="cross_entropy").flop() == whole_loss.flop()
    guessed = from_torch(Tagger(), {"tokens": tokens})
    assert "mean squared error of its output was added" in guessed.assumptions[0]


def test_frozen_and_unused_parameters_are_said() -> None:
    module = m.Mixer(1, 32, 4, 16)
    module.stem.weight.requires_grad_(False)
    module.spare = nn.Linear(4, 4)
    model = from_torch(module, torch.zeros(2, 3, 16, 16), loss="cross_entropy")
    assert any(said.startswith("1 parameters are frozen in the module (stem.weight") for said in model.assumptions)
    assert any(said.startswith("20 parameters are never used") for said in model.assumptions)


def test_control_flow_by_data_is_refused_with_its_line() -> None:
    with pytest.raises(
        ModelError, match=r"control flow depends on the content of a tensor at modules.py:\d+"
    ) as raised:
        from_torch(m.RoutedExperts(), torch.zeros(2, 16, 64), loss="mse")
    assert "torch.cond" in str(raised.value)


@pytest.mark.parametrize(
    ("module", "inputs", "message"),
    [
        (nn.Linear, torch.zeros(2, 4), "give a torch.nn.Module"),
        (nn.Linear(4, 4), (), "hold no tensor"),
        (nn.Linear(4, 4), torch.zeros(2, 5), "does not run on the example inputs"),
        (nn.ReLU(), torch.zeros(2, 5), "depends on no parameter"),
    ],
    ids=["a class", "no inputs", "a wrong shape", "nothing to train"],
)
def test_errors_teach(module: Any, inputs: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        from_torch(module, inputs, loss="mse")


def test_a_loss_that_is_there_takes_no_other() -> None:
    with pytest.raises(ModelError, match="leave loss out"):
        from_torch(m.TwoTowers(), CASES["two towers"][1], loss="mse")


def test_the_module_is_left_as_it_was() -> None:
    module = m.Gpt2(1, 64, 4, 100, 32).eval()
    from_torch(module, (ids(2, 16),) * 2)
    assert not any(child.training for child in module.modules())


def test_another_length_is_refused_where_a_scan_fixed_it() -> None:
    _, model = imported("llama")
    assert model.with_seq(32).flop() < model.flop()
    _, model = imported("recurrent")
    with pytest.raises(ModelError, match="makes the sequence in"):
        model.with_seq(32)
