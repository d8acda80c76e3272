#!/usr/bin/env python3
"""Draws latency against context length from a report of `tvq-bench decode`, and prints its table.

    plot_latency.py REPORT.json OUT.svg [SOFTMAX.json]

SOFTMAX.json is what softmax_decode.py made of the same report: drawn dashed, as far as it stays within four times the
report's own times. The SVG uses the reader's own sans-serif font and follows a light or dark colour scheme. The table
is Markdown, for docs/performance.md.
"""

import json
import math
import sys

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 110, 56, 52
# Distinguishable from each other and from either background, also for colour-blind readers.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]
STYLE = """
  text { font: 13px sans-serif; fill: #222 }
  .title { font-size: 15px; font-weight: bold }
  .small { font-size: 12px; fill: #555 }
  .grid { stroke: #ddd; stroke-width: 1 }
  .axis { stroke: #888; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd }
    .small { fill: #aaa }
    .grid { stroke: #333 }
  }
"""


def short(tokens):
    """2000 as 2k, 1000000 as 1M, 65536 as 65,536."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= size and tokens % (size // 10) == 0:
            return f"{tokens / size:g}{letter}"
    return f"{tokens:,}"


def nice_step(maximum):
    """A step of 1, 2 or 5 times a power of ten that divides the axis into four to ten parts."""
    power = 10 ** math.floor(math.log10(maximum / 4))
    return max(step * power for step in (1, 2, 5) if step * power <= maximum / 4)


def text(x, y, content, anchor="start", kind=""):
    content = content.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{content}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def series_by_batch(cases):
    series = {}
    for case in cases:
        series.setdefault(case["batch"], []).append(case)
    return {batch: sorted(points, key=lambda c: c["context"]) for batch, points in series.items()}


def softmax_series(softmax):
    """By sessions and key-value heads, of those that fitted into memory."""
    series = {}
    for case in softmax:
        if "softmax_ms" in case:
            series.setdefault((case["batch"], case["kv_heads"]), []).append(case)
    return {key: sorted(points, key=lambda c: c["context"]) for key, points in series.items()}


def draw(report, softmax=()):
    cases = report["cases"]
    contexts = sorted({case["context"] for case in cases})
    low, high = math.log(max(1, contexts[0])), math.log(max(1, contexts[-1]))
    own = max(case["ms_p99"] for case in cases)
    top = min(4 * own, max([own] + [case.get("softmax_ms", 0) for case in softmax])) * 1.1

    def x_of(context):
        share = (math.log(max(1, context)) - low) / (high - low) if high > low else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y_of(ms):
        return HEIGHT - BOTTOM - ms / top * (HEIGHT - TOP - BOTTOM)

    model = report["model"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<style>{STYLE}</style>",
        text(LEFT, 22, "Time per decode step against context length", kind="title"),
        text(LEFT, 40, f"{model['name']}, {model['parameters'] / 1e6:.0f} M parameters, "
             f"{model['dtype']}; median, bars to the 99th percentile", kind="small"),
    ]
    step = nice_step(top)
    for i in range(int(top / step) + 1):
        parts.append(line(LEFT, y_of(i * step), WIDTH - RIGHT, y_of(i * step), "grid"))
        parts.append(text(LEFT - 8, y_of(i * step) + 4, f"{i * step:g}", "end"))
    parts.append(text(16, TOP - 4, "ms", kind="small"))
    for context in contexts:
        parts.append(line(x_of(context), HEIGHT - BOTTOM, x_of(context), HEIGHT - BOTTOM + 5, "axis"))
        parts.append(text(x_of(context), HEIGHT - BOTTOM + 20, short(context), "middle"))
    parts.append(line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "tokens before the measured one",
                      "middle", "small"))

    for colour, (batch, points) in zip(COLOURS, series_by_batch(cases).items()):
        at = [(x_of(c["context"]), y_of(c["ms_median"]), y_of(c["ms_p99"])) for c in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in at)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y, y99 in at:
            parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y99:.1f}" '
                         f'stroke="{colour}" stroke-opacity="0.6"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        sessions = "1 session" if batch == 1 else f"{batch} sessions"
        parts.append(text(at[-1][0] + 10, at[-1][1] + 4, sessions))
        for (of_batch, heads), points in softmax_series(softmax).items():
            if of_batch == batch:
                parts += draw_softmax(points, heads, colour, x_of, y_of)
    return "\n".join([*parts, "</svg>", ""])


def draw_softmax(points, heads, colour, x_of, y_of):
    at = [(x_of(c["context"]), y_of(c["softmax_ms"])) for c in points]
    inside = [(x, y) for x, y in at if y >= TOP] or [(at[0][0], TOP)]
    # A line that leaves the picture ends at its upper edge.
    if len(inside) < len(at) and at[0][1] >= TOP:
        (x1, y1), (x2, y2) = inside[-1], at[len(inside)]
        inside.append((x1 + (x2 - x1) * (y1 - TOP) / (y1 - y2), TOP))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in inside)
    label = f"softmax, {heads} kv head" + ("" if heads == 1 else "s")
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="5 4"/>',
            text(inside[-1][0], inside[-1][1] - 6, label, "end", "small")]


def table(report):
    ceiling = {"reads": "of the read ceiling", "copies": "of the speed of copies"}[report.get("ceiling", "reads")]
    rows = ["| sessions | context | tokens/s | ms a step, median | rounds, least to most | p99 "
            f"| GB/s | {ceiling} |", "|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for batch, points in series_by_batch(report["cases"]).items():
        for case in points:
            rounds = case["ms_of_rounds"]
            rows.append(
                f"| {batch} | {case['context']:,} | {case['tokens_per_second']:.1f} "
                f"| {case['ms_median']:.2f} | {rounds['min']:.2f} to {rounds['max']:.2f} "
                f"| {case['ms_p99']:.2f} | {case['gigabytes_per_second']:.1f} "
                f"| {case['percent_of_ceiling']['median']:.0f}% |")
    return "\n".join(rows)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    softmax = []
    if len(sys.argv) == 4:
        with open(sys.argv[3], encoding="utf-8") as file:
            softmax = json.load(file)["cases"]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(report, softmax))
    print(table(report))


if __name__ == "__main__":
    main()
