#!/usr/bin/env python3
"""Draws milliseconds a token against position from a report of `tvq-bench families`, and prints its tables.

    plot_families.py REPORT.json OUT.svg

Both axes are logarithmic. The tables are Markdown, for docs/performance.md.
"""

from plot_axes import LogAxes, write_picture
from plot_latency import COLOURS


def draw(report):
    series = {family["name"]: [(at["position"], at["ms"]["median"]) for at in family["positions"]]
              for family in report["families"]}
    axes = LogAxes([point for at in series.values() for point in at])
    weights = report["families"][0]["parameters"] / 1e6
    parts = axes.frame("Milliseconds of a token against its position",
                       f"8 layers, 8 heads, {weights:.0f} M parameters, one sequence; median", "position")
    for colour, (name, at) in zip(COLOURS, series.items()):
        parts += axes.curve(at, colour, name)
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
    report = write_picture(__doc__, draw)
    print(images_table(report), positions_table(report), sep="\n\n")
    ratio = report["linear_over_uncached"]
    print(f"\n{ratio['whole']:.0f} = {ratio['cache']:.1f} (a cache) x {ratio['state']:.2f} (a constant state instead) "
          f"x {ratio['batch']:.2f} (images at once)")


if __name__ == "__main__":
    main()
