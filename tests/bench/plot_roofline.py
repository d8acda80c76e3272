#!/usr/bin/env python3
"""Draws tokens per second against sessions from a report of `tvq-bench decode`, under what its bytes allow.

    plot_roofline.py REPORT.json OUT.svg [PYTORCH.json]

The bound is the bytes of a step at the speed of memory that was measured around it. PYTORCH.json is what
pytorch_decode.py made of the same report. Of several contexts the first is drawn. Both axes are logarithmic.
"""

import json
import sys

from plot_axes import LogAxes
from plot_latency import COLOURS, short


def draw(report, pytorch):
    context = report["cases"][0]["context"]
    cases = [case for case in report["cases"] if case["context"] == context]
    series = {
        "bound": [(c["batch"], c["batch"] * c["ceiling_n_threads"]["median"] * 1e9 / c["bytes_per_step"]) for c in cases],
        "tvq": [(c["batch"], c["tokens_per_second"]) for c in cases],
        "PyTorch": [(c["batch"], c["batch"] * 1e3 / c["pytorch_ms"]) for c in pytorch if c["context"] == context],
    }
    axes = LogAxes([point for at in series.values() for point in at])
    model = report["model"]
    parts = axes.frame("Tokens per second against sessions",
                       f"{model['name']}, {model['parameters'] / 1e6:.0f} M parameters, {model['dtype']}, context "
                       f"{short(context)}; bound: bytes at the measured speed of memory", "sessions decoded together")
    for colour, (name, at) in zip(COLOURS, series.items()):
        if at:
            parts += axes.curve(at, colour, name, "5 4" if name == "bound" else "none")
    return "\n".join([*parts, "</svg>", ""])


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    svg = draw(load(sys.argv[1]), load(sys.argv[3])["cases"] if len(sys.argv) == 4 else [])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(svg)


if __name__ == "__main__":
    main()
