#!/usr/bin/env python3
"""Draws tokens a second against context, sessions or threads, from reports of `tvq-bench decode` and of peers.py.

    plot_speed.py context|sessions|threads OUT.svg TITLE SUBTITLE REPORT.json...

A report of peers.py has a curve for each of its sides. One of `tvq-bench decode` is written NAME=REPORT.json; several of one
name are one curve. Both axes are logarithmic, so a context of 0 is left out.
"""

import json
import re
import statistics
import sys

from plot_axes import LogAxes, names
from plot_latency import COLOURS

LABELS = {"context": "tokens before the measured ones", "sessions": "sessions decoded together", "threads": "threads"}


def of_peers(report):
    """[(side, context, tokens/s)]"""
    return [(row["side"], row["at"], row["tokens_per_second"]["median"]) for row in report["rows"] if row["what"] == "decode"]


def of_decode(report, name, against):
    """[(name, x, tokens/s)]"""
    threads = int(re.search(r"(\d+) threads?", report["device"])[1])
    return [(name, {"context": case["context"], "sessions": case["batch"], "threads": threads}[against], case["tokens_per_second"])
            for case in report["cases"]]


def curves(speeds):
    """{name: [(x, median of its tokens/s)]}, x ascending, from [(name, x, tokens/s)]."""
    found = {}
    for name, x, speed in speeds:
        if x > 0:
            found.setdefault(name, {}).setdefault(x, []).append(speed)
    return {name: [(x, statistics.median(at[x])) for x in sorted(at)] for name, at in found.items()}


def draw(series, against, title, subtitle):
    axes = LogAxes([point for at in series.values() for point in at])
    coloured = list(zip(COLOURS, series.items()))
    parts = axes.frame(title, subtitle, LABELS[against]) + [axes.line(at, colour) for colour, (_, at) in coloured]
    return "\n".join([*parts, *names(axes, coloured), "</svg>", ""])


def main():
    if len(sys.argv) < 6 or sys.argv[1] not in LABELS:
        sys.exit(__doc__)
    against, out, title, subtitle, *paths = sys.argv[1:]
    speeds = []
    for path in paths:
        name, named, path = path.rpartition("=")
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        speeds += of_decode(report, name, against) if named else of_peers(report)
    with open(out, "w", encoding="utf-8") as file:
        file.write(draw(curves(speeds), against, title, subtitle))


if __name__ == "__main__":
    main()
