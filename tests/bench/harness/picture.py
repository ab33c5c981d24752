"""The picture of README as SVG: for each flow a strip a tunnel, for each scene a column; ticks are packets that arrived, areas are
rates, and what is shaded is the longest pause. Colours follow the reader's light or dark setting."""
from xml.sax.saxutils import escape

LEFT, GAP, LABEL, MARGIN = 104, 18, 84, 14
PLOT_WIDTHS = (250, 312)  # of the scenes
STRIP, BETWEEN, BETWEEN_FLOWS = 30, 5, 30
HEAD, FOOT = 82, 72
FULL_SCALE = 1.2  # of the link's rate, for the height of a download's strip
FLOWS = (("download", "Download"), ("call", "Call"), ("ping", "Ping"))
COLOURS = {"Continuo": "ours", "wireguard-go": "peer"}
STYLE = """
text { font-family: sans-serif; fill: #1f2328; }
.card { fill: #ffffff; stroke: #d1d9e0; } .strip { fill: #f3f5f8; } .quiet { fill: #59636e; }
.ours { stroke: #0b63c5; } .peer { stroke: #b35900; } .area.ours { fill: #0b63c5; } .area.peer { fill: #b35900; }
text.ours { fill: #0b63c5; stroke: none; } text.peer { fill: #b35900; stroke: none; }
.pause { fill: #e5484d; fill-opacity: 0.28; } .event { stroke: #1f2328; stroke-dasharray: 3 3; } .tick { fill: none; stroke-width: 1; }
.area { stroke: none; fill-opacity: 0.75; } .axis { stroke: #8b949e; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .card { fill: #0d1117; stroke: #3d444d; } .strip { fill: #1b222b; } .quiet { fill: #9198a1; }
.ours { stroke: #58a6ff; } .peer { stroke: #f0a050; } .area.ours { fill: #58a6ff; stroke: none; } .area.peer { fill: #f0a050; stroke: none; }
text.ours { fill: #58a6ff; } text.peer { fill: #f0a050; } .pause { fill: #ff6b6b; fill-opacity: 0.35; } .event { stroke: #e6edf3; }
}"""


def _text(x, y, text, size=12, anchor="start", classes="", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
            f'{f" class={chr(34)}{classes}{chr(34)}" if classes else ""}>{escape(text)}</text>')


def _duration(ms):
    return f"{ms / 1000:.2g} s" if ms >= 995 else f"{ms:.0f} ms"


class Column:
    """A scene: where its times are."""

    def __init__(self, scene, left, width):
        self.scene, self.left, self.width = scene, left, width
        self.first, self.last = scene["first_s"] * 1000, scene["last_s"] * 1000

    def at(self, ms):
        share = (ms - self.first) / (self.last - self.first)
        return self.left + self.width * min(1, max(0, share))


def _strip(column, flow, told, label, top, scale):
    colour = COLOURS.get(label, "peer")
    bottom = top + STRIP
    parts = [f'<rect class="strip" x="{column.left:.1f}" y="{top}" width="{column.width}" height="{STRIP}"/>']
    end = column.last if told["stays_away"] else told["from_ms"] + told["pause_ms"]
    left, right = column.at(told["from_ms"]), column.at(end)
    parts.append(f'<rect class="pause" x="{left:.1f}" y="{top}" width="{max(1, right - left):.1f}" height="{STRIP}"/>')
    if flow == "download":
        bins = told["mbit_per_s"]
        step = column.width / max(1, len(bins))
        path = f"M{column.left:.1f} {bottom}" + "".join(
            f"V{bottom - min(1, value / scale) * (STRIP - 2):.1f}h{step:.2f}" for value in bins) + f"V{bottom}Z"
        parts.append(f'<path class="area {colour}" d="{path}"/>')
    else:
        inset = 7 if flow == "call" else 4
        ticks = "".join(f"M{column.at(ms):.1f} {top + inset}v{STRIP - 2 * inset}" for ms in told["arrivals_ms"])
        parts.append(f'<path class="tick {colour}" d="{ticks}"/>')
    return parts + _verdict(column, told, top)


def _verdict(column, told, top):
    x = column.left + column.width + 8
    if told["stays_away"]:
        return [_text(x, top + 13, "no return", 13, weight="bold"), _text(x, top + 26, "in this window", 10, classes="quiet")]
    return [_text(x, top + 13, _duration(told["pause_ms"]), 13, weight="bold"),
            _text(x, top + 26, f"before: {_duration(told['usual_ms'])}", 10, classes="quiet")]


def _axis(column, top, bottom):
    zero = column.at(0)
    parts = [f'<line class="event" x1="{zero:.1f}" y1="{top - 6}" x2="{zero:.1f}" y2="{bottom}"/>']
    step = 500 if column.last - column.first <= 2500 else 1000
    for ms in range(0, int(column.last) + 1, step):
        x = column.at(ms)
        parts += [f'<line class="axis" x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}"/>',
                  _text(x, bottom + 16, f"{ms / 1000:g} s", 11, "middle", "quiet")]
    return parts


def _caption(data):
    runs = f"The middle one of {data['runs']} runs each" if data["runs"] > 1 else "One run each"
    return (f"{runs}: two uplinks of {data['rate_mbit']} Mbit/s, a round trip of {data['rtt_ms']} ms, queues of {data['queue_ms']} ms. "
            f"Download: what arrived; full height is {data['rate_mbit'] * FULL_SCALE:g} Mbit/s.",
            f"Call and ping: each tick is a packet that arrived; one is sent each {data['call_interval_ms']} ms. "
            "Red: the pause; below its length, the longest just before.")


def draw(data):
    """The text of an SVG file."""
    left, columns = LEFT, []
    for scene, width in zip(data["scenes"], PLOT_WIDTHS):
        columns.append(Column(scene, left, width))
        left += width + LABEL + GAP
    labels = list(dict.fromkeys(label for scene in data["scenes"] for label in scene["tunnels"]))
    scale = data["rate_mbit"] * FULL_SCALE
    width = left - GAP + MARGIN
    parts, top = [], HEAD
    for flow, title in FLOWS:
        parts.append(_text(MARGIN, top - 7, title, 14, weight="bold"))
        for label in labels:
            parts.append(_text(LEFT - 6, top + STRIP / 2 + 4, label, 11, "end", COLOURS.get(label, "peer")))
            for column in columns:
                if told := column.scene["tunnels"].get(label):
                    parts += _strip(column, flow, told[flow], label, top, scale)
            top += STRIP + BETWEEN
        top += BETWEEN_FLOWS - BETWEEN
    bottom = top - BETWEEN_FLOWS + 2
    for number, column in enumerate(columns, 1):
        parts += [_text(column.left, 26, f"{number}. {column.scene['title']}", 14, weight="bold"),
                  _text(column.left, 43, column.scene["detail"], 11, classes="quiet"),
                  _text(column.left + column.width + 8, HEAD - 8, "pause", 11, classes="quiet"), *_axis(column, HEAD, bottom)]
    height = bottom + FOOT
    first, second = _caption(data)
    parts += [_text(MARGIN, height - 30, first, 11, classes="quiet"), _text(MARGIN, height - 14, second, 11, classes="quiet")]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
                      f"<style>{STYLE}</style>", f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
                      *parts, "</svg>", ""])
