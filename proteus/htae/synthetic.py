"""A large task graph of the usual shape, to measure the engine with.

Pipeline stages with tensor-parallel ranks run 1F1B over many micro-batches,
nothing folded.  Sizes are round numbers: this is a load, not a prediction.
"""

from __future__ import annotations

import numpy as np

from proteus.htae.tasks import TaskGraph, TaskKind

#: streams of every device, in this order
COMPUTE, TENSOR, FORWARD_OUT, FORWARD_IN, BACKWARD_OUT, BACKWARD_IN, GRADIENT = range(7)
_NUM_STREAMS = 7
#: compute classes of the ops of a layer, and communication classes
_GEMM, _MEMORY = 0, 1
_INTRA, _INTER = 0, 1
_NVLINK_BPS, _NIC_BPS = 300e9, 25e9
_TENSOR_BYTES, _PIPELINE_BYTES, _GRADIENT_BYTES = 32e6, 16e6, 200e6
_LATENCY_S = 20e-6
#: most bandwidth of one flow of a tensor ring, a message forward, one backward, and a gradient ring
_CAPS_BPS = (250e9, 20e9, 20e9, 12e9)
#: seconds of the ops of one layer's forward pass; backward takes twice as long
_OPS_S = (80e-6, 400e-6, 120e-6, 300e-6, 90e-6, 500e-6)
_OPS_CLASS = (_MEMORY, _GEMM, _MEMORY, _GEMM, _MEMORY, _GEMM)


def one_f_one_b(stage: int, num_stages: int, micro_batches: int) -> np.ndarray:
    """int[2 * micro_batches]: micro-batch of a forward, or ``~micro_batch`` of a backward, in 1F1B order.

    >>> one_f_one_b(1, 2, 3).tolist(), one_f_one_b(0, 2, 3).tolist()
    ([0, -1, 1, -2, 2, -3], [0, 1, -1, 2, -2, -3])
    """
    warm_up = min(num_stages - 1 - stage, micro_batches)
    each = np.arange(micro_batches)
    steady = np.stack((each[warm_up:], ~each[: micro_batches - warm_up]), axis=1).ravel()
    return np.concatenate((each[:warm_up], steady, ~each[micro_batches - warm_up :]))


def pipeline(
    num_stages: int = 64, micro_batches: int = 512, layers: int = 8, ranks: int = 2, *, reduce_every: bool = False
) -> TaskGraph:
    """The graph of one step.

    Each layer is a segment of six ops on every rank and an all-reduce among
    the stage's ranks.  Between stages every rank sends its own message; all
    messages and the gradient rings of a stage share its NIC, beside compute
    that they slow down and that slows them.

    Parameters
    ----------
    num_stages, micro_batches, layers, ranks
        Pipeline stages, micro-batches, layers per stage, and tensor-parallel
        ranks per stage; the default gives 1.7 million tasks.
    reduce_every
        Reduce gradients after every micro-batch and not only after the last.

    Examples
    --------
    >>> pipeline(2, 2, 1, 2).num_tasks
    34
    """
    actions, width = 2 * micro_batches, ranks + 1
    order = np.stack([one_f_one_b(stage, num_stages, micro_batches) for stage in range(num_stages)])
    is_backward = order < 0
    micro_batch = np.where(is_backward, ~order, order)
    stage_of = np.indices(order.shape)[0]

    # ids: layers of all actions, then messages, then gradient rings
    num_layers = num_stages * actions * layers
    layer_id = np.arange(num_layers * width).reshape(num_stages, actions, layers, width)
    sends = np.where(is_backward, stage_of > 0, stage_of < num_stages - 1)
    message = np.full((num_stages, actions), -1)
    message[sends] = layer_id.size + np.arange(sends.sum()) * ranks
    reduces = is_backward & (reduce_every | (micro_batch == micro_batches - 1))
    ring = np.full((num_stages, actions), -1)
    ring[reduces] = layer_id.size + sends.sum() * ranks + np.arange(reduces.sum()) * layers
    n = int(layer_id.size + sends.sum() * ranks + reduces.sum() * layers)

    # what an action receives: the message of the neighbour's action of the same direction and micro-batch
    message_of = np.full((num_stages + 2, 2, micro_batches), -1)
    message_of[stage_of + 1, is_backward.astype(int), micro_batch] = message
    received = message_of[np.where(is_backward, stage_of + 2, stage_of), is_backward.astype(int), micro_batch]

    edges = [  # (task, predecessor)
        _pairs(layer_id[..., ranks:], layer_id[..., :ranks]),
        _pairs(layer_id[:, :, 1:, :ranks], layer_id[:, :, :-1, ranks:]),
    ]
    rank = np.arange(ranks)
    edges.append(_pairs(layer_id[:, :, 0, :ranks][received >= 0], received[received >= 0][:, None] + rank))
    edges.append(_pairs(message[sends][:, None] + rank, layer_id[:, :, -1, ranks][sends][:, None]))
    edges.append(_pairs(ring[reduces][:, None] + np.arange(layers), layer_id[..., ranks][reduces]))
    task, pred = (np.concatenate(column) for column in zip(*edges, strict=True))
    by_task = np.argsort(task, kind="stable")

    # streams: device = stage * ranks + rank
    by_micro_batch = np.argsort(micro_batch + np.where(is_backward, micro_batches, 0), axis=1, kind="stable")
    lists: list[list[np.ndarray]] = []
    for stage in range(num_stages):
        sorted_messages = message[stage][by_micro_batch[stage]]
        out = sorted_messages[:micro_batches], sorted_messages[micro_batches:]
        for r in range(ranks):
            tasks_of_stream: list[np.ndarray] = [np.empty(0, int)] * _NUM_STREAMS
            tasks_of_stream[COMPUTE] = layer_id[stage, :, :, r].ravel()
            tasks_of_stream[TENSOR] = layer_id[stage, :, :, ranks].ravel()
            tasks_of_stream[FORWARD_OUT], tasks_of_stream[BACKWARD_OUT] = (ids[ids >= 0] + r for ids in out)
            tasks_of_stream[GRADIENT] = (ring[stage][reduces[stage]][:, None] + np.arange(layers)).ravel()
            lists.append(tasks_of_stream)
    for device, tasks_of_stream in enumerate(lists):
        tasks_of_stream[FORWARD_IN] = (
            lists[device - ranks][FORWARD_OUT] if device >= ranks else tasks_of_stream[FORWARD_IN]
        )
        tasks_of_stream[BACKWARD_IN] = (
            lists[device + ranks][BACKWARD_OUT] if device + ranks < len(lists) else tasks_of_stream[BACKWARD_IN]
        )
    queues = [queue for tasks_of_stream in lists for queue in tasks_of_stream]

    is_message = np.arange(n) >= layer_id.size
    is_ring = np.arange(n) >= n - int(reduces.sum()) * layers
    is_tensor = np.zeros(n, bool)
    is_tensor[layer_id[..., ranks]] = True
    is_compute = ~(is_message | is_tensor)
    segment = np.full(n, -1)
    segment[layer_id[..., :ranks]] = is_backward[:, :, None, None]
    ops_s = np.array(_OPS_S)
    return TaskGraph(
        kind=np.where(is_compute, TaskKind.COMPUTE, TaskKind.COMM).astype("u1"),
        latency_s=np.where(is_compute, 0.0, _LATENCY_S),
        work=np.select(
            (is_compute, is_tensor, is_ring),
            (ops_s.sum() * (1 + (segment == 1)), _TENSOR_BYTES, _GRADIENT_BYTES),
            _PIPELINE_BYTES,
        ),
        release_s=np.zeros(n),
        priority=np.zeros(n, "i4"),
        pred_ptr=np.concatenate(([0], np.cumsum(np.bincount(task, minlength=n)))).astype("i4"),
        pred=pred[by_task].astype("i4"),
        stream_ptr=np.cumsum([0, *map(len, queues)]).astype("i4"),
        stream_task=np.concatenate(queues).astype("i4"),
        stream_device=np.repeat(np.arange(len(lists)), _NUM_STREAMS).astype("i4"),
        segment=segment.astype("i4"),
        segment_ptr=np.array([0, len(ops_s), 2 * len(ops_s)], "i4"),
        segment_work_s=np.concatenate((ops_s, 2 * ops_s)),
        segment_class=np.array(_OPS_CLASS * 2, "i2"),
        **_flows(layer_id, message, is_backward, ring, num_stages, ranks, n),
        op_class=np.where(is_message, _INTER, _INTRA).astype("i2"),
        compute_slowdown=np.array([[0.1, 0.05], [0.3, 0.15]]),
        comm_slowdown=np.array([[0.1, 0.3], [0.0, 0.1]]),
    )


def _pairs(task: np.ndarray, pred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All (task, predecessor) pairs of two arrays that broadcast to each other."""
    tasks, preds = np.broadcast_arrays(task, pred)
    return tasks.ravel(), preds.ravel()


def _flows(
    layer_id: np.ndarray,
    message: np.ndarray,
    is_backward: np.ndarray,
    ring: np.ndarray,
    num_stages: int,
    ranks: int,
    n: int,
) -> dict[str, np.ndarray]:
    """Patterns and links: an NVLink per device, then a NIC out and a NIC in per stage."""
    devices = num_stages * ranks
    nic_out, nic_in = devices + np.arange(num_stages), devices + num_stages + np.arange(num_stages)
    stage = np.arange(num_stages)[:, None]
    pattern = np.full(n, -1)
    rows: list[list[tuple[int, int]]] = []
    for s in range(num_stages):  # per stage: tensor ring, message forward, message backward, gradient ring
        rows.append([(s * ranks + r, 1) for r in range(ranks)])
        rows.append([(nic_out[s], 1), (nic_in[min(s + 1, num_stages - 1)], 1)])
        rows.append([(nic_out[s], 1), (nic_in[max(s - 1, 0)], 1)])
        rows.append([(nic_out[s], ranks), (nic_in[s], ranks)])
    pattern[layer_id[..., ranks]] = 4 * stage[:, :, None]
    sent = message >= 0
    for r in range(ranks):
        pattern[message[sent] + r] = (4 * stage + 1 + is_backward)[sent]
    rings = np.flatnonzero(pattern[layer_id.size :] < 0) + layer_id.size
    pattern[rings] = np.repeat((4 * stage + 3 + 0 * ring)[ring >= 0], len(rings) // (ring >= 0).sum())
    return {
        "pattern": pattern.astype("i4"),
        "pattern_ptr": np.cumsum([0, *map(len, rows)]).astype("i4"),
        "pattern_link": np.array([link for row in rows for link, _ in row], "i4"),
        "pattern_count": np.array([count for row in rows for _, count in row], "i4"),
        "pattern_cap_Bps": np.tile(_CAPS_BPS, num_stages),
        "link_capacity_Bps": np.where(np.arange(devices + 2 * num_stages) < devices, _NVLINK_BPS, _NIC_BPS),
    }
