"""Bokeh figures of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.models import ColumnDataSource, DataRange1d, HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.renderers import DataRenderer
from bokeh.plotting import figure
from bokeh.themes import Theme

from proteus.cluster.kinds import LinkKind
from proteus.units import GiB
from proteus_widgets.palette import BLUE, GREEN, GREY, LOOKS, ORANGE, PURPLE, SKY, VERMILION, YELLOW
from proteus_widgets.roofline import roofline as roofline_of

if TYPE_CHECKING:
    from bokeh.plotting import figure as Figure

    from proteus.result.result import Result

OWNERS = (BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE, YELLOW, GREY)
MAX_DEVICES = 64  # more rows than this cannot be distinguished
LEGEND_COLUMNS = 4  # a chart may be as narrow as 440 pixels
MS = 1e3
TERA = 1e12
#: diameters of the operators in the roofline [px]: the least, and what is added for all the time of the step
DOT, DOT_FOR_ALL = 7.0, 26.0


def theme(*, dark: bool) -> Theme:
    """Colours of JupyterLab's light and dark themes; the background is the page's own."""
    text, line = ("#e0e0e0", "#4a4a4a") if dark else ("#303030", "#dcdcdc")
    axis = {
        "axis_label_text_color": text,
        "major_label_text_color": text,
        "axis_line_color": line,
        "major_tick_line_color": line,
        "minor_tick_line_color": None,
        "axis_label_text_font_style": "normal",
    }
    attributes = {
        "Plot": {"background_fill_color": None, "border_fill_color": None, "outline_line_color": None},
        "Axis": axis,
        "Grid": {"grid_line_color": line},
        "Title": {"text_color": text, "text_font_size": "12px"},
        "Legend": {
            "background_fill_alpha": 0.0,
            "border_line_color": None,
            "label_text_color": text,
            "label_text_font_size": "11px",
            "glyph_width": 14,
            "spacing": 14,
            "padding": 2,
            "location": "left",
        },
    }
    return Theme(json={"attrs": attributes})


def _figure(title: str, **options: Any) -> Figure:
    plot = figure(
        title=title, height=290, sizing_mode="stretch_width", tools="pan,xwheel_zoom,box_zoom,reset", **options
    )
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    return plot


def memory(result: Result) -> Figure:
    """Live bytes by owner over the step, on the device with the highest peak."""
    device = result.peak_device
    steps = result.memory_over_time[device]
    plot = _figure(f"Memory of GPU {device} by owner", x_axis_label="time [ms]", y_axis_label="GiB")
    end_s = result.timeline.makespan_s
    at = np.concatenate([[0.0], steps.time_s, [end_s]])
    columns = {"time": np.repeat(at, 2)[1:-1] * MS}  # two points a step: the level before and after
    owners = [owner for owner, live in steps.by_owner.items() if live.max(initial=0.0) > 0.0]
    for owner in owners:
        live = steps.by_owner[owner]
        columns[owner] = np.repeat(np.concatenate([live[:1], live]), 2) / GiB
    colours = [OWNERS[i % len(OWNERS)] for i in range(len(owners))]
    plot.varea_stack(owners, x="time", color=colours, alpha=0.85, legend_label=owners, source=ColumnDataSource(columns))
    capacity = result.cluster.gpu(device).memory_bytes / GiB
    plot.line([0, end_s * MS], [capacity, capacity], color=VERMILION, line_dash="dashed", legend_label="capacity")
    plot.x_range = Range1d(start=0, end=end_s * MS)
    plot.y_range = DataRange1d(start=0)
    _legend_outside(plot)
    return plot


def breakdown(result: Result) -> Figure:
    """What each device does during the step."""
    rows = list(result.devices)[:MAX_DEVICES]
    parts = {
        "compute": ([row.busy_s for row in rows], BLUE),
        "exposed communication": ([sum(row.exposed_s.values()) for row in rows], VERMILION),
        "waiting": ([row.waiting_s + row.host_s for row in rows], YELLOW),
        "bubble": ([row.bubble_s for row in rows], GREY),
    }
    labels = [f"GPU {row.device}" + (f" ×{row.multiplicity}" if row.multiplicity > 1 else "") for row in rows]
    columns: dict[str, Any] = {"device": labels}
    columns |= {name: np.array(values) * MS for name, (values, _) in parts.items()}
    plot = _figure("Time per device", y_range=labels[::-1], x_axis_label="time [ms]")
    plot.hbar_stack(
        list(parts),
        y="device",
        height=0.75,
        color=[colour for _, colour in parts.values()],
        legend_label=list(parts),
        source=ColumnDataSource(columns),
    )
    plot.add_tools(HoverTool(tooltips=[("", "@device"), *((name, f"@{{{name}}}{{0.00}} ms") for name in parts)]))
    plot.ygrid.grid_line_color = None
    plot.x_range = DataRange1d(start=0)
    _legend_outside(plot)
    return plot


def links(result: Result) -> Figure:
    """Use of the links by kind: the busiest and the mean."""
    kind = np.asarray(result.cluster.link_kind)
    use = np.asarray(result.link_utilisation)
    kinds = [k for k in LinkKind if (use[kind == k] > 0).any()]
    labels = [k.name.replace("_", " ").lower() for k in kinds]
    columns = {
        "kind": labels,
        "busiest": [use[kind == k].max() for k in kinds],
        "mean": [use[kind == k].mean() for k in kinds],
    }
    plot = _figure("Link utilisation over the step", x_range=labels or ["none"], y_axis_label="share of capacity")
    source = ColumnDataSource(columns)
    plot.vbar(x="kind", top="busiest", width=0.6, color=SKY, legend_label="busiest link", source=source)
    plot.vbar(x="kind", top="mean", width=0.3, color=BLUE, legend_label="mean", source=source)
    plot.y_range = Range1d(start=0, end=1)
    plot.yaxis.formatter = NumeralTickFormatter(format="0 %")
    plot.xgrid.grid_line_color = None
    plot.add_tools(HoverTool(tooltips=[("", "@kind"), ("busiest", "@busiest{0.0 %}"), ("mean", "@mean{0.0 %}")]))
    _legend_outside(plot)
    return plot


def roofline(result: Result) -> Figure:
    """Operators below the roof of the GPU, as large as the time that they take."""
    data = roofline_of(result)
    plot = _figure(
        f"Roofline of {data.gpu}",
        x_axis_type="log",
        y_axis_type="log",
        x_axis_label="FLOP per byte of memory traffic",
        y_axis_label="TFLOP/s",
    )
    ridge = data.peak_flops / data.memory_Bps
    intensities = [point.intensity for point in data.points]
    edges = np.array([min([*intensities, ridge]) / 2.0, ridge, max([*intensities, ridge]) * 2.0])
    roof = np.minimum(edges * data.memory_Bps, data.peak_flops) / TERA
    plot.line(edges, roof, color=VERMILION, line_width=2, legend_label="roof")
    dots: list[DataRenderer] = []
    for kind in sorted({point.kind for point in data.points}):
        points = [point for point in data.points if point.kind == kind]
        columns: dict[str, Any] = {
            "name": [point.name for point in points],
            "intensity": [point.intensity for point in points],
            "flops": [point.flops / TERA for point in points],
            "of_roof": [point.flops / min(data.peak_flops, point.intensity * data.memory_Bps) for point in points],
            "share": [point.share for point in points],
            "size": [DOT + DOT_FOR_ALL * point.share**0.5 for point in points],
        }
        look = LOOKS[kind]
        dot = plot.scatter(
            x="intensity",
            y="flops",
            size="size",
            color=look.colour,
            alpha=0.75,
            marker="diamond" if look.hatch else "circle",
            legend_label=look.label,
            source=ColumnDataSource(columns),
            name="ops",
        )
        dots.append(dot)
    tips = [("", "@name"), ("intensity", "@intensity{0,0.0} FLOP/B"), ("speed", "@flops{0.0} TFLOP/s")]
    tips += [("of the roof", "@of_roof{0 %}"), ("share of compute time", "@share{0.0 %}")]
    plot.add_tools(HoverTool(tooltips=tips, renderers=dots))
    _legend_outside(plot)
    return plot


def _legend_outside(plot: Figure) -> None:
    legend = plot.legend[0]
    plot.add_layout(legend, "below")
    legend.orientation = "horizontal"
    legend.ncols = LEGEND_COLUMNS
