#!/usr/bin/env python3
"""Draws tokens per second against sessions from a report of `tvq-bench decode`, under what its bytes allow.

    plot_roofline.py REPORT.json OUT.svg [PYTORCH.json]

The bound is the bytes of a step at the speed of memory that was measured around it. PYTORCH.json is what
pytorch_decode.py made of the same report. Of several contexts the first is drawn. Both axes are logarithmic.
"""

import json
import math
import sys

from plot_latency import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH, line, short, text


def draw(report, pytorch):
    context = report["cases"][0]["context"]
    cases = [case for case in report["cases"] if case["context"] == context]
    series = {
        "bound": [(c["batch"], c["batch"] * c["ceiling_n_threads"]["median"] * 1e9 / c["bytes_per_step"]) for c in cases],
        "tvq": [(c["batch"], c["tokens_per_second"]) for c in cases],
        "PyTorch": [(c["batch"], c["batch"] * 1e3 / c["pytorch_ms"]) for c in pytorch if c["context"] == context],
    }
    points = [point for at in series.values() for point in at]
    batches = sorted({batch for batch, _ in points})
    decades = range(math.floor(math.log10(min(y for _, y in points))), math.ceil(math.log10(max(y for _, y in points))) + 1)

    def x_of(batch):
        span = math.log(batches[-1] / batches[0]) or 1
        return LEFT + math.log(batch / batches[0]) / span * (WIDTH - LEFT - RIGHT)

    def y_of(tokens):
        share = (math.log10(tokens) - decades[0]) / (decades[-1] - decades[0])
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    model = report["model"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<style>{STYLE}</style>",
        text(LEFT, 22, "Tokens per second against sessions", kind="title"),
        text(LEFT, 40, f"{model['name']}, {model['parameters'] / 1e6:.0f} M parameters, {model['dtype']}, context "
             f"{short(context)}; bound: bytes at the measured speed of memory", kind="small"),
    ]
    for decade in decades:
        parts.append(line(LEFT, y_of(10 ** decade), WIDTH - RIGHT, y_of(10 ** decade), "grid"))
        parts.append(text(LEFT - 8, y_of(10 ** decade) + 4, f"{10 ** decade:g}", "end"))
    for batch in batches:
        parts.append(line(x_of(batch), HEIGHT - BOTTOM, x_of(batch), HEIGHT - BOTTOM + 5, "axis"))
        parts.append(text(x_of(batch), HEIGHT - BOTTOM + 20, str(batch), "middle"))
    parts.append(line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "sessions decoded together", "middle", "small"))
    for colour, (name, at) in zip(COLOURS, series.items()):
        if not at:
            continue
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in at)
        dashes = ' stroke-dasharray="5 4"' if name == "bound" else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(text(x_of(at[-1][0]) + 8, y_of(at[-1][1]) + 4, name))
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
