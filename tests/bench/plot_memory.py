#!/usr/bin/env python3
"""Draws what models remember, from a report of models.training.memory_report.

    plot_memory.py REPORT.json OUT.svg

Of copy the share of right answers over the training, of recall by distance.
"""

import math

from plot_axes import LinearAxes, names, write_picture
from plot_latency import COLOURS


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


if __name__ == "__main__":
    write_picture(__doc__, draw)
