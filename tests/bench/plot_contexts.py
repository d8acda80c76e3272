#!/usr/bin/env python3
"""Draws bits per token against position in the context, from a report of models.training.context_report.

    plot_contexts.py REPORT.json OUT.svg
"""

import math

from plot_axes import LinearAxes, write_picture
from plot_latency import COLOURS, short, text


def points(report, part):
    """[(end of a range of positions, mean bits per token within)]"""
    return list(zip(report["bounds"][1:], report[part]))


def draw(report):
    series = {"off": points(report, "off"), "on": points(report, "on")}
    values = [bits for at in series.values() for _, bits in at]
    low, high = math.floor(min(values) * 2), math.ceil(max(values) * 2)
    axes = LinearAxes([point for at in series.values() for point in at], [half / 2 for half in range(low, high + 1)], "{:g}")
    parts = axes.frame("Bits per token against position in the context",
                       f"accumulators on and off, mean of {report['contexts']} contexts of {short(report['bounds'][-1])} tokens "
                       "of novels held out", "up to position, from the one before")
    for colour, (name, at) in zip(COLOURS, series.items()):
        parts.append(axes.line(at, colour))
        x, y = at[-1]
        parts.append(text(axes.x(x) + 8, axes.y(y) + (-2 if name == "off" else 12), name))
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    write_picture(__doc__, draw)
