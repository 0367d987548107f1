"""Words for FSDP's sharding, which accelerate, the Trainer and their kin share.

Source: PyTorch ``torch/distributed/fsdp/api.py`` ShardingStrategy, whose numbers start at 1, and
huggingface/accelerate ``utils/dataclasses.py`` FullyShardedDataParallelPlugin.
"""

from __future__ import annotations

from proteus.launch.draft import Draft

#: name and number of a sharding strategy → ZeRO stage; hybrid ones shard inside a node
STRATEGIES = {
    "full_shard": 3, "shard_grad_op": 2, "no_shard": 0, "hybrid_shard": 3, "hybrid_shard_zero2": 2,
    "1": 3, "2": 2, "3": 0, "4": 3, "5": 2,
}  # fmt: skip
_HYBRID = ("hybrid_shard", "hybrid_shard_zero2", "4", "5")


def sharding(draft: Draft, *names: str, default: str = "full_shard") -> None:
    """The ZeRO stage of a strategy, given by name or number."""
    keys = draft.keys
    word = keys.word(*names, default=default).removeprefix("shardingstrategy.")
    if word not in STRATEGIES:
        raise keys.error(next(n for n in names if n in keys), f"it must be one of {', '.join(STRATEGIES)}")
    draft.say(zero=STRATEGIES[word])
    if word in _HYBRID:
        if draft.gpus_per_node is None:
            draft.need("shard", "hybrid sharding shards inside a node, and the file does not say its GPUs")
        else:
            draft.say(shard=draft.gpus_per_node)
