"""Where a model and a cluster came from: a name that loads them again, a file, or neither."""

from __future__ import annotations

from dataclasses import dataclass

import proteus as pt
from proteus import hardware
from proteus.cluster import Cluster
from proteus.errors import ProteusError
from proteus.model.graph import Model

#: kind of topology file to what reads it; ``load_file`` finds out by looking
READERS = {"nccl-xml": "from_nccl_xml", "smi-topo": "from_smi_topo", "rocm-smi": "from_rocm_smi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What :func:`proteus.clusters.load` needs for a cluster; `gpu` only where it is not the preset's own."""

    name: str
    nodes: int
    gpu: str | None = None

    def load(self) -> Cluster:
        return pt.clusters.load(self.name, nodes=self.nodes, gpu=hardware.load(self.gpu) if self.gpu else None)


def is_built_in(model: Model) -> bool:
    """Whether the model's name (and length) loads this very model; one from a file may bear a name that is taken."""
    return model.name in pt.models.names() and pt.models.load(model.name, seq=_length(model)) == model


def _length(model: Model) -> int | None:
    """Its sequence length, where that is not the one that the name loads."""
    usual = pt.models.load(model.name).seq
    return None if model.seq == usual or model.seq == 1 or usual == 1 else model.seq


def preset_of(cluster: Cluster) -> Preset | None:
    """How to load this very cluster by name; None when it came from a file or was changed or calibrated afterwards."""
    if cluster.survey or cluster.calibration is not None or cluster.name not in pt.clusters.names():
        return None
    plain = Preset(name=cluster.name, nodes=cluster.num_hosts)
    if plain.load() == cluster:
        return plain
    gpu = _gpu(cluster)
    if gpu is None:
        return None
    changed = Preset(name=cluster.name, nodes=cluster.num_hosts, gpu=gpu)
    try:
        return changed if changed.load() == cluster else None
    except ProteusError:  # a host that was wired otherwise takes GPUs that the preset does not
        return None


def model_source(model: Model) -> str:
    """Python that gives the model, or says what must be written there."""
    if is_built_in(model):
        return f"model = {_load(model)}"
    if model.base is not None and is_built_in(model.base):
        return f"model = pt.with_lora({_load(model.base)}, pt.{model.lora!r})"
    return f"model = ...  # {_word(model.name)} is a model of your own: load it here, as pt.from_hf(path) does"


def _load(model: Model) -> str:
    seq = _length(model)
    return f"pt.models.load({model.name!r}{f', seq={seq}' if seq else ''})"


def cluster_source(cluster: Cluster) -> str:
    """Python that gives the cluster, or says what must be written there."""
    preset = preset_of(cluster)
    if preset:
        gpu = f", gpu={preset.gpu!r}" if preset.gpu else ""
        return f"cluster = pt.clusters.load({preset.name!r}, nodes={preset.nodes}{gpu})"
    survey = cluster.survey
    if survey is None:
        return f"cluster = ...  # {_word(cluster.name)} is a cluster of your own: build it here"
    models = {seen.model for seen in survey.gpus}
    known = _gpu(cluster)
    gpu = "" if models == set(cluster.gpu_kinds) else f", gpu={known!r}" if known else ", gpu=..."
    reader = READERS.get(survey.kind, "load_file")
    changed = " and change it as you did" if cluster.faults else ""
    return (
        f"cluster = pt.Cluster.{reader}({survey.name!r}, nodes={cluster.num_hosts}{gpu})"
        f"  # write the whole path{changed}"
    )


def _gpu(cluster: Cluster) -> str | None:
    """The name that loads exactly the cluster's GPU; None if it is a user's own or unknown."""
    try:
        gpu = cluster.gpu()
    except ProteusError:  # the file did not say
        return None
    return gpu.name if hardware.find(gpu.name) == gpu else None


def _word(name: str) -> str:
    """An untrusted name on one line."""
    return repr(name)
