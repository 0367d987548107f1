"""The interactive layer of Proteus: a session and its views in Jupyter."""

from __future__ import annotations

from proteus_widgets.session import Session
from proteus_widgets.workbench import Workbench

__all__ = ["Session", "Workbench"]
