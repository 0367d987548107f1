"""Memory of a device over time, as the timeline shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from proteus_widgets.columns import buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTrack:
    """Live bytes of one device over time: `live_bytes[i]` holds from `time_s[i]` on."""

    device: int
    time_s: np.ndarray
    live_bytes: np.ndarray
    capacity_bytes: float

    def message(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "time": buffer(self.time_s, "f8"),
            "live": buffer(self.live_bytes, "f8"),
            "capacity": self.capacity_bytes,
            "peak": float(self.live_bytes.max(initial=0.0)),
        }
