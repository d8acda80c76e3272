"""A picture with two axes, as SVG; that of x is logarithmic unless told otherwise."""

import json
import math
import sys

from plot_latency import BOTTOM, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH, line, short, text

APART = 16  # of the names behind the curves' ends


class Axes:
    """`points`: all (x, y) that are to be drawn. Every x gets a mark. A subclass says how y lies between 0, the bottom, and 1,
    and which lines it has: [(y, what is written there)]. `scale` of x is what lies evenly."""

    def __init__(self, points, scale=math.log):
        self.marks, self.scale = sorted({x for x, _ in points}), scale

    def share(self, value):
        raise NotImplementedError

    def lines(self):
        raise NotImplementedError

    def x(self, value):
        low, high, at = map(self.scale, (self.marks[0], self.marks[-1], value))
        return LEFT + (at - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - self.share(value) * (HEIGHT - TOP - BOTTOM)

    def frame(self, title, subtitle, label):
        """The lines of the SVG before the curves; `label` is what x is."""
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
                 f"<style>{STYLE}</style>", text(LEFT, 22, title, kind="title"), text(LEFT, 40, subtitle, kind="small")]
        for value, written in self.lines():
            y = self.y(value)
            parts += [line(LEFT, y, WIDTH - RIGHT, y, "grid"), text(LEFT - 8, y + 4, written, "end")]
        for mark in self.marks:
            x = self.x(mark)
            parts += [line(x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, "axis"),
                      text(x, HEIGHT - BOTTOM + 20, short(mark), "middle")]
        parts += [line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"),
                  text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, label, "middle", "small")]
        return parts

    def line(self, at, colour, dashes="none"):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in at)
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'

    def curve(self, at, colour, name, dashes="none"):
        """A line with its name at its end."""
        return [self.line(at, colour, dashes), text(self.x(at[-1][0]) + 8, self.y(at[-1][1]) + 4, name)]


class LogAxes(Axes):
    """y is logarithmic, too, with a line at every power of ten."""

    def __init__(self, points):
        super().__init__(points)
        low, high = (math.log10(pick(y for _, y in points)) for pick in (min, max))
        self.decades = range(math.floor(low), math.ceil(high) + 1)

    def share(self, value):
        return (math.log10(value) - self.decades[0]) / (self.decades[-1] - self.decades[0])

    def lines(self):
        return [(10 ** decade, f"{10 ** decade:g}") for decade in self.decades]


class LinearAxes(Axes):
    """y from a low to a high end, with a line at each of `marks` as `form` writes it."""

    def __init__(self, points, marks, form, scale=math.log):
        super().__init__(points, scale)
        self.y_marks, self.form = marks, form

    def share(self, value):
        return (value - self.y_marks[0]) / (self.y_marks[-1] - self.y_marks[0])

    def lines(self):
        return [(mark, self.form.format(mark)) for mark in self.y_marks]


def names(axes, coloured):
    """Each in its curve's colour behind the curve's end, from the bottom up, none over another."""
    found, below = [], HEIGHT
    for colour, (name, at) in sorted(coloured, key=lambda curve: curve[1][1][-1][1]):
        below = min(axes.y(at[-1][1]) + 4, below - APART)
        found.append(text(WIDTH - RIGHT + 8, below, name, kind="small").replace("<text", f'<text style="fill: {colour}"'))
    return found


def write_picture(usage, draw):
    """What `plot_X.py REPORT.json OUT.svg` does: writes draw(report); the report is returned."""
    if len(sys.argv) != 3:
        sys.exit(usage)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(report))
    return report
