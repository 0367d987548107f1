"""Readers of topology files: NCCL and RCCL XML, nvidia-smi, rocm-smi, NCCL's log."""

from __future__ import annotations

import os
from collections.abc import Callable

from proteus.cluster.cluster import Cluster
from proteus.cluster.fabric import Fabric
from proteus.cluster.readers.nccl_dump import read_nccl_dump
from proteus.cluster.readers.nccl_xml import read_nccl_xml
from proteus.cluster.readers.rocm_smi import read_rocm_smi
from proteus.cluster.readers.smi_topo import has_matrix, read_smi_topo
from proteus.cluster.readers.text import read_text
from proteus.cluster.survey import Survey, host_of_survey, network_of_survey
from proteus.errors import TopologyError, context
from proteus.hardware import Gpu, gpus

_READERS: dict[str, Callable[[str, str], Survey]] = {
    "nccl-xml": read_nccl_xml,
    "smi-topo": read_smi_topo,
    "rocm-smi": read_rocm_smi,
    "nccl-dump": read_nccl_dump,
}


def sniff(text: str) -> str:
    """Which kind of topology file `text` is.

    >>> sniff("<system version='1'/>")
    'nccl-xml'
    """
    if text.lstrip().startswith("<") or "<system" in text:
        return "nccl-xml"
    if "between two GPUs" in text or "ROCm System Management Interface" in text:
        return "rocm-smi"
    if has_matrix(text):
        return "smi-topo"
    if "=== System" in text:
        return "nccl-dump"
    raise TopologyError(
        "line 1: no topology found; known are the XML of NCCL or RCCL (NCCL_TOPO_DUMP_FILE), "
        "nvidia-smi topo -m, rocm-smi --showtopo, and NCCL's log with NCCL_DEBUG_SUBSYS=GRAPH"
    )


def read(path: str | os.PathLike[str], kind: str | None = None) -> Survey:
    """What a topology file says.

    Raises
    ------
    InputError
        The file cannot be read.
    TopologyError
        It holds no topology, or one too damaged to repair; the message has the line.
    """
    text = read_text(path)
    with context(os.fspath(path)):
        return _READERS[kind or sniff(text)](text, os.path.basename(os.fspath(path)))


def load(
    path: str | os.PathLike[str], *, kind: str | None, gpu: str | os.PathLike[str] | Gpu | None, nodes: int
) -> Cluster:
    """`nodes` hosts as a topology file describes them."""
    survey = read(path, kind)
    sheet = gpus.resolve(gpu) if gpu is not None else None
    with context(os.fspath(path)):
        host = host_of_survey(survey, sheet)
        fabric = Fabric(family=network_of_survey(survey))
        return Cluster(name=survey.name, runs=((host, nodes),), fabric=fabric, survey=survey)
