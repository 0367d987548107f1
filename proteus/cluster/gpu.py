"""What a GPU's data sheet says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proteus.cluster.kinds import PCIE_X16_BPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as training frameworks see it (one GCD of an MI250, one die of a K80).

    Parameters
    ----------
    name
        Catalogue name, such as ``"a100-80gb"``.
    vendor
        ``"nvidia"`` or ``"amd"``.
    generation
        ``"kepler"``, ``"maxwell"``, ``"pascal"``, ``"volta"``, ``"turing"``, ``"ampere"``, ``"ada"``,
        ``"hopper"``, ``"blackwell"``, ``"vega20"``, ``"cdna1"``, ``"cdna2"``, ``"cdna3"`` or ``"cdna4"``.
    memory_bytes
        What the driver reports as total [bytes].
    memory_Bps
        Peak of the device memory [B/s].
    peak_flops
        Dense peak by dtype [FLOP/s], keys ``fp32``, ``tf32``, ``fp16``, ``bf16``, ``fp8``, ``nvfp4`` where the
        GPU has them.  Read only.
    nvlink_Bps
        All NVLink or xGMI ports together, one direction [B/s]; 0 without any.
    nvlink_links
        Number of those ports.
    has_nvswitch
        Whether its usual node joins these GPUs by NVSwitch.
    c2c_Bps
        Chip-to-chip link to its Grace CPU, one direction [B/s]; 0 without one.
    pcie_gen
        Generation of its 16 PCIe lanes.
    tdp_w
        Board power [W], or None when not known.
    num_sms
        Streaming multiprocessors or compute units, or None when not known.
    source
        Where the figures come from.
    """

    name: str
    vendor: str
    generation: str
    memory_bytes: int
    memory_Bps: float
    peak_flops: Mapping[str, float] = field(hash=False)
    nvlink_Bps: float
    nvlink_links: int
    has_nvswitch: bool
    c2c_Bps: float
    pcie_gen: int
    tdp_w: float | None
    num_sms: int | None
    source: str = field(repr=False)

    @property
    def pcie_Bps(self) -> float:
        """Its 16 PCIe lanes, one direction [B/s]."""
        return PCIE_X16_BPS[self.pcie_gen]

    @property
    def nvlink_port_Bps(self) -> float:
        """One NVLink or xGMI port, one direction [B/s]; 0 without any."""
        return self.nvlink_Bps / self.nvlink_links if self.nvlink_links else 0.0
