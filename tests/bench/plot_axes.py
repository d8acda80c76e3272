"""A picture with two logarithmic axes, as SVG."""

import math

from plot_latency import BOTTOM, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH, line, short, text


class LogAxes:
    """`points`: all (x, y) that are to be drawn. Every x gets a mark, and every power of ten of y a line."""

    def __init__(self, points):
        self.marks = sorted({x for x, _ in points})
        low, high = (math.log10(pick(y for _, y in points)) for pick in (min, max))
        self.decades = range(math.floor(low), math.ceil(high) + 1)

    def x(self, value):
        span = math.log(self.marks[-1] / self.marks[0]) or 1
        return LEFT + math.log(value / self.marks[0]) / span * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        share = (math.log10(value) - self.decades[0]) / (self.decades[-1] - self.decades[0])
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def frame(self, title, subtitle, label):
        """The lines of the SVG before the curves; `label` is what x is."""
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
                 f"<style>{STYLE}</style>", text(LEFT, 22, title, kind="title"), text(LEFT, 40, subtitle, kind="small")]
        for decade in self.decades:
            y = self.y(10 ** decade)
            parts += [line(LEFT, y, WIDTH - RIGHT, y, "grid"), text(LEFT - 8, y + 4, f"{10 ** decade:g}", "end")]
        for mark in self.marks:
            x = self.x(mark)
            parts += [line(x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, "axis"),
                      text(x, HEIGHT - BOTTOM + 20, short(mark), "middle")]
        parts += [line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"),
                  text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, label, "middle", "small")]
        return parts

    def curve(self, at, colour, name, dashes="none"):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in at)
        return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>',
                text(self.x(at[-1][0]) + 8, self.y(at[-1][1]) + 4, name)]
