#!/usr/bin/env python3
"""Draws what models remember, from a report of models.training.memory_report.

    plot_memory.py REPORT.json OUT.svg

Of copy the share of right answers over the training, of recall by distance.
"""

import json
import math
import sys

from plot_axes import LinearAxes
from plot_latency import COLOURS, HEIGHT, RIGHT, WIDTH, text

APART = 16  # of the names behind the curves' ends


def points(shares):
    """[(x, share of right answers)] in order, from JSON."""
    return sorted((int(x), right) for x, right in shares.items())


def draw(report):
    recall = report["task"] == "recall"
    series = {run["name"]: points(run["by_distance" if recall else "by_step"]) for run in report["runs"]}
    axes = LinearAxes([point for at in series.values() for point in at], [0, 0.25, 0.5, 0.75, 1], "{:.0%}",
                      scale=math.log if recall else float)
    title = "Values recalled against the distance from their keys" if recall else "Symbols copied against training"
    subtitle = "8 pairs; trained at distances up to 100" if recall else "sequences of 32 symbols"
    parts = axes.frame(title, subtitle, "tokens between" if recall else "steps of 1,024 tokens")
    coloured = list(zip(COLOURS, series.items()))
    parts += [axes.line(at, colour) for colour, (_, at) in coloured]
    return "\n".join([*parts, *names(axes, coloured), "</svg>", ""])


def names(axes, coloured):
    """Each in its curve's colour behind the curve's end, from the bottom up, none over another."""
    found, below = [], HEIGHT
    for colour, (name, at) in sorted(coloured, key=lambda curve: curve[1][1][-1][1]):
        below = min(axes.y(at[-1][1]) + 4, below - APART)
        found.append(text(WIDTH - RIGHT + 8, below, name, kind="small").replace("<text", f'<text style="fill: {colour}"'))
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(report))


if __name__ == "__main__":
    main()
