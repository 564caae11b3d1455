"""Line charts as SVG, both axes logarithmic. Only the standard library."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, MARGIN_LEFT, MARGIN_TOP, GAP_X, GAP_Y = 430, 280, 64, 46, 78, 92
COLOURS = ["#1f6f8b", "#d1495b", "#6a994e", "#7b5ea7", "#e09f3e", "#444444", "#5aa9c9", "#a44a3f"]


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def number_text(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


class Chart:
    """One panel: `lines` maps a name to its (x, y) points."""

    def __init__(self, title, unit, lines, x_text=size_text):
        self.title, self.unit, self.x_text = title, unit, x_text
        self.lines = {name: sorted(points) for name, points in lines.items() if points}

    def draw(self, left, top, colours):
        xs = sorted({x for points in self.lines.values() for x, _ in points})
        ys = [y for points in self.lines.values() for _, y in points]
        if not xs:
            return []
        low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
        high = max(high, low + 1)
        first, last = math.log(xs[0]), math.log(xs[-1]) if len(xs) > 1 else math.log(xs[0]) + 1

        def at_x(x):
            return left + (math.log(x) - first) / (last - first) * WIDTH

        def at_y(y):
            return top + HEIGHT - (math.log10(y) - low) / (high - low) * HEIGHT

        out = [f'<text x="{left}" y="{top - 14}" class="title">{escape(self.title)}</text>']
        for power in range(low, high + 1):
            y = at_y(10.0 ** power)
            out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + WIDTH}" y2="{y:.1f}" class="grid"/>')
            out.append(f'<text x="{left - 8}" y="{y + 4:.1f}" class="end">{number_text(10.0 ** power)}</text>')
        for x in xs:
            out.append(f'<text x="{at_x(x):.1f}" y="{top + HEIGHT + 18}" class="middle">{escape(self.x_text(x))}</text>')
        out.append(f'<text x="{left - 52}" y="{top - 14}" class="unit">{escape(self.unit)}</text>')
        for name, points in self.lines.items():
            path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="2"/>')
            out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colours[name]}"/>' for x, y in points]
        return out


def write_svg(path, charts, columns=2):
    names = list(dict.fromkeys(name for chart in charts for name in chart.lines))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    rows = (len(charts) + columns - 1) // columns
    width = MARGIN_LEFT + columns * (WIDTH + GAP_X)
    legend_rows = (len(names) + 3) // 4
    height = MARGIN_TOP + rows * (HEIGHT + GAP_Y) + legend_rows * 22
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}.grid{stroke:#ddd}"
           ".end{text-anchor:end}.middle{text-anchor:middle}.unit{fill:#666}</style>",
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, chart in enumerate(charts):
        out += chart.draw(MARGIN_LEFT + i % columns * (WIDTH + GAP_X), MARGIN_TOP + i // columns * (HEIGHT + GAP_Y),
                          colours)
    for i, name in enumerate(names):
        x, y = MARGIN_LEFT + i % 4 * 240, height - legend_rows * 22 + i // 4 * 22
        out.append(f'<rect x="{x}" y="{y - 10}" width="14" height="4" fill="{colours[name]}"/>')
        out.append(f'<text x="{x + 20}" y="{y - 4}">{escape(name)}</text>')
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


def write_bars(path, title, groups):
    """Horizontal bars on a logarithmic axis around 1: `groups` maps a title to the value of each name."""
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    known = [value for values in groups.values() for value in values.values() if value > 0]
    low = min(-1, math.floor(math.log10(min(known, default=1))))
    high = max(1, math.ceil(math.log10(max(known, default=1))))
    left, top, bar, width = 270, 60, 13, 600

    def at_x(value):
        return left + (math.log10(value) - low) / (high - low) * width

    height = top + sum(len(values) * bar + 12 for values in groups.values()) + 60
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{height}" '
           f'viewBox="0 0 {left + width + 60} {height}">',
           "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}.grid{stroke:#ddd}"
           ".one{stroke:#222}.end{text-anchor:end}.middle{text-anchor:middle}</style>",
           f'<rect width="{left + width + 60}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="24" class="title">{escape(title)}</text>']
    for power in range(low, high + 1):
        x = at_x(10.0 ** power)
        out.append(f'<line x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{height - 56}" class="{"grid" if power else "one"}"/>')
        out.append(f'<text x="{x:.1f}" y="{top - 14}" class="middle">{number_text(10.0 ** power)}x</text>')
    y = top
    for group, values in groups.items():
        out.append(f'<text x="{left - 10}" y="{y + len(values) * bar / 2 + 4:.1f}" class="end">{escape(group)}</text>')
        for name, value in values.items():
            if value > 0:
                ends = sorted((at_x(1), at_x(value)))
                out.append(f'<rect x="{ends[0]:.1f}" y="{y}" width="{max(ends[1] - ends[0], 1):.1f}" height="{bar - 2}" '
                           f'fill="{colours[name]}"/>')
            y += bar
        y += 12
    for i, name in enumerate(names):
        x = left + i % 4 * 170
        out.append(f'<rect x="{x}" y="{height - 34}" width="14" height="6" fill="{colours[name]}"/>')
        out.append(f'<text x="{x + 20}" y="{height - 27}">{escape(name)}</text>')
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")
