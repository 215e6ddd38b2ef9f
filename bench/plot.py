"""Plots as SVG, drawn here: bars that lie, and lines over a number. Nothing here knows what is measured.

The background is left out, and every colour is of a middle tone, so that a plot can be read on
white and on black; text is a little lighter where the reader prefers the dark. Every text is escaped.
What has a colour in one plot has it in all that are given the same names in the same order.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

COLOURS = ("#7d8aa0", "#b58a3e", "#12908a", "#63b38f", "#cf5f59", "#8d76c4", "#b0699b")
WIDTH = 760
LEFT, RIGHT = 150, 70
TOP, BOTTOM = 74, 46
BAR, GAP = 15, 14
HEIGHT = 380
MARK = 13
LABEL = 13
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #727a87; }
.title { font-size: 15px; font-weight: 600; }
.grid { stroke: #808893; stroke-opacity: 0.3; }
.line { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) { text { fill: #a3abb7; } }
"""


@dataclass(frozen=True)
class Group:
    """Bars that stand together: `values[series]`, where a series may be missing."""

    name: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    of: str
    """What the line belongs to: lines of one thing have one colour."""
    is_dashed: bool = False


@dataclass(frozen=True)
class Scale:
    """From a value to a place between two ends. On a logarithmic one each tick is ten times the one before."""

    ticks: Sequence[float]
    start: float
    end: float
    is_log: bool

    def place(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        if self.is_log:
            value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def scale_of(values: Sequence[float], start: float, end: float, *, is_log: bool) -> Scale:
    positive = [value for value in values if value > 0] or [1.0]
    if is_log:
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        return Scale([10.0**power for power in range(low, max(high, low + 1) + 1)], start, end, is_log=True)
    most = max(positive)
    raw = most / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= raw)
    return Scale([step * number for number in range(math.ceil(most / step) + 1)], start, end, is_log=False)


def bars(title: str, axis: str, groups: Sequence[Group], names: Sequence[str], *, is_log: bool = False) -> str:
    """One bar per group and series, with its number at its end."""
    colours = colours_of(names)
    values = [value for group in groups for value in group.values.values()]
    height = TOP + BOTTOM + sum(len(group.values) * BAR + GAP for group in groups)
    scale = scale_of(values, LEFT, WIDTH - RIGHT, is_log=is_log)
    shown = {name: colour for name, colour in colours.items() if any(name in group.values for group in groups)}
    parts = [heading(title), legend(shown), *upright_grid(scale, height - BOTTOM, axis)]
    y = TOP + GAP / 2
    for group in groups:
        middle = y + len(group.values) * BAR / 2
        parts.append(text(LEFT - 10, middle + 4, group.name, "end"))
        for name, value in group.values.items():
            end = scale.place(value)
            shape = f'x="{LEFT}" y="{y + 1:.1f}" width="{max(end - LEFT, 1):.1f}" height="{BAR - 2}"'
            parts.append(
                f'<rect {shape} fill="{colours[name]}">'
                f"<title>{escape(f'{group.name}, {name}: {exact(value)}')}</title></rect>"
            )
            parts.append(text(max(end, LEFT + 1) + 5, y + BAR - 3, exact(value)))
            y += BAR
        y += GAP
    return document(height, title, parts)


def lines(
    title: str, across: str, up: str, drawn: Sequence[Line], names: Sequence[str], *, is_log: bool = False
) -> str:
    """Lines over a number that grows by factors: its places are evenly apart by their logarithm."""
    colours = colours_of(names)
    points = [point for line in drawn for point in line.points]
    places = sorted({x for x, _ in points})
    vertical = scale_of([y for _, y in points], HEIGHT - BOTTOM, TOP, is_log=is_log)
    left = 70
    horizontal = log_place(places, left + 20, WIDTH - RIGHT)
    shown = {name: colour for name, colour in colours.items() if any(line.of == name for line in drawn)}
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts = [
        heading(title),
        legend(shown),
        text(0, 0, axis_of(up, vertical), "middle", f"translate(20 {middle}) rotate(-90)"),
    ]
    for tick in vertical.ticks:
        y = vertical.place(tick)
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{WIDTH - RIGHT + 12}" y2="{y:.1f}"/>')
        parts.append(text(left - 8, y + 4, number(tick), "end"))
    for x in places:
        parts.append(text(horizontal(x), HEIGHT - BOTTOM + 18, number(x), "middle"))
    parts.append(text((left + WIDTH - RIGHT) / 2, HEIGHT - 8, across, "middle"))
    ends = []
    for line in drawn:
        colour = colours[line.of]
        at = [(horizontal(x), vertical.place(y)) for x, y in line.points]
        dashes = ' stroke-dasharray="6 4"' if line.is_dashed else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline class="line" points="{path}" stroke="{colour}"{dashes}/>')
        for (x, y), (where, value) in zip(at, line.points, strict=True):
            told = escape(f"{line.name}, {number(where)}: {exact(value)}")
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{told}</title></circle>')
        ends.append((at[-1], exact(line.points[-1][1])))
    return document(HEIGHT, title, [*parts, *end_labels(ends)])


def end_labels(ends: Sequence[tuple[tuple[float, float], str]]) -> list[str]:
    """Beside the ends of the lines, from above; one that would lie on another is moved below it."""
    parts, lowest = [], 0.0
    for (x, y), words in sorted(ends, key=lambda end: end[0][1]):
        lowest = max(y, lowest + LABEL)
        parts.append(text(x + 9, lowest + 4, words))
    return parts


def log_place(places: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    low, high = math.log10(places[0]), math.log10(places[-1])
    return lambda x: start if high == low else start + (math.log10(x) - low) / (high - low) * (end - start)


def upright_grid(scale: Scale, bottom: float, axis: str) -> list[str]:
    parts = [text((LEFT + WIDTH - RIGHT) / 2, bottom + 38, axis_of(axis, scale), "middle")]
    for tick in scale.ticks:
        x = scale.place(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(text(x, bottom + 18, number(tick), "middle"))
    return parts


def axis_of(words: str, scale: Scale) -> str:
    return f"{words} (logarithmic)" if scale.is_log else words


def heading(title: str) -> str:
    return f'<text class="title" x="16" y="26">{escape(title)}</text>'


def legend(colours: Mapping[str, str]) -> str:
    parts, x = [], 16.0
    for name, colour in colours.items():
        parts.append(f'<rect x="{x:.1f}" y="40" width="{MARK}" height="{MARK}" fill="{colour}"/>')
        parts.append(text(x + MARK + 6, 51, name))
        x += MARK + 24 + 7.2 * len(name)
    return "".join(parts)


def colours_of(names: Sequence[str]) -> dict[str, str]:
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}


def text(x: float, y: float, words: str, anchor: str = "start", transform: str = "") -> str:
    turned = f' transform="{transform}"' if transform else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{escape(words)}</text>'


def number(value: float) -> str:
    """As short as it can be: for a tick."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def exact(value: float) -> str:
    """With three digits at least: for a figure."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def document(height: float, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img" aria-label={quoteattr(title)}>'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])
