"""Charts as inline SVG by matplotlib, which is imported only for drawing."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sized
from html import escape
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

from replay.report.render.document import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LONGEST = 30
_STATIC = ".static.k8s.io"
_SEPARATORS = re.compile(r"[-./_: ]")


def short_labels(names: Iterable[str]) -> list[str]:
    """Return a label for each name.

    A common start or end of the long names is removed first, then the middle of a name.
    """
    plain = [name.removesuffix(_STATIC) for name in names]
    long = [name for name in plain if len(name) > LONGEST]
    start = _whole_parts(long)
    end = _whole_parts([name[start:][::-1] for name in long])
    return [_cut(_without(name, start, end)) if len(name) > LONGEST else name for name in plain]


def _whole_parts(names: list[str]) -> int:
    """Return the length of a common prefix of several names, up to the end of a part."""
    shared = commonprefix(names) if len(set(names)) > 1 else ""  # noqa: RUF071 - names, not paths
    return max((separator.end() for separator in _SEPARATORS.finditer(shared)), default=0)


def _without(name: str, start: int, end: int) -> str:
    middle = name[start : len(name) - end]
    return f"{'…' if start else ''}{middle}{'…' if end else ''}"


def _cut(name: str) -> str:
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST // 2]}…{name[len(name) - LONGEST // 2 + 1 :]}"


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A00", "#999999")
MARKERS = "osD^vPX*"
LEGEND = 60
WIDEST = 44
"""Number of characters of names and ticks that fit side by side below a chart."""
FEW_COLUMNS = 8
WIDTH = 6.4
"""Width in inches. It is readable on a phone without scrolling, and is scaled up on a desktop."""
_INK = "#123456"  # a colour that nothing else has; replaced by `currentColor` in the drawing
MAX_SERIES = len(COLOURS)


def draw(chart: Chart) -> str:
    """Return an `<svg>` element with a title and the chart's text alternative."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only drawing should cost
    from matplotlib.figure import Figure  # noqa: PLC0415

    style: dict[Any, Any] = {
        "svg.hashsalt": chart.id,
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 11,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH, _height(chart)), layout="constrained")
        axes = figure.add_subplot()
        {"spans": _spans, "lines": _lines, "heat": _heat}[chart.kind](axes, chart)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue(), chart)


def _height(chart: Chart) -> float:
    """Return the height in inches. It depends on the rows of spans and heat maps, and on the legend of lines."""
    if chart.kind == "spans":
        return 0.7 + 0.36 * len(chart.series)
    if chart.kind == "heat":
        return 1.7 + 0.3 * len(chart.series)
    return 2.9 + 0.2 * math.ceil(len(chart.series) / _legend_columns(chart))


def _legend_columns(chart: Chart) -> int:
    """Return as many legend columns as the longest name allows."""
    return min(max(LEGEND // max(map(len, short_labels(chart.series)), default=1), 1), 3)


def _spans(axes: Axes, chart: Chart) -> None:
    """Draw a line from the first to the last place of each row, and bars on it for the amount at each place."""
    names = _labels(chart.series)
    rows = zip(names, chart.series.values(), chart.spans, chart.notes, strict=True)
    for y, (name, values, (first, last), note) in enumerate(rows):
        top = max(values, default=0) or 1
        places = [i for i, value in enumerate(values) if value]
        heights = [0.08 + 0.4 * values[i] / top for i in places]
        axes.bar(places, [-h for h in heights], width=0.9, bottom=y + 0.34, align="edge", color=COLOURS[0], alpha=0.55)
        axes.plot([first, last], [y + 0.34, y + 0.34], color=COLOURS[1], linewidth=1.4, marker="|", markersize=9)
        axes.annotate(name, (0, y - 0.16), ha="left", va="bottom", fontsize=9.5)
        axes.annotate(note, (len(chart.labels), y - 0.16), ha="right", va="bottom", fontsize=8.5, alpha=0.85)
    axes.set_xlim(0, len(chart.labels))
    axes.set_ylim(len(names) - 0.5, -0.75)
    _time_ticks(axes, chart)
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)


def _time_ticks(axes: Axes, chart: Chart) -> None:
    """Set as many time labels as fit."""
    step = max(1, -(-len(chart.labels) // (WIDEST // max(len(label) for label in chart.labels))))
    axes.set_xticks([*range(0, len(chart.labels), step)], list(chart.labels[::step]))


def _lines(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    positions = list(range(len(chart.labels)))
    names = _labels(chart.series)
    for colour, marker, name, values in zip(COLOURS, MARKERS, names, chart.series.values(), strict=False):
        # Shapes tell lines apart where colours do not: on grey paper, and for who cannot see them.
        axes.plot(positions, values, color=colour, label=name, linewidth=1.6, marker=marker, markersize=4.5)
    _time_ticks(axes, chart)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))
    axes.set_ylabel(chart.unit)
    axes.yaxis.grid(visible=True, color="#88888844", linewidth=0.7)
    axes.legend(
        frameon=False, fontsize=10, ncols=_legend_columns(chart), loc="upper left", bbox_to_anchor=(-0.02, -0.1)
    )


def _heat(axes: Axes, chart: Chart) -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_rgb  # noqa: PLC0415

    rows = list(chart.series.values())
    top = max((value for row in rows for value in row), default=0) or 1
    # More is more opaque, so that it stands out from a light page and from a dark one.
    blue = to_rgb(COLOURS[0])
    # A mesh of vector cells: an image would be embedded as a picture that neither scales nor prints well.
    axes.pcolormesh(
        [[value / top if value else math.nan for value in row] for row in rows],  # nothing is drawn where nothing is
        cmap=LinearSegmentedColormap.from_list("share", [(*blue, 0.12), (*blue, 1.0)]),
        vmin=0,
        vmax=1,
        edgecolors="#8888882e",
    )
    most = 10_000 if len(chart.labels) <= FEW_COLUMNS else 1_000  # from where only thousands fit into a cell
    axes.invert_yaxis()
    axes.set_xticks(_middles(chart.labels), _labels(chart.labels), rotation=35, ha="right")
    axes.set_yticks(_middles(rows), _labels(chart.series))
    axes.tick_params(length=0)
    axes.spines[["bottom", "left"]].set_visible(False)
    for y, row in enumerate(rows):
        for x, value in enumerate(row):
            if value:
                colour = "white" if value > 0.55 * top else _INK
                place = (x + 0.5, y + 0.5)
                text = f"{value:,.0f}" if value < most else f"{value / 1000:,.0f}k"
                axes.annotate(text, place, ha="center", va="center", color=colour, fontsize=8.5)


def _middles(items: Sized) -> list[float]:
    return [i + 0.5 for i in range(len(items))]


def _labels(names: Iterable[str]) -> list[str]:
    """Return short labels, with dollar signs escaped, because matplotlib would start mathematics at them."""
    return [label.replace("$", r"\$") for label in short_labels(names)]


def _inline(svg: str, chart: Chart) -> str:
    """Return only the element. It follows the page's colour and width, and has a name for screen readers."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = body.replace(_INK, "currentColor").replace("sans-serif", "inherit")
    view = re.search(r'viewBox="[^"]*"', body)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {view[0] if view else ""} '
    )
    head += f'role="img" aria-labelledby="{chart.id}-title {chart.id}-text">'
    head += f'<title id="{chart.id}-title">{escape(chart.title)}</title>'
    head += f'<desc id="{chart.id}-text">{escape(chart.alternative)}</desc>'
    body = head + body[body.index(">") + 1 :]
    # Element ids must not repeat between the charts of one page.
    body = re.sub(r'id="(?!' + re.escape(chart.id) + r'-)([^"]+)"', rf'id="{chart.id}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{chart.id}-\1)", body)
    return re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{chart.id}-\1"', body)
