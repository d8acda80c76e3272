#!/usr/bin/env python3
"""Draws what models remember, from a report of models.training.memory_report.

    plot_memory.py REPORT.json OUT.svg

Of copy the share of right answers over the training, of recall by distance.
"""

import json
import sys

from plot_axes import LinearAxes
from plot_latency import COLOURS, HEIGHT, TOP, line, text

COLOURS = [*COLOURS, "#e69f00", "#56b4e9"]
LEGEND = 76  # from the left, of the names: curves end too near each other to have them there


def right(shares):
    """[(x, share of right answers)] in order, from JSON."""
    return sorted((int(x), 1 - wrong) for x, wrong in shares.items())


def draw(report):
    recall = report["task"] == "recall"
    series = {run["name"]: right(run["by_distance" if recall else "by_step"]) for run in report["runs"]}
    axes = LinearAxes([point for at in series.values() for point in at], [0, 0.25, 0.5, 0.75, 1], "{:.0%}")
    title = ("Values recalled against the distance from their keys" if recall else "Symbols copied against training")
    subtitle = "8 pairs; trained at distances up to 100" if recall else "sequences of 32 symbols"
    parts = axes.frame(title, subtitle, "tokens between" if recall else "steps of 1,024 tokens")
    names = []
    for number, (colour, (name, at)) in enumerate(zip(COLOURS, series.items())):
        parts.append(axes.line(at, colour))
        y = HEIGHT / 2 + 18 * number
        names += [line(LEGEND, y - 4, LEGEND + 18, y - 4, "axis").replace("/>", f' style="stroke: {colour}; stroke-width: 2"/>'),
                  text(LEGEND + 24, y, name)]
    return "\n".join([*parts, *names, "</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(report))


if __name__ == "__main__":
    main()
