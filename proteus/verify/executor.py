"""Runs an execution graph with real numbers, task by task in the order of its timeline.

Every value remembers the task that wrote it.  A task that reads a value must
come after its writer by the graph's own edges and streams, whatever the times
are; a read that only happens to come later is an error, as it would be a race
on real devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from proteus.compiler.graph import ExecutionGraph, Transfer
from proteus.compiler.layout import local_chunk
from proteus.compiler.offload import on_host
from proteus.compiler.program import Accumulate, Compute, Instruction, Move, ProgramPhase
from proteus.compiler.rank_plan import HOST_PARAMETERS, NONE, PIECE
from proteus.compiler.state import ParameterState, StateMove
from proteus.compiler.tables import HOST_COPIES, HostCopy
from proteus.compiler.transfer import handed_tensors, pieces
from proteus.errors import SimulationError
from proteus.htae.tasks import Timeline
from proteus.mesh import Mesh
from proteus.strategy.schedules.pipeline_plan import F
from proteus.verify import moves
from proteus.verify.chunks import Chunks, LinkView, own_chunks
from proteus.verify.flat import FlatSpec, joined
from proteus.verify.noise import Draw, Noise
from proteus.verify.ops import forward, vjp
from proteus.verify.order import run_order
from proteus.verify.problem import UPDATES, Problem
from proteus.verify.rank import BEGINNING, Cell, CopyKey, Rank, State

#: a participant of a task: (rank number, step of its plan)
Participant = tuple[int, int]


class Executor:
    """All ranks of an unfolded graph, and one step of training on them.

    Parameters
    ----------
    graph
        Compiled with ``fold=False``: every rank has tasks of its own.
    problem
        The undivided numbers, of which every rank gets its shards.
    """

    def __init__(self, graph: ExecutionGraph, timeline: Timeline, problem: Problem) -> None:
        self.graph, self.problem = graph, problem
        self.lookup = Chunks(graph)
        self.num_micro = graph.schedule.num_micro_batches
        self.samples = graph.tree.samples_per_micro_batch
        self.gathers_first = graph.tree.training.overlap_parameters
        self.noise = Noise(problem.seed, problem.global_batch)
        self.order, self.ancestors = run_order(graph.tasks, timeline.start_s)
        self.ranks = [self._rank(number) for number in range(len(graph.classes))]
        self.participants: dict[int, list[Participant]] = {}
        for number, rank_class in enumerate(graph.classes):
            for step, task in enumerate(rank_class.task_of.tolist()):
                self.participants.setdefault(task, []).append((number, step))
        self.sends: dict[int, tuple[Transfer, int]] = {
            task: (transfer, micro)
            for transfer in graph.transfers
            for micro, task in enumerate(transfer.tasks.tolist())
        }

    def _rank(self, number: int) -> Rank:
        rank_class = self.graph.classes[number]
        if rank_class.multiplicity != 1:
            raise SimulationError(
                f"device {rank_class.device} stands for {rank_class.multiplicity} ranks; compile with fold=False"
            )
        chunk = own_chunks(self.graph.chunks, rank_class.plan)[0]
        place = rank_class.device - chunk.first_device
        coordinate = tuple(int(c) for c in np.unravel_index(place, chunk.mesh.shape))
        rank = Rank(
            device=rank_class.device,
            place=place,
            coordinate=coordinate,
            by_axis=dict(zip(chunk.mesh.names, coordinate, strict=True)),
            plan=self.graph.plans[rank_class.plan],
        )
        for rank_chunk in own_chunks(self.graph.chunks, rank_class.plan):
            for link in range(len(rank_chunk.links)):
                view = self.lookup.view(rank_chunk.index, link)
                for copy in range(view.link.count):
                    for state in view.parameter_of.values():
                        self._hold(rank, view, copy, state)
        return rank

    def _hold(self, rank: Rank, view: LinkView, copy: int, state: ParameterState) -> None:
        """Give a rank its shard of a parameter."""
        key = view.key(copy, state)
        if key in rank.masters:
            return  # tied to a parameter beside it
        flat = self.flat_spec(view, rank, state).flatten(self.local(view, rank, state, self.problem.parameters[key]))
        rank.masters[key] = State(flat.pick(state.kept["optimizer"], rank.by_axis), (BEGINNING,))
        is_whole = not (self.gathers_first and state.updated_axes)
        weight = State(flat.pick(state.kept["parameter"], rank.by_axis), (BEGINNING,))
        rank.weights[key] = weight if is_whole else None

    def local(self, view: LinkView, rank: Rank, state: ParameterState, whole: Tensor) -> Tensor:
        """A rank's part of a whole parameter (or gradient), as the computation cuts it."""
        dims = view.program.block.tensors[state.parameter.name].dims
        return moves.shard(whole, dims, state.parameter.layout, view.program.mesh, rank.coordinate)

    @staticmethod
    def flat_spec(view: LinkView, rank: Rank, state: ParameterState) -> FlatSpec:
        program = view.program
        dims = program.block.tensors[state.parameter.name].dims
        shape = [
            local_chunk(dim, program.sizes[dim], state.parameter.layout, program.mesh, rank.coordinate)[1]
            for dim in dims
        ]
        axes = {axis for kept in state.kept.values() for axis in kept}
        return FlatSpec.of(program.mesh, tuple(axes), shape)

    # -- the run ------------------------------------------------------------

    def run(self) -> None:
        """Carry out every task."""
        for task in self.order:
            if task in self.sends:
                self._send(task, *self.sends[task])
                continue
            number, step = self.participants[task][0]
            if self.ranks[number].plan.is_comm[step]:
                self._collective(task, self.participants[task])
            else:
                self._segment(task, self.ranks[number], step)

    def _check(self, task: int, writers: Sequence[int], tensor_name: str) -> None:
        known = self.ancestors[task] | (1 << task)
        for writer in writers:
            if writer != BEGINNING and not known >> writer & 1:
                raise SimulationError(
                    f"{self.graph.describe(task)} reads {tensor_name} without waiting for {self.graph.describe(writer)}"
                )

    def _segment(self, task: int, rank: Rank, step: int) -> None:
        plan = rank.plan
        for row in plan.segments[plan.ref[step]]:
            if not row.is_last:
                continue  # the last part of a ring does the numbers of all
            if row.instruction is None:
                self._optimizer(task, rank)
            else:
                key = (int(plan.chunk[step]), int(plan.link[step]), int(plan.copy[step]), int(plan.micro_batch[step]))
                self._instruction(task, rank, key, int(plan.phase[step]), row.instruction)

    def _instruction(self, task: int, rank: Rank, key: CopyKey, phase: int, instruction: Instruction) -> None:
        program = self.lookup.view(*key[:2]).program
        match instruction:
            case Compute():
                for value, data in zip(
                    instruction.outputs, self._computed(task, rank, key, phase, instruction), strict=True
                ):
                    self._write(task, rank, key, phase, value, data)
            case Accumulate():
                total = sum(self._read(task, rank, key, phase, value) for value in instruction.sources)
                assert isinstance(total, Tensor)
                self._write(task, rank, key, phase, instruction.target, total)
            case Move():
                source = self._read(task, rank, key, phase, instruction.source)
                (data,) = moves.moved(
                    instruction.step,
                    program.dims(instruction.source),
                    program.sizes,
                    program.mesh,
                    [rank.coordinate],
                    [source],
                )
                self._write(task, rank, key, phase, instruction.target, data)

    def _computed(self, task: int, rank: Rank, key: CopyKey, phase: int, compute: Compute) -> tuple[Tensor, ...]:
        view = self.lookup.view(*key[:2])
        program, op = view.program, compute.op
        at = self.lookup.place(program, compute, rank.coordinate)
        xs = []
        for value, operand in zip(compute.inputs, op.inputs, strict=True):
            if value >= 0:
                xs.append(self._read(task, rank, key, phase, value))
            else:  # the gradient does not depend on it
                is_ids = program.block.tensors[operand.tensor].dtype == "int64"
                xs.append(torch.zeros(at.shape(operand.dims), dtype=torch.int64 if is_ids else torch.float64))
        draw = Draw(self.noise, f"{view.link.path(key[2])}.{op.name}", key[3] * self.samples)
        if compute.phase in (ProgramPhase.FORWARD, ProgramPhase.RECOMPUTE):
            return forward(op, at, xs, draw)
        grads = [None if v < 0 else self._read(task, rank, key, phase, v) for v in compute.grads_in]
        return vjp(op, at, xs, grads, compute.wanted, draw)

    # -- values -------------------------------------------------------------

    def _read(self, task: int, rank: Rank, key: CopyKey, phase: int, value: int) -> Tensor:
        view = self.lookup.view(*key[:2])
        program = view.program
        if value in view.data:
            return self._data(view, rank, key[3], value)
        if value == program.loss_grad:
            return torch.tensor(1.0 / self.num_micro, dtype=torch.float64)
        if value in view.parameter_of:
            return self._weight(task, rank, key, phase, view.parameter_of[value])
        cells = (rank.forward if phase == F else rank.backward).get(key, {})
        if value not in cells and not math.prod(self._shape(rank, view, value)):
            return torch.zeros(self._shape(rank, view, value), dtype=torch.float64)  # nothing is sent of an empty shard
        if value not in cells:
            item = program.values[value]
            raise SimulationError(
                f"{self.graph.describe(task)} reads {'the gradient of ' if item.is_grad else ''}{item.tensor} of "
                f"{view.link.path(key[2])}, which is not there"
            )
        self._check(task, cells[value].writers, f"{program.values[value].tensor} of {view.link.path(key[2])}")
        return cells[value].data

    def _data(self, view: LinkView, rank: Rank, micro: int, value: int) -> Tensor:
        program = view.program
        name = program.values[value].tensor
        whole = self.problem.data[(program.block.name, name)].narrow(0, micro * self.samples, self.samples)
        return moves.shard(whole, program.dims(value), program.values[value].layout, program.mesh, rank.coordinate)

    def _weight(self, task: int, rank: Rank, key: CopyKey, phase: int, state: ParameterState) -> Tensor:
        view = self.lookup.view(*key[:2])
        name = view.key(key[2], state)
        self._check_fetched(task, rank, key, phase, state, name)
        if state.kept["parameter"]:
            cell = rank.gathered.get((key, phase, name))
            if cell is None:
                raise SimulationError(f"{self.graph.describe(task)} uses {name}, which is not gathered")
            self._check(task, cell.writers, name)
            return cell.data
        held = rank.weights[name]
        if held is None:
            raise SimulationError(f"{self.graph.describe(task)} uses {name} before its update is gathered")
        self._check(task, held.writers, name)
        return held.flat.whole()

    def _write(self, task: int, rank: Rank, key: CopyKey, phase: int, value: int, data: Tensor) -> None:
        view = self.lookup.view(*key[:2])
        program = view.program
        self._check_shape(rank, view, value, data)
        cell = Cell(data, (task,))
        if phase == F and value == program.loss:
            rank.losses[key[3]] = data
        self._put(rank, key, phase, value, cell)
        if value in view.gradient_of and phase != F:
            self._gradient(task, rank, key, view.gradient_of[value], data)

    def _check_shape(self, rank: Rank, view: LinkView, value: int, data: Tensor) -> None:
        item, shape = view.program.values[value], self._shape(rank, view, value)
        if tuple(data.shape) != shape:
            raise SimulationError(
                f"{item.tensor} in {item.layout} has shape {tuple(data.shape)} on device {rank.device}, "
                f"expected {shape}"
            )

    @staticmethod
    def _shape(rank: Rank, view: LinkView, value: int) -> tuple[int, ...]:
        program = view.program
        layout = program.values[value].layout
        return tuple(
            local_chunk(dim, program.sizes[dim], layout, program.mesh, rank.coordinate)[1]
            for dim in program.dims(value)
        )

    def _put(self, rank: Rank, key: CopyKey, phase: int, value: int, cell: Cell) -> None:
        """Store a value, and hand it over where it is an output of the copy."""
        view = self.lookup.view(*key[:2])
        program = view.program
        if phase == F:
            rank.forward.setdefault(key, {})[value] = cell
            if value in view.kept:
                where = rank.leaving if value in view.offloaded else rank.backward
                where.setdefault(key, {})[value] = cell
            after = self.lookup.next_copy(*key[:3])
            if after is not None and value in program.outputs:
                for out, into in zip(program.outputs, self.lookup.view(*after[:2]).program.inputs, strict=True):
                    if out == value:
                        self._put(rank, (*after, key[3]), phase, into, cell)
            return
        rank.backward.setdefault(key, {})[value] = cell
        before = self.lookup.copy_before(*key[:3])
        if before is not None and value in program.input_grads:
            for out, into in zip(program.input_grads, self.lookup.view(*before[:2]).program.output_grads, strict=True):
                if out == value and into >= 0:
                    self._put(rank, (*before, key[3]), phase, into, cell)

    # -- collectives ----------------------------------------------------------

    def _collective(self, task: int, participants: Sequence[Participant]) -> None:
        number, step = participants[0]
        plan = self.ranks[number].plan
        row = self.graph.comm_rows[plan.ref[step]]
        if row.kind in HOST_COPIES:
            self._host_copy(task, self.ranks[number], step, HostCopy(row.kind))
            return
        group = sorted(participants, key=lambda p: self.ranks[p[0]].device)
        ranks = [self.ranks[n] for n, _ in group]
        if step in plan.moves:
            items = [rank.plan.moves[at].items for rank, (_, at) in zip(ranks, group, strict=True)]
            self._check_group(task, ranks, row.mesh, plan.moves[step].axes)
            self._state_move(task, ranks, plan.moves[step], items)
            return
        key = (int(plan.chunk[step]), int(plan.link[step]), int(plan.copy[step]), int(plan.micro_batch[step]))
        phase, part = int(plan.phase[step]), int(plan.part[step])
        if part == PIECE:
            return  # the last piece moves the value
        if part >= 0:
            move = self.lookup.instruction(*key[:2], phase, part)
            assert isinstance(move, Move)
            self._value_move(task, ranks, row.mesh, key, phase, move)
            return
        is_gather = row.kind == "all_gather"
        state_move = self.lookup.move(*key[:2], part, self._num_gathers(plan.part, step), is_gather=is_gather)
        self._check_group(task, ranks, row.mesh, state_move.axes)
        if is_gather:
            self._gather(task, ranks, key, phase, state_move)
        else:
            self._reduce(task, ranks, key, state_move)

    @staticmethod
    def _num_gathers(part: np.ndarray, step: int) -> int:
        """Gathers at the beginning of the copy that `step`, a reduction, ends: parts count on from them."""
        at = step
        while part[at] < 0:  # back over the reductions
            at -= 1
        return -1 - int(part[at + 1])

    def _check_group(self, task: int, ranks: Sequence[Rank], mesh: Mesh, axes: tuple[str, ...]) -> None:
        """A group is all ranks that differ along `axes` only."""
        if not axes:
            return
        have = [rank.place for rank in ranks]
        want = mesh.groups(axes)
        if have not in want.tolist():
            raise SimulationError(
                f"{self.graph.describe(task)} runs on ranks {have}, not a group of {axes} in {mesh!r}"
            )

    def _value_move(self, task: int, ranks: Sequence[Rank], mesh: Mesh, key: CopyKey, phase: int, move: Move) -> None:
        program = self.lookup.view(*key[:2]).program
        self._check_group(task, ranks, mesh, tuple(mesh.names[axis] for axis in move.step.axes))
        shards = [self._read(task, rank, key, phase, move.source) for rank in ranks]
        results = moves.moved(
            move.step, program.dims(move.source), program.sizes, mesh, [rank.coordinate for rank in ranks], shards
        )
        for rank, data in zip(ranks, results, strict=True):
            self._write(task, rank, key, phase, move.target, data)

    def _gather(self, task: int, ranks: Sequence[Rank], key: CopyKey, phase: int, move: StateMove) -> None:
        """Parameters made whole for one phase of one copy."""
        view = self.lookup.view(*key[:2])
        for *_, state in move.items:
            name = view.key(key[2], state)
            shards = []
            for rank in ranks:
                self._check_fetched(task, rank, key, phase, state, name)
                held = rank.weights[name]
                if held is None:
                    raise SimulationError(f"{self.graph.describe(task)} gathers {name} before its update is gathered")
                self._check(task, held.writers, name)
                shards.append(held.flat)
            whole = joined(shards, move.axes).whole()
            for rank in ranks:
                rank.gathered[(key, phase, name)] = Cell(whole, (task,))

    # -- gradients --------------------------------------------------------------

    def _gradient(self, task: int, rank: Rank, key: CopyKey, state: ParameterState, data: Tensor) -> None:
        """The gradient of one micro-batch: to be reduced at once where it is kept cut, else accumulated."""
        view = self.lookup.view(*key[:2])
        name = view.key(key[2], state)
        flat = self.flat_spec(view, rank, state).flatten(data)
        if state.kept["gradient"] and state.data_axes:
            rank.pending[(key, name)] = State(flat, (task,))
        else:
            self._accumulate(rank, name, State(flat.pick(state.kept["gradient"], rank.by_axis), (task,)))

    @staticmethod
    def _accumulate(rank: Rank, name: str, more: State) -> None:
        old = rank.gradients.get(name)
        if old is None:
            rank.gradients[name] = more
            return
        assert old.flat.held == more.flat.held
        rank.gradients[name] = State(old.flat.with_data(old.flat.data + more.flat.data), (*old.writers, *more.writers))

    def _reduce(self, task: int, ranks: Sequence[Rank], key: CopyKey, move: StateMove) -> None:
        """Gradients of one micro-batch reduced; after the last of its reductions they are accumulated."""
        view = self.lookup.view(*key[:2])
        for *_, state in move.items:
            name = view.key(key[2], state)
            held = [rank.pending.pop((key, name)) for rank in ranks]
            done = self._reduced(task, ranks, held, move, name)
            is_last = move.kind == "all_reduce" or set(state.data_axes) <= set(state.kept["gradient"])
            for rank, flat in zip(ranks, done, strict=True):
                if is_last:
                    flat = State(flat.flat.pick(state.kept["gradient"], rank.by_axis), flat.writers)
                    self._accumulate(rank, name, flat)
                else:
                    rank.pending[(key, name)] = flat

    def _reduced(
        self, task: int, ranks: Sequence[Rank], held: Sequence[State], move: StateMove, name: str
    ) -> list[State]:
        for state in held:
            self._check(task, state.writers, f"the gradient of {name}")
        total = held[0].flat.with_data(torch.stack([state.flat.data for state in held]).sum(0))
        cut = move.axes if move.kind == "reduce_scatter" else ()
        return [State(total.pick(cut, rank.by_axis), (task,)) for rank in ranks]

    def _state_move(
        self,
        task: int,
        ranks: Sequence[Rank],
        move: StateMove,
        items: Sequence[tuple[tuple[int, int, int, ParameterState], ...]],
    ) -> None:
        """A collective on whole gradients or updated parameters, item by item."""
        for row in zip(*items, strict=True):
            names = {self.lookup.view(chunk, link).key(copy, state) for chunk, link, copy, state in row}
            assert len(names) == 1, f"one collective on different parameters {names}"
            name = names.pop()
            if move.kind == "all_gather":
                self._updated(task, ranks, move, row[0], name)
                continue
            held = [rank.gradients[name] for rank in ranks]
            if not move.axes:  # two copies of a tied parameter, one of which may not have been reduced
                cut = row[0][3].reduce_axes
                held = [State(h.flat.pick(cut, rank.by_axis), h.writers) for h, rank in zip(held, ranks, strict=True)]
            for rank, done in zip(ranks, self._reduced(task, ranks, held, move, name), strict=True):
                rank.gradients[name] = done

    def _updated(
        self, task: int, ranks: Sequence[Rank], move: StateMove, item: tuple[int, int, int, ParameterState], name: str
    ) -> None:
        for rank in ranks:
            self._check(task, rank.masters[name].writers, name)
        whole = joined([rank.masters[name].flat for rank in ranks], move.axes)
        for rank in ranks:
            rank.weights[name] = State(whole.pick(item[3].kept["parameter"], rank.by_axis), (task,))

    # -- the host -----------------------------------------------------------------

    def _check_fetched(self, task: int, rank: Rank, key: CopyKey, phase: int, state: ParameterState, name: str) -> None:
        """A parameter kept on the host must have been brought for this phase."""
        if "parameter" not in state.offloaded:
            return
        if (key, phase) not in rank.fetched:
            raise SimulationError(f"{self.graph.describe(task)} uses {name}, which is on the host")
        self._check(task, [rank.fetched[(key, phase)]], name)

    def _host_copy(self, task: int, rank: Rank, step: int, kind: HostCopy) -> None:
        plan = rank.plan
        phase = int(plan.phase[step])
        if phase == NONE:
            self._host_update(task, rank, kind)
            return
        key = (int(plan.chunk[step]), int(plan.link[step]), int(plan.copy[step]), int(plan.micro_batch[step]))
        view = self.lookup.view(*key[:2])
        if kind is HostCopy.TO_HOST:
            source, target = rank.leaving, rank.host
        elif plan.part[step] == HOST_PARAMETERS:
            rank.fetched[(key, phase)] = task
            return
        else:
            source, target = rank.host, rank.backward
        for value, cell in source.pop(key, {}).items():
            self._check(task, cell.writers, f"{view.program.values[value].tensor} of {view.link.path(key[2])}")
            target.setdefault(key, {})[value] = Cell(cell.data, (task,))

    def _host_update(self, task: int, rank: Rank, kind: HostCopy) -> None:
        """Gradients to the host, the update there, parameters back."""
        for state, name in self._trained(rank, is_on_host=True):
            match kind:
                case HostCopy.TO_HOST:
                    gradient = rank.gradients[name]
                    self._check(task, gradient.writers, f"the gradient of {name}")
                    rank.gradients[name] = State(gradient.flat, (task,))
                case HostCopy.UPDATE:
                    self._update(task, rank, state, name)
                case HostCopy.FROM_HOST:
                    self._check(task, rank.masters[name].writers, name)
                    self._publish(task, rank, state, name)

    def _trained(self, rank: Rank, *, is_on_host: bool) -> list[tuple[ParameterState, str]]:
        """Parameters that a rank updates on its device or on its host, each once."""
        state_of_name: dict[str, ParameterState] = {}
        for rank_chunk in own_chunks(self.graph.chunks, rank.plan.rank):
            for link in range(len(rank_chunk.links)):
                view = self.lookup.view(rank_chunk.index, link)
                for copy in range(view.link.count):
                    for state in view.gradient_of.values():
                        if on_host(state) is is_on_host:
                            state_of_name.setdefault(view.key(copy, state), state)
        return [(state, name) for name, state in state_of_name.items()]

    def _optimizer(self, task: int, rank: Rank) -> None:
        """Update the rank's part of every parameter."""
        for state, name in self._trained(rank, is_on_host=False):
            self._update(task, rank, state, name)
            self._publish(task, rank, state, name)

    def _update(self, task: int, rank: Rank, state: ParameterState, name: str) -> None:
        update = UPDATES[self.graph.tree.training.optimizer]
        gradient = rank.gradients.get(name)
        if gradient is None:
            raise SimulationError(f"{self.graph.describe(task)} updates {name}, which has no gradient")
        self._check(task, gradient.writers, f"the gradient of {name}")
        cut = gradient.flat.pick(state.kept["optimizer"], rank.by_axis)
        rank.final_gradients[name] = cut
        master = rank.masters[name].flat
        assert master.held == cut.held
        rank.masters[name] = State(master.with_data(update(master.data, cut.data)), (task,))
        rank.weights[name] = None

    def _publish(self, task: int, rank: Rank, state: ParameterState, name: str) -> None:
        """Make an updated master the parameter, unless its pieces must be gathered first."""
        master = State(rank.masters[name].flat, (task,))
        rank.masters[name] = master
        if not state.updated_axes:
            rank.weights[name] = State(master.flat.pick(state.kept["parameter"], rank.by_axis), (task,))

    # -- between stages ---------------------------------------------------------

    def _send(self, task: int, transfer: Transfer, micro: int) -> None:
        source, target = self.ranks[transfer.source], self.ranks[transfer.target]
        is_forward = transfer.kind == F
        first = transfer.chunk if is_forward else transfer.chunk - 1
        before, after = self.lookup.chunks[first], self.lookup.chunks[first + 1]
        ends = (self.lookup.last(first), (first + 1, 0, 0))
        out_key, in_key = ends if is_forward else ends[::-1]
        out_program, in_program = before.links[-1].program, after.links[0].program
        sending, receiving = (before, after) if is_forward else (after, before)
        for handed in handed_tensors(before, after, transfer.kind, self.graph.tree.training.micro_batch):
            if is_forward:
                out, into = out_program.outputs[handed.tensor], in_program.inputs[handed.tensor]
            else:
                out, into = in_program.input_grads[handed.tensor], out_program.output_grads[handed.tensor]
            data = self._read(task, source, (*out_key, micro), transfer.kind, out)
            for piece in pieces(handed, sending.mesh, receiving.mesh, is_forward):
                if (piece.source, piece.target) == (source.place, target.place):
                    view_out = self.lookup.view(*out_key[:2])
                    view_in = self.lookup.view(*in_key[:2])
                    part = data
                    for axis, (start, length) in enumerate(piece.box):
                        part = part.narrow(axis, start - self._start(view_out, source, out, axis), length)
                    self._receive(task, target, (*in_key, micro), transfer.kind, view_in, into, piece.box, part)

    def _start(self, view: LinkView, rank: Rank, value: int, axis: int) -> int:
        program = view.program
        dim = program.dims(value)[axis]
        return local_chunk(dim, program.sizes[dim], program.values[value].layout, program.mesh, rank.coordinate)[0]

    def _receive(
        self,
        task: int,
        rank: Rank,
        key: CopyKey,
        kind: int,
        view: LinkView,
        value: int,
        box: tuple[tuple[int, int], ...],
        part: Tensor,
    ) -> None:
        """Put a piece in its place; what has not come yet is not a number."""
        cells = (rank.forward if kind == F else rank.backward).setdefault(key, {})
        old = cells.get(value)
        if old is None:
            old = Cell(torch.full(self._shape(rank, view, value), math.nan, dtype=torch.float64), ())
        region = old.data
        for axis, (start, length) in enumerate(box):
            region = region.narrow(axis, start - self._start(view, rank, value, axis), length)
        region.copy_(part)
        self._put(rank, key, kind, value, Cell(old.data, (*old.writers, task)))
