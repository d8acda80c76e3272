#!/usr/bin/env python3
"""Draws what the conversion of a model costs, from a report of models.conversion.report.

    plot_conversion.py bits|bytes REPORT.json OUT.svg

bits: bits per byte by position, of each text, of the original (dashed) and of the converted model. bytes: of a session.
"""

import itertools
import json
import math
import sys

from plot_axes import LinearAxes, LogAxes, names
from plot_latency import COLOURS

ORIGINAL, CONVERTED = "original", "converted"


def bits(report):
    """By text: of both, [(end of a range of positions, mean bits per byte within)]. A text has several ranges."""
    found = {}
    for row in report["rows"]:
        original, converted = found.setdefault(row["text"], ([], []))
        original.append((row["to"], row[ORIGINAL]))
        converted.append((row["to"], row[ORIGINAL] * (1 + row[CONVERTED][0] / 100)))
    return {text: both for text, both in found.items() if len(both[0]) > 1}


def draw_bits(report):
    series = bits(report)
    points = [point for both in series.values() for at in both for point in at]
    low, high = math.floor(min(y for _, y in points) * 2), math.ceil(max(y for _, y in points) * 2)
    axes = LinearAxes(points, [half / 2 for half in range(low, high + 1)], "{:g}")
    parts = axes.frame("Bits per byte against position", "dashed: the original", "up to position, from the one before")
    for colour, (original, converted) in zip(itertools.cycle(COLOURS), series.values()):
        parts += [axes.line(original, colour, "5 4"), axes.line(converted, colour)]
    coloured = [(colour, (text, converted)) for colour, (text, (_, converted)) in zip(itertools.cycle(COLOURS), series.items())]
    return "\n".join([*parts, *names(axes, coloured), "</svg>", ""])


def draw_bytes(report):
    series = {kind: [(tokens, size / 1e6) for tokens, size in zip(report["tokens"], report["bytes"][kind])]
              for kind in (ORIGINAL, CONVERTED)}
    axes = LogAxes([point for at in series.values() for point in at])
    parts = axes.frame("Bytes of a session's state", "megabytes", "tokens of the session")
    for colour, (name, at) in zip(COLOURS, series.items()):
        parts += axes.curve(at, colour, name, "5 4" if name == ORIGINAL else "none")
    return "\n".join([*parts, "</svg>", ""])


def main():
    draw = {"bits": draw_bits, "bytes": draw_bytes}
    if len(sys.argv) != 4 or sys.argv[1] not in draw:
        sys.exit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as file:
        picture = draw[sys.argv[1]](json.load(file))
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
