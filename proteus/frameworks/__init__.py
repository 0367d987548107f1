from typing import get_args

from proteus.costs import profile as _p

Framework = _p.Profile


def load(name):
    name = {"megatron-core": "megatron"}.get(name, name)
    return _p.load(name)


def choices(field):
    return {"attention": get_args(_p.Attention), "overlaps_tensor": get_args(_p.TensorOverlap)}[field]


names = _p.names
