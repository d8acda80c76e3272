#!/usr/bin/env python3
"""Draws milliseconds a token against position from a report of `tvq-bench families`, and prints its tables.

    plot_families.py REPORT.json OUT.svg

Both axes are logarithmic. The tables are Markdown, for docs/performance.md.
"""

import json
import math
import sys

from plot_latency import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH, line, short, text


def draw(report):
    series = {family["name"]: [(at["position"], at["ms"]["median"]) for at in family["positions"]]
              for family in report["families"]}
    points = [point for at in series.values() for point in at]
    positions = sorted({position for position, _ in points})
    decades = range(math.floor(math.log10(min(ms for _, ms in points))), math.ceil(math.log10(max(ms for _, ms in points))) + 1)

    def x_of(position):
        span = math.log(positions[-1] / positions[0]) or 1
        return LEFT + math.log(position / positions[0]) / span * (WIDTH - LEFT - RIGHT)

    def y_of(ms):
        share = (math.log10(ms) - decades[0]) / (decades[-1] - decades[0])
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    weights = report["families"][0]["parameters"] / 1e6
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', f"<style>{STYLE}</style>",
             text(LEFT, 22, "Time of a token against its position", kind="title"),
             text(LEFT, 40, f"8 layers, 8 heads, {weights:.0f} M parameters, one sequence; median", kind="small"),
             text(16, TOP - 4, "ms", kind="small")]
    for decade in decades:
        y = y_of(10 ** decade)
        parts += [line(LEFT, y, WIDTH - RIGHT, y, "grid"), text(LEFT - 8, y + 4, f"{10 ** decade:g}", "end")]
    for position in positions:
        x = x_of(position)
        parts += [line(x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, "axis"), text(x, HEIGHT - BOTTOM + 20, short(position), "middle")]
    parts += [line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"),
              text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "position", "middle", "small")]
    for colour, (name, at) in zip(COLOURS, series.items()):
        path = " ".join(f"{x_of(position):.1f},{y_of(ms):.1f}" for position, ms in at)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x_of(position):.1f}" cy="{y_of(ms):.1f}" r="4" fill="{colour}"/>' for position, ms in at]
        parts.append(text(x_of(at[-1][0]) + 10, y_of(at[-1][1]) + 4, name))
    return "\n".join([*parts, "</svg>", ""])


def images_table(report):
    rows = ["| | weights | bytes of an image's state | images/s alone | at once | images/s together | times the first |",
            "|---|---:|---:|---:|---:|---:|---:|"]
    first = report["families"][0]["images_per_second"]["median"]
    for family in report["families"]:
        together = family["images_per_second_at_once"]["median"]
        rows.append(f"| {family['name']} | {family['parameters'] / 1e6:.2f} M | {family['image_state_bytes']:,} "
                    f"| {family['images_per_second']['median']:.3f} | {family['images_at_once']} | {together:.3f} "
                    f"| {together / first:.0f} |")
    return "\n".join(rows)


def positions_table(report):
    positions = sorted({at["position"] for family in report["families"] for at in family["positions"]})
    rows = ["| ms a token, bytes of a session at | " + " | ".join(f"{position:,}" for position in positions) + " |",
            "|---|" + "---:|" * len(positions)]
    for family in report["families"]:
        at = {one["position"]: one for one in family["positions"]}
        cells = [f"{at[p]['ms']['median']:.2f}, {at[p]['state_bytes']:,}" if p in at else "" for p in positions]
        rows.append(f"| {family['name']} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(report))
    print(images_table(report), positions_table(report), sep="\n\n")
    ratio = report["linear_over_uncached"]
    print(f"\n{ratio['whole']:.0f} = {ratio['cache']:.1f} (a cache) x {ratio['state']:.2f} (a constant state instead) "
          f"x {ratio['batch']:.2f} (images at once)")


if __name__ == "__main__":
    main()
