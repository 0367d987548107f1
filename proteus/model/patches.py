"""How a vision transformer turns an image into tokens."""

from __future__ import annotations

from proteus.errors import ModelError
from proteus.model.builder import BlockBuilder
from proteus.model.graph import Block, OpKind
from proteus.model.layer import add_dropout
from proteus.model.spec import Patches, TransformerSpec

_TOKENS = "batch seq hidden"


def patch_embedding(spec: TransformerSpec, patches: Patches) -> Block:
    """A strided convolution, a class token in front, learned positions."""
    side = patches.side
    if spec.seq != side * side + 1:
        raise ModelError(
            f"{spec.name}: seq={spec.seq}, but a {patches.image} px image in patches of {patches.patch} px "
            f"gives {side * side} tokens and one class token; leave seq out"
        )
    sizes = spec.dims() | {"channels": patches.channels, "height": patches.image, "width": patches.image}
    sizes |= {"rows": side, "columns": side, "kernel_h": patches.patch, "kernel_w": patches.patch}
    sizes |= {"patches": side * side, "positions": spec.positions or spec.seq}
    b = BlockBuilder("embedding", sizes, indexed=False)
    image = b.data("image", "batch channels height width")
    weight = b.parameter("patch.weight", "hidden channels kernel_h kernel_w")
    grid = b.op(
        "patch",
        OpKind.CONV2D,
        "batch hidden | channels | height width rows columns kernel_h kernel_w",
        [image, weight],
        "batch hidden rows columns",
        saves=[image],
        attrs={
            "kernel": (patches.patch, patches.patch),
            "stride": (patches.patch, patches.patch),
            "padding": (0, 0),
        },
    )
    bias = b.parameter("patch.bias", "hidden")
    grid = b.op("patch_bias", OpKind.ADD, "batch hidden rows columns", [grid, bias], "batch hidden rows columns")
    flat = b.op(
        "flatten",
        OpKind.RESHAPE,
        "batch hidden | | rows columns patches",
        [grid],
        "batch patches hidden",
        attrs={"merge": {"patches": ("rows", "columns")}},
    )
    token = b.parameter("class_token", "hidden")
    x = b.op("join", OpKind.CONCAT, "batch hidden | | patches seq", [token, flat], _TOKENS, attrs={"dim": "seq"})
    table = b.parameter("position.weight", "positions hidden")
    x = b.op("position", OpKind.POSITION, f"{_TOKENS} | | positions", [x, table], _TOKENS)
    if spec.dropout:
        x = add_dropout(b, "dropout", x, spec.dropout)
    return b.build([x])
