"""Matrices as ``nvidia-smi topo -m`` prints them, for the tests to damage."""

from __future__ import annotations

from dataclasses import dataclass

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""

RANK = {"PIX": 1, "NODE": 4, "SYS": 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A host of two sockets with two PCIe switches each, and the right answer.

    `nvlink` is the word between all GPUs, or empty for PCIe only.
    """

    num_gpus: int
    num_nics: int
    nvlink: str

    @property
    def gpus(self) -> list[str]:
        return [f"GPU{i}" for i in range(self.num_gpus)]

    @property
    def nics(self) -> list[str]:
        return [f"NIC{i}" for i in range(self.num_nics)]

    def word(self, a: str, b: str) -> str:
        if a == b:
            return "X"
        if self.nvlink and a.startswith("GPU") and b.startswith("GPU"):
            return self.nvlink
        switches = [int(d[3:]) * 4 // (self.num_gpus if d.startswith("GPU") else self.num_nics) for d in (a, b)]
        if switches[0] == switches[1]:
            return "PIX"
        return "NODE" if switches[0] // 2 == switches[1] // 2 else "SYS"

    def numa(self, gpu: str) -> int:
        return int(int(gpu[3:]) >= self.num_gpus / 2)

    def nearest(self, gpu: str) -> tuple[str, ...]:
        far = {nic: RANK[self.word(gpu, nic)] for nic in self.nics}
        return tuple(nic for nic in self.nics if far[nic] == min(far.values()))

    def lines(self, separator: str = "\t") -> list[str]:
        columns = [*self.gpus, *self.nics]
        lists = {0: ["0-23,48-71", "0"], 1: ["24-47", "1"]}
        lines = [separator + separator.join([*columns, "CPU Affinity", "NUMA Affinity"])]
        for row in columns:
            cells = [" X " if row == column else self.word(row, column) for column in columns]
            lines.append(separator.join([row, *cells, *(lists[self.numa(row)] if row in self.gpus else [])]))
        return lines
