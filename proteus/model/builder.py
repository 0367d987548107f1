"""Writing a block readably: one line per op, its dims spelled by role.

>>> b = BlockBuilder("mlp", {"batch": 1, "seq": 8, "hidden": 16, "ffn": 64}, indexed=False)
>>> x = b.take("x", "batch seq hidden")
>>> w = b.parameter("fc1.weight", "ffn hidden")
>>> y = b.op("fc1", OpKind.LINEAR, "batch seq ffn | hidden", [x, w], "batch seq ffn", saves=[x])
>>> block = b.build([y])
>>> block.ops[0].flop() == 2 * 8 * 16 * 64
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proteus.errors import ModelError
from proteus.model.graph import Block, Dim, Op, Operand, OpKind, Role, Saved, Tensor

#: order of the parts of a roles string, separated by ``|``
_ROLES = (Role.PARALLEL, Role.REDUCTION, Role.INDIVISIBLE)


class BlockBuilder:
    """Collects the tensors and ops of one block, in the order in which they run.

    Parameters
    ----------
    name, count, indexed, first, derived
        As in :class:`~proteus.model.graph.Block`.
    dims
        Sizes of all dims, for one sample.
    """

    def __init__(
        self,
        name: str,
        dims: Mapping[str, int],
        *,
        count: int = 1,
        indexed: bool = True,
        first: int = 0,
        derived: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.name, self.dims = name, dict(dims)
        self._placement = {"count": count, "indexed": indexed, "first": first, "derived": dict(derived or {})}
        self._tensors: dict[str, Tensor] = {}
        self._ops: list[Op] = []
        self._inputs: list[str] = []

    def _add(self, tensor: Tensor) -> str:
        if tensor.name in self._tensors:
            raise ModelError(f"{self.name}: two tensors are named {tensor.name!r}")
        self._tensors[tensor.name] = tensor
        return tensor.name

    def take(self, name: str, dims: str) -> str:
        """An activation handed over by the block before."""
        self._inputs.append(name)
        return self._add(Tensor(name=name, dims=tuple(dims.split())))

    def data(self, name: str, dims: str, dtype: str | None = None) -> str:
        """A tensor of the data loader."""
        return self._add(Tensor(name=name, dims=tuple(dims.split()), kind="input", dtype=dtype))

    def parameter(self, name: str, dims: str, *, tied_to: str | None = None, dtype: str | None = None) -> str:
        return self._add(
            Tensor(name=name, dims=tuple(dims.split()), kind="parameter", tied_to=tied_to, dtype=dtype),
        )

    def saved(self, name: str, dims: str, dtype: str | None = None) -> str:
        """A tensor that an op writes for its own backward alone."""
        return self._add(Tensor(name=name, dims=tuple(dims.split()), kind="saved", dtype=dtype))

    def op(
        self,
        name: str,
        kind: OpKind,
        roles: str,
        inputs: Sequence[str | tuple[str, str]],
        out: str,
        *,
        saves: Iterable[str] = (),
        saves_unfused: Iterable[str] = (),
        selective: bool = False,
        dtype: str | None = None,
        tensor: str | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> str:
        """Add an op with one output, `tensor` or ``<name>.out``, and return the output's name.

        Parameters
        ----------
        roles
            Dims of the op: ``"parallel ... | reduction ... | indivisible ..."``.
        inputs
            Tensors, or ``(tensor, dims)`` where the op indexes it by other
            dims than its own.
        out
            Dims of the output.
        """
        output = self._add(Tensor(name=tensor or f"{name}.out", dims=tuple(out.split()), dtype=dtype))
        self._push(name, kind, roles, inputs, [output], saves, saves_unfused, selective, attrs)
        return output

    def op_many(
        self,
        name: str,
        kind: OpKind,
        roles: str,
        inputs: Sequence[str | tuple[str, str]],
        outs: Mapping[str, str],
        *,
        saves: Iterable[str] = (),
        saves_unfused: Iterable[str] = (),
        selective: bool = False,
        dtype: str | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> tuple[str, ...]:
        """Add an op with the outputs ``<name>.<key>``; `outs` gives their dims."""
        outputs = tuple(
            self._add(Tensor(name=f"{name}.{key}", dims=tuple(spelled.split()), dtype=dtype))
            for key, spelled in outs.items()
        )
        self._push(name, kind, roles, inputs, outputs, saves, saves_unfused, selective, attrs)
        return outputs

    def _push(
        self,
        name: str,
        kind: OpKind,
        roles: str,
        inputs: Sequence[str | tuple[str, str]],
        outputs: Sequence[str],
        saves: Iterable[str],
        saves_unfused: Iterable[str],
        selective: bool,
        attrs: Mapping[str, Any] | None,
    ) -> None:
        dims: dict[str, Dim] = {}
        for role, part in zip(_ROLES, roles.split("|"), strict=False):
            for dim in part.split():
                if dim not in self.dims:
                    raise ModelError(f"{self.name}.{name}: dim {dim!r} has no size")
                dims[dim] = Dim(self.dims[dim], role)
        self._ops.append(
            Op(
                name=name,
                kind=kind,
                dims=dims,
                inputs=tuple(self._operand(item) for item in inputs),
                outputs=tuple(self._operand(item) for item in outputs),
                saves=tuple(Saved(tensor) for tensor in saves),
                saves_unfused=tuple(Saved(tensor) for tensor in saves_unfused),
                attrs=dict(attrs or {}),
                selective=selective,
            )
        )

    def _operand(self, item: str | tuple[str, str]) -> Operand:
        if isinstance(item, tuple):
            return Operand(item[0], tuple(item[1].split()))
        return Operand(item, self._tensors[item].dims)

    def build(self, outputs: Sequence[str] = ()) -> Block:
        """The block, validated."""
        block = Block(
            name=self.name,
            dims=self.dims,
            tensors=self._tensors,
            ops=tuple(self._ops),
            inputs=tuple(self._inputs),
            outputs=tuple(outputs),
            **self._placement,  # type: ignore[arg-type]
        )
        block.validate()
        return block
