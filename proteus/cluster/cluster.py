"""A cluster: hosts, the fabric between them, and what is wrong with it."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from proteus.arguments import A, Each, Either, FilePath, Real, Text, Whole, takes
from proteus.cluster import changes, view
from proteus.cluster import report as reports
from proteus.cluster.columns import Columns, build_columns, leaf_link_name
from proteus.cluster.fabric import Fabric
from proteus.cluster.faults import Faults
from proteus.cluster.host import Host
from proteus.errors import TopologyError
from proteus.hardware import Gpu, gpus

if TYPE_CHECKING:
    import networkx as nx

    from proteus.cluster.survey import Survey

#: several times the largest clusters there are; beyond it the columns of links outgrow a machine's memory
MAX_DEVICES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Hosts of equally many GPUs, numbered through host by host.

    Parameters
    ----------
    name
        Shown in results.
    runs
        ``(host, count)``: equal hosts that follow each other.
    fabric
        The network between the hosts.
    faults
        Slow devices and links.
    survey
        What the file said that it was read from, or None.
    calibration
        What measured runs said of it (:meth:`calibrate`), or None.

    Examples
    --------
    >>> from proteus.cluster import clusters
    >>> cluster = clusters.load("dgx-a100", nodes=2)
    >>> cluster
    Cluster(dgx-a100: 2 hosts x 8 a100-80gb)
    >>> [cluster.link_name(i) for i in cluster.routes([0], [9])[0] if i >= 0]
    ['host0/gpu0->pcie0', 'host0/nic0->net', 'host1/net->nic1', 'host1/pcie0->gpu1']
    """

    name: str
    runs: tuple[tuple[Host, int], ...]
    fabric: Fabric = field(default_factory=Fabric)
    faults: Faults = field(default_factory=Faults)
    survey: Survey | None = None
    calibration: Any = field(default=None, compare=False, repr=False)
    _columns: Columns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        counts = [count for _, count in self.runs]
        if not counts or min(counts) < 1:
            raise TopologyError(f"{self.name}: {min(counts, default=0)} hosts; a cluster needs at least 1")
        if self.num_devices > MAX_DEVICES:
            raise TopologyError(
                f"{self.name}: {self.num_hosts} hosts of {self.devices_per_host} devices; "
                f"at most {MAX_DEVICES} devices, so take at most {MAX_DEVICES // self.devices_per_host} hosts"
            )
        widths = sorted({host.num_gpus for host, _ in self.runs})
        if len(widths) > 1:
            raise TopologyError(f"{self.name}: hosts of {widths} GPUs; all hosts of a cluster need equally many")
        if self.num_hosts > 1:
            for host, _ in self.runs:
                if min(host.nic_of_gpu) < 0:
                    raise TopologyError(f"{self.name}: {host.name} has no NIC; {self.num_hosts} hosts need one each")
        for device, _ in self.faults.slow_devices:
            self._check_device(device)
        object.__setattr__(self, "_columns", build_columns(self.runs, self.fabric, self.faults))

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{count} host{'s' * (count > 1)} x {host.num_gpus} {_kinds(host)}" for host, count in self.runs
        )
        return f"Cluster({self.name}: {parts}{', with faults' if self.faults else ''})"

    def __hash__(self) -> int:
        return hash((self.name, self.runs, self.fabric, self.faults))

    @property
    def columns(self) -> Columns:
        """Links and route tables as numpy columns."""
        return self._columns

    # -- devices ---------------------------------------------------------------------------------

    @property
    def host(self) -> Host:
        """The first host; the only kind unless hosts differ."""
        return self.runs[0][0]

    @property
    def num_hosts(self) -> int:
        return sum(count for _, count in self.runs)

    @property
    def devices_per_host(self) -> int:
        return self.host.num_gpus

    @property
    def num_devices(self) -> int:
        return self.num_hosts * self.devices_per_host

    def host_of(self, devices: Any) -> np.ndarray:
        """int64[...]: the host of each device."""
        return np.asarray(devices, np.int64) // self.devices_per_host

    def local_of(self, devices: Any) -> np.ndarray:
        """int64[...]: the number of each device inside its host."""
        return np.asarray(devices, np.int64) % self.devices_per_host

    def gpu(self, device: int = 0) -> Gpu:
        """The GPU of `device`.

        Raises
        ------
        TopologyError
            The file did not say which GPU it is, or there is no such device.
        """
        self._check_device(device)
        host, local = divmod(device, self.devices_per_host)
        gpu = self._template(host).gpus[local]
        if gpu is None:
            raise TopologyError(
                f"{self.name}: it is not known which GPU device {device} is; "
                "pass gpu=... (--gpu), for example 'a100-80gb'"
            )
        return gpu

    @property
    def gpu_kinds(self) -> tuple[Gpu | None, ...]:
        """The distinct GPUs, in order of first appearance."""
        return tuple(dict.fromkeys(gpu for host, _ in self.runs for gpu in host.gpus))

    def gpu_kind(self) -> np.ndarray:
        """int64[num_devices]: index of each device's GPU in :attr:`gpu_kinds`."""
        number = {gpu: i for i, gpu in enumerate(self.gpu_kinds)}
        by_template = np.array([[number[gpu] for gpu in host.gpus] for host in self._columns.templates], np.int64)
        kind: np.ndarray = by_template[self._columns.template].reshape(-1)
        return kind

    @property
    def is_uniform(self) -> bool:
        """Whether all devices are the same GPU at full speed and all hosts are equal."""
        return len(self._columns.templates) == 1 and len(self.gpu_kinds) == 1 and not self.faults

    @property
    def device_slowdown(self) -> np.ndarray:
        """float64[num_devices]: factor on the time of compute, 1 when healthy."""
        slowdown = np.ones(self.num_devices)
        for device, factor in self.faults.slow_devices:
            slowdown[device] *= factor
        return slowdown

    def colours(self) -> np.ndarray:
        """int64[num_devices]: equal for devices with the same GPU and slow-down."""
        distinct, by_slowdown = np.unique(self.device_slowdown, return_inverse=True)
        _, colour = np.unique(self.gpu_kind() * len(distinct) + by_slowdown, return_inverse=True)
        return colour.astype(np.int64)

    def _check_device(self, device: int) -> None:
        if isinstance(device, bool) or not isinstance(device, int | np.integer):
            raise TopologyError(f"device={device!r}; devices are whole numbers from 0")
        if not 0 <= device < self.num_devices:
            raise TopologyError(f"{self.name}: there is no device {device}; devices are 0 to {self.num_devices - 1}")

    # -- links -----------------------------------------------------------------------------------

    @property
    def num_links(self) -> int:
        return len(self._columns.capacity_Bps)

    @property
    def link_capacity_Bps(self) -> np.ndarray:
        """float64[num_links]: payload rate that the link could carry at best, faults applied [B/s]."""
        return self._columns.capacity_Bps

    @property
    def link_latency_s(self) -> np.ndarray:
        """float64[num_links]: time of one hop [s]."""
        return self._columns.latency_s

    @property
    def link_kind(self) -> np.ndarray:
        """uint8[num_links]: :class:`LinkKind`."""
        return self._columns.kind

    def link_colours(self) -> np.ndarray:
        """int64[num_links]: equal for links of the same kind and capacity."""
        return self._columns.link_colours()

    def link_name(self, link: int) -> str:
        """Such as ``"host3/gpu0->nvswitch"`` or ``"fabric/leaf2->spine"``."""
        host, local = self._place(link)
        if host < 0:
            return f"fabric/{leaf_link_name(local)}"
        return f"host{host}/{self._template(host).link_name(local)}"

    def link_ends(self, link: int) -> tuple[str, str]:
        """Names of the vertices it joins, as in :meth:`to_networkx`."""
        return view.link_ends(self, link)

    def _place(self, link: int) -> tuple[int, int]:
        if not 0 <= link < self.num_links:
            raise TopologyError(f"{self.name}: there is no link {link}; links are 0 to {self.num_links - 1}")
        offset = self._columns.link_offset
        host = int(np.searchsorted(offset, link, side="right")) - 1
        return (-1 if host >= self.num_hosts else host), int(link - offset[host])

    def _template(self, host: int) -> Host:
        return self._columns.templates[int(self._columns.template[host])]

    def link_range(self, host: int) -> range:
        """The links of `host`, in the order of ``Host.links``."""
        first, last = self._columns.link_offset[host : host + 2].tolist()
        return range(first, last)

    def host_at(self, host: int) -> Host:
        """What `host` is made of."""
        if not 0 <= host < self.num_hosts:
            raise TopologyError(f"{self.name}: there is no host {host}; hosts are 0 to {self.num_hosts - 1}")
        return self._template(host)

    def leaf_of(self, devices: Any) -> np.ndarray:
        """int32[...]: leaf switch that the NIC of each device is wired to, -1 without a NIC."""
        leaf: np.ndarray = self._columns.leaf.reshape(-1)[np.asarray(devices, np.int64)]
        return leaf

    # -- routes ----------------------------------------------------------------------------------

    def routes(self, src: Any, dst: Any) -> np.ndarray:
        """The directed links from device to device.

        Parameters
        ----------
        src, dst
            int[n]: devices.

        Returns
        -------
        int32[n, hops]
            Padded with -1; nothing but -1 where source and destination are the same.
        """
        return self._columns.routes(np.asarray(src, np.int64), np.asarray(dst, np.int64))

    def host_routes(self, devices: Any, to_host: bool) -> np.ndarray:
        """int32[n, hops]: links between each device and the memory of its own socket."""
        return self._columns.memory_routes(np.asarray(devices, np.int64), to_host=to_host)

    @property
    def nvls(self) -> bool:
        """Whether the NVSwitches can reduce (NVLink SHARP)."""
        return all(
            host.has_nvswitch and all(gpu is not None and gpu.chip.has_nvls for gpu in host.gpus)
            for host, _ in self.runs
        )

    # -- other clusters --------------------------------------------------------------------------

    @takes(TopologyError, nodes=Whole(minimum=1))
    def with_nodes(self, nodes: int) -> Cluster:
        """As many hosts, further ones like the first; faults of hosts that are gone go too."""
        return changes.with_nodes(self, nodes)

    @takes(TopologyError, gpu=Either(A(Gpu), FilePath()))
    def with_gpu(self, gpu: str | os.PathLike[str] | Gpu) -> Cluster:
        """The same hosts with another GPU in them.

        Its own links go with it, as far as the host offers them: NVLink or
        xGMI through the host's switches, PCIe lanes up to the host's.  A
        cluster read from a file is built anew, because what the file left open
        (NVLink ports, PCIe generation) follows from the GPU.

        Parameters
        ----------
        gpu
            A name of the catalogue, the path of a YAML file
            (:func:`proteus.hardware.read`), or a :class:`~proteus.hardware.Gpu`.

        Raises
        ------
        TopologyError
            The name is not known, or the host does not take that GPU: an
            NVSwitch host one without NVLink, for example.

        Examples
        --------
        >>> from dataclasses import replace
        >>> from proteus.cluster import clusters
        >>> cluster = clusters.load("dgx-h100")
        >>> (cluster.link_capacity_Bps[0] / 1e9, cluster.with_gpu("h800").link_capacity_Bps[0] / 1e9)
        (np.float64(450.0), np.float64(200.0))
        >>> cluster.with_gpu(replace(cluster.gpu(), name="x100", memory_bytes=2**38))
        Cluster(dgx-h100: 1 host x 8 x100)
        """
        return changes.with_gpu(self, gpus.resolve(gpu))

    @takes(TopologyError, fabric=A(Fabric))
    def with_fabric(self, fabric: Fabric) -> Cluster:
        """The same hosts on another network."""
        return replace(self, fabric=fabric)

    @takes(TopologyError, device=Whole(minimum=0), factor=Real(above=0.0))
    def slow_device(self, device: int, factor: float) -> Cluster:
        """`device` computes `factor` times as long as a healthy one."""
        slow = (*self.faults.slow_devices, (int(device), float(factor)))
        return replace(self, faults=replace(self.faults, slow_devices=slow))

    @takes(TopologyError, sigma=Real(minimum=0.0), seed=Whole(minimum=0))
    def with_jitter(self, sigma: float, *, seed: int = 0) -> Cluster:
        """Every device a little slower, differently: by ``1 + |normal(0, sigma)|``, the same for equal seeds.

        Parameters
        ----------
        sigma
            Spread of the slow-downs.  Between healthy GPUs of one kind several
            percent are usual (Sinha et al., "Not All GPUs Are Created Equal",
            SC 2022).
        seed
            Of numpy's generator.

        Notes
        -----
        No two devices are alike any more, so nothing folds: meant for up to a
        few thousand ranks.
        """
        if not 0.0 <= sigma <= 1.0:
            raise TopologyError(f"jitter of {sigma:g}; it must be from 0 to 1")
        factors = 1.0 + np.abs(np.random.default_rng(seed).normal(0.0, sigma, self.num_devices))
        slow = (*self.faults.slow_devices, *((device, factor) for device, factor in enumerate(factors.tolist())))
        return replace(self, faults=replace(self.faults, slow_devices=slow))

    @takes(TopologyError, link=Either(Whole(minimum=0), Text("the name of a link")), fraction=Real(above=0.0))
    def slow_link(self, link: int | str, fraction: float) -> Cluster:
        """A link, or all whose names match a pattern such as ``"host3/nic0->*"``, at a fraction of its capacity."""
        pattern = link if isinstance(link, str) else glob.escape(self.link_name(link))
        slow = (*self.faults.slow_links, (pattern, float(fraction)))
        return replace(self, faults=replace(self.faults, slow_links=slow))

    @takes(TopologyError, host=Whole(minimum=0), nic=Either(Whole(minimum=0), Text("the name of a NIC")))
    def without_nic(self, host: int, nic: int | str) -> Cluster:
        """NIC `nic` (name or number) of `host` is gone; its GPUs share the next nearest."""
        return changes.without_nic(self, host, nic)

    if TYPE_CHECKING:
        # ``proteus/__init__.py`` gives it to the class: fitting needs the simulator, which needs clusters.
        def calibrate(self, runs: Sequence[tuple[Any, float]]) -> Cluster:
            """The same cluster with constants fitted to measured runs; see :mod:`proteus.calibration`."""

    @classmethod
    @takes(TopologyError, parts=Each(A(object, "clusters"), minimum=1), name=Text())
    def mixed(cls, parts: Sequence[Cluster], *, name: str = "mixed") -> Cluster:
        """The hosts of several clusters one after another, on the fabric of the first."""
        wrong = next((part for part in parts if not isinstance(part, Cluster)), None)
        if wrong is not None:
            raise TopologyError(f"mixed: {wrong!r} is no cluster; it joins clusters")
        runs, fabric, faults = changes.joined(parts)
        return cls(name=name, runs=runs, fabric=fabric, faults=faults)

    # -- files and views -------------------------------------------------------------------------

    @staticmethod
    @takes(TopologyError, path=FilePath(), nodes=Whole(minimum=1))
    def from_nccl_xml(
        path: str | os.PathLike[str], *, nodes: int = 1, gpu: str | os.PathLike[str] | Gpu | None = None
    ) -> Cluster:
        """`nodes` hosts as in a topology XML of NCCL or RCCL."""
        from proteus.cluster import readers

        return readers.load(path, kind="nccl-xml", gpu=gpu, nodes=nodes)

    @staticmethod
    @takes(TopologyError, path=FilePath(), nodes=Whole(minimum=1))
    def from_smi_topo(
        path: str | os.PathLike[str], *, gpu: str | os.PathLike[str] | Gpu | None = None, nodes: int = 1
    ) -> Cluster:
        """`nodes` hosts as in the output of ``nvidia-smi topo -m``."""
        from proteus.cluster import readers

        return readers.load(path, kind="smi-topo", gpu=gpu, nodes=nodes)

    @staticmethod
    @takes(TopologyError, path=FilePath(), nodes=Whole(minimum=1))
    def from_rocm_smi(
        path: str | os.PathLike[str], *, gpu: str | os.PathLike[str] | Gpu | None = None, nodes: int = 1
    ) -> Cluster:
        """`nodes` hosts as in the output of ``rocm-smi --showtopo``."""
        from proteus.cluster import readers

        return readers.load(path, kind="rocm-smi", gpu=gpu, nodes=nodes)

    @staticmethod
    @takes(TopologyError, path=FilePath(), nodes=Whole(minimum=1))
    def load_file(
        path: str | os.PathLike[str], gpu: str | os.PathLike[str] | Gpu | None = None, nodes: int = 1
    ) -> Cluster:
        """`nodes` hosts as in a topology file of any kind; the kind is found by looking."""
        from proteus.cluster import readers

        return readers.load(path, kind=None, gpu=gpu, nodes=nodes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was repaired or assumed while reading the file."""
        survey_warnings = self.survey.warnings if self.survey is not None else ()
        notes = [note for host, _ in self.runs for note in host.notes]
        if self.num_hosts > 1:
            notes += [note for host, _ in self.runs for note in host.network_notes]
        return tuple(dict.fromkeys((*survey_warnings, *notes)))

    def report(self) -> dict[str, Any]:
        """What one host is made of, as plain values for JSON."""
        return reports.report(self)

    def to_networkx(self, max_hosts: int | None = None) -> nx.DiGraph:
        """Vertices and links of the first `max_hosts` hosts and of the fabric, with their attributes."""
        return view.to_networkx(self, max_hosts)


def _kinds(host: Host) -> str:
    kinds = dict.fromkeys(gpu.name if gpu else "GPUs of unknown kind" for gpu in host.gpus)
    return " and ".join(kinds)
