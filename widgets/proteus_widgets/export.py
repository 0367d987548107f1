"""One offline HTML file with the linked views of a result.

It holds the same views as the workbench, the columns as one compressed blob,
and nothing that is fetched.  Names are data in it, never markup.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget

from proteus.files import atomic_write
from proteus.result.headline import idle_warning
from proteus_widgets.assets import module, style
from proteus_widgets.columns import buffer
from proteus_widgets.explain import why
from proteus_widgets.facts import memory_verdict, metrics
from proteus_widgets.reading import busy_by_device, critical_mask, first_link, members, memory_tracks, node_shares
from proteus_widgets.selection import NOTHING
from proteus_widgets.timeline import Timeline
from proteus_widgets.topology import TopologyView
from proteus_widgets.tree import TreeView

if TYPE_CHECKING:
    from proteus.result.result import Result

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1><p>{subtitle}</p>{warning}</header>
<main class="pt-workbench">
<table class="report-numbers"><thead><tr>{labels}</tr></thead><tbody><tr>{values}</tr></tbody></table>
<div class="report-row"><div id="tree"></div><div id="topology"></div></div>
<div id="timeline"></div>
<div id="why"></div>
<footer><p>{assumptions}</p></footer>
</main>
<script type="application/json" id="state">{state}</script>
<script type="text/plain" id="columns">{columns}</script>
<script type="module">{program}</script>
</body>
</html>
"""


def write_html(result: Result, path: str | os.PathLike[str]) -> None:
    """Write the report of `result` to `path`."""
    with atomic_write(path) as partial:
        Path(partial).write_text(html(result), encoding="utf-8")


def html(result: Result) -> str:
    """The report as text."""
    blob = bytearray()
    state = _packed(_state(result), blob)
    numbers = [(metric.label, metric.show(metric.read(result))) for metric in metrics(result)]
    numbers.append(("Likely step time", result.step_time_band.ends))
    numbers.append(("Memory", memory_verdict(result)))
    return PAGE.format(
        title=escape(f"{result.model.name} on {result.num_devices} GPUs"),
        subtitle=escape(f"{result.headline} · {result.cluster!r}"),
        warning=f'<p class="pt-warning">{escape(warning)}</p>' if (warning := idle_warning(result)) else "",
        labels="".join(f'<th scope="col">{escape(label)}</th>' for label, _ in numbers),
        values="".join(f"<td>{escape(value)}</td>" for _, value in numbers),
        assumptions=escape("Assumed: " + "; ".join(line for line in result.assumptions if line != warning)),
        style=style("report"),
        state=json.dumps(state, separators=(",", ":")).replace("<", "\\u003c"),
        columns=base64.b64encode(gzip.compress(bytes(blob), 6, mtime=0)).decode(),
        program=module("report"),
    )


def _state(result: Result) -> dict[str, Any]:
    spans, rows = result.spans, result.tree.rows()
    first = first_link(result)
    timeline, topology, tree = Timeline(), TopologyView(), TreeView()
    timeline.show_whole(
        spans,
        result.timeline.makespan_s,
        memory=memory_tracks(result),
        critical=critical_mask(result),
        members=members(result),
    )
    timeline.light(NOTHING)
    topology.show(result.cluster, result.link_utilisation, busy_by_device(result), first)
    topology.closable = False
    tree.show(rows, node_shares(result, rows))
    drawn = sorted({link for edge in topology.picture["edges"] for link in edge["links"]})
    extra = {
        "parents": [row.parent for row in rows],
        "first_link": [[link, int(first[link])] for link in drawn],
        "pattern_ptr": buffer(spans.pattern_ptr, "i4"),
        "pattern_link": buffer(spans.pattern_link, "i4"),
    }
    views = {"timeline": _traits(timeline), "topology": _traits(topology), "tree": _traits(tree)}
    views["why"] = {"why": {**why(result, band=result.step_time_band), "changes": [], "advice": False}}
    return {"views": views, "extra": extra}


def _traits(widget: anywidget.AnyWidget) -> dict[str, Any]:
    """The synced traits that our own class declares (those of its bases are about Jupyter)."""
    common = set(anywidget.AnyWidget.class_trait_names())
    trait_names = [name for name in widget.trait_names(sync=True) if name not in common and not name.startswith("_")]
    return {name: getattr(widget, name) for name in trait_names}


def _packed(value: Any, blob: bytearray) -> Any:
    """`value` with its buffers moved into `blob`, each at a multiple of 8 bytes."""
    if isinstance(value, memoryview | bytes):
        blob.extend(b"\0" * (-len(blob) % 8))
        at = len(blob)
        blob.extend(value)
        return {"$": [at, len(value)]}
    if isinstance(value, dict):
        return {name: _packed(item, blob) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(item, blob) for item in value]
    return value
