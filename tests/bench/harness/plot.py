"""SVG charts: lines, steps and grouped bars with axes, units and a legend; several below one another in one file."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 380
LEFT, RIGHT, TOP, BOTTOM = 80, 270, 40, 80
NARROW = 78  # of a bar group; its label is then turned
COLOURS = ["#1f6fb2", "#d1495b", "#2f9e44", "#e08a00", "#7048a8", "#4a4a4a", "#0f9b9b", "#a0522d"]
DASHES = ["", "6 3", "2 3", "8 3 2 3"]


def _nice_step(span, count):
    raw = span / max(1, count)
    power = 10 ** math.floor(math.log10(raw)) if raw > 0 else 1
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)


def _label(value):
    if value == 0:
        return "0"
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{suffix}"
    return f"{value:.4g}"


class Axis:
    """Maps values to pixels; linear from zero or logarithmic."""

    def __init__(self, values, low_pixel, high_pixel, logarithmic):
        positive = [value for value in values if value > 0]
        self.logarithmic = logarithmic and bool(positive)
        self.low_pixel, self.high_pixel = low_pixel, high_pixel
        if self.logarithmic:
            self.low = 10 ** math.floor(math.log10(min(positive)))
            self.high = 10 ** math.ceil(math.log10(max(max(positive), self.low * 1.0001)))
            self.ticks = [10.0 ** n for n in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]
        else:
            low, high = min([0, *values]), max([0, *values])
            step = _nice_step((high - low) or 1, 6)
            self.low, self.high = math.floor(low / step) * step, math.ceil(((high - low) or 1) / step + low / step) * step
            self.ticks = [self.low + n * step for n in range(round((self.high - self.low) / step) + 1)]

    def at(self, value):
        if self.logarithmic:
            value = max(value, self.low)
            share = math.log10(value / self.low) / math.log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.low_pixel + share * (self.high_pixel - self.low_pixel)


def _text(x, y, text, anchor="middle", size=12, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {more}>{escape(str(text))}</text>'


def _line(x1, y1, x2, y2, colour, width=1.0, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}" {more}/>'


def _frame(chart, y_axis):
    parts = [_text(LEFT, 22, chart["title"], "start", 15, 'font-weight="bold"'),
             _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, chart["x_label"]),
             _text(18, (TOP + HEIGHT - BOTTOM) / 2, chart["y_label"],
                   more=f'transform="rotate(-90 18 {(TOP + HEIGHT - BOTTOM) / 2:.1f})"')]
    for tick in y_axis.ticks:
        y = y_axis.at(tick)
        parts += [_line(LEFT, y, WIDTH - RIGHT, y, "#dddddd"), _text(LEFT - 8, y + 4, _label(tick), "end")]
    parts += [_line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "#333333"),
              _line(LEFT, TOP, LEFT, HEIGHT - BOTTOM, "#333333")]
    return parts


class Style:
    """A name has the same colour in all charts of a file."""

    def __init__(self, charts):
        self.names = list(dict.fromkeys(name for chart in charts for name in chart["series"]))

    def colour(self, name):
        return COLOURS[self.names.index(name) % len(COLOURS)]

    def dash(self, name):
        return DASHES[self.names.index(name) // len(COLOURS) % len(DASHES)]


def _legend(names, style, bars):
    parts = []
    for index, name in enumerate(names):
        y, x, colour = TOP + 8 + 20 * index, WIDTH - RIGHT + 16, style.colour(name)
        if bars:
            parts.append(f'<rect x="{x}" y="{y - 6}" width="22" height="11" fill="{colour}"/>')
        else:
            parts.append(_line(x, y, x + 22, y, colour, 2.5, f'stroke-dasharray="{style.dash(name)}"'))
        parts.append(_text(x + 28, y + 4, name, "start"))
    return parts


def _lines(chart, style):
    series = chart["series"]
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    x_axis = Axis(xs, LEFT, WIDTH - RIGHT, chart.get("log_x", False))
    y_axis = Axis(ys, HEIGHT - BOTTOM, TOP, chart.get("log_y", False))
    parts = _frame(chart, y_axis)
    for tick in x_axis.ticks:
        x = x_axis.at(tick)
        parts += [_line(x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, "#333333"), _text(x, HEIGHT - BOTTOM + 19, _label(tick))]
    for name, points in series.items():
        colour = style.colour(name)
        pixels = [(x_axis.at(x), y_axis.at(y)) for x, y in points]
        if chart["kind"] == "step":
            steps = [pixel for before, after in zip(pixels, pixels[1:]) for pixel in (before, (after[0], before[1]))]
            pixels = steps + pixels[-1:]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
                     f'stroke-dasharray="{style.dash(name)}"/>')
        if chart["kind"] == "line" and len(points) <= 40:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in pixels]
    return parts + _legend(list(series), style, bars=False)


def _bars(chart, style):
    series = chart["series"]
    categories = list(dict.fromkeys(category for values in series.values() for category in values))
    y_axis = Axis([y for values in series.values() for y in values.values()], HEIGHT - BOTTOM, TOP, chart.get("log_y", False))
    parts = _frame(chart, y_axis)
    slot = (WIDTH - RIGHT - LEFT) / max(1, len(categories))
    width = slot * 0.8 / max(1, len(series))
    zero = HEIGHT - BOTTOM if y_axis.logarithmic else y_axis.at(0)
    for place, category in enumerate(categories):
        x, y = LEFT + (place + 0.5) * slot, HEIGHT - BOTTOM + 17
        turned = slot < NARROW
        parts.append(_text(x, y, category, "end" if turned else "middle", 11,
                           f'transform="rotate(-35 {x:.1f} {y:.1f})"' if turned else ""))
        for index, (name, values) in enumerate(series.items()):
            if category in values:
                x, y = LEFT + place * slot + slot * 0.1 + index * width, y_axis.at(values[category])
                parts.append(f'<rect x="{x:.1f}" y="{min(y, zero):.1f}" width="{width * 0.92:.1f}" '
                             f'height="{max(0.5, abs(zero - y)):.1f}" fill="{style.colour(name)}"/>')
    return parts + _legend(list(series), style, bars=True)


def draw(charts):
    """The text of an SVG file."""
    charts = [chart for chart in charts if any(chart["series"].values())]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(charts)}" width="{WIDTH}" '
             f'height="{HEIGHT * len(charts)}" font-family="sans-serif" fill="#222222">',
             '<rect width="100%" height="100%" fill="#ffffff"/>']
    style = Style(charts)
    for index, chart in enumerate(charts):
        body = _bars(chart, style) if chart["kind"] == "bar" else _lines(chart, style)
        parts += [f'<g transform="translate(0 {index * HEIGHT})">', *body, "</g>"]
    return "\n".join([*parts, "</svg>", ""])
