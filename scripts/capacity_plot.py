"""The picture of scripts/capacity: plots side by side, as SVG."""

import math

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 44, 46
COLOURS = {"grpc": "#0072b2", "http": "#d55e00"}
STYLE = """
  text { font: 12px sans-serif; fill: #222 }
  .title { font-size: 14px; font-weight: bold }
  .grid { stroke: #ddd } .axis { stroke: #888 }
  @media (prefers-color-scheme: dark) { text { fill: #ddd } .grid { stroke: #333 } }
"""


class Panel:
    """A plot against the number of clients, on a logarithmic axis; the other is, too, or begins at 0."""

    def __init__(self, left, title, label, curves, from_zero=False):
        self.left, self.title, self.label, self.curves = left, title, label, curves
        self.from_zero = from_zero
        points = [point for _, _, line in curves for point in line]
        self.x_range = [min(x for x, _ in points), max(x for x, _ in points)]
        self.y_range = [min(y for _, y in points), max(y for _, y in points)]

    def x(self, value):
        low, high = map(math.log, self.x_range)
        return self.left + LEFT + (math.log(value) - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = map(math.log, self.y_range)
        share = value / self.y_range[1] if self.from_zero else (math.log(value) - low) / ((high - low) or 1)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def marks(self, low, high):
        if self.from_zero:
            power = 10 ** math.floor(math.log10(high))
            step = power if high >= 4 * power else power / 2
            yield from (step * i for i in range(int(high / step) + 1))
            return
        power = 10 ** math.floor(math.log10(low))
        while power <= high:
            yield from (power * step for step in (1, 2, 5) if low <= power * step <= high)
            power *= 10

    def svg(self):
        bottom, right = HEIGHT - BOTTOM, self.left + WIDTH - RIGHT
        yield f'<text class="title" x="{self.left + LEFT}" y="18">{self.title}</text>'
        yield f'<text x="{self.left + LEFT}" y="36">{self.label}</text>'
        for mark in self.marks(*self.y_range):
            yield f'<line class="grid" x1="{self.left + LEFT}" x2="{right}" y1="{self.y(mark):.1f}" y2="{self.y(mark):.1f}"/>'
            yield f'<text x="{self.left + LEFT - 6}" y="{self.y(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>'
        for mark in sorted({x for _, _, line in self.curves for x, _ in line}):
            yield f'<text x="{self.x(mark):.1f}" y="{bottom + 16}" text-anchor="middle">{mark}</text>'
        yield f'<line class="axis" x1="{self.left + LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
        yield f'<text x="{(self.left + LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">clients</text>'
        for transport, dashes, line in self.curves:
            path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in line)
            yield (f'<polyline points="{path}" fill="none" stroke="{COLOURS[transport]}" stroke-width="2" '
                   f'stroke-dasharray="{dashes}"/>')


def picture(panels, names):
    """`names`: those of the transports, for the legend."""
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {len(panels) * WIDTH} {HEIGHT}" role="img">',
             f"<style>{STYLE}</style>"]
    for panel in panels:
        parts += panel.svg()
    for number, (transport, name) in enumerate(names.items()):
        parts.append(f'<text x="{LEFT + 12}" y="{HEIGHT - BOTTOM - 28 + 16 * number}" style="fill:{COLOURS[transport]}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])
