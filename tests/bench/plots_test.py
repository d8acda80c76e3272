#!/usr/bin/env python3
"""The pictures of models.training's reports, on made-up ones."""

import re

import plot_contexts
import plot_memory


def curves(svg):
    """[[(x, y)]] of the lines drawn, in order."""
    return [[tuple(map(float, point.split(","))) for point in points.split()]
            for points in re.findall(r'<polyline points="([^"]*)"', svg)]


def check_memory():
    runs = [{"name": "good", "by_step": {"100": 0, "200": 1}, "by_distance": {"10": 1, "1000": 1, "100": 1}},
            {"name": "bad & slow", "by_step": {"100": 0, "200": 0.5}, "by_distance": {"10": 0.5, "100": 0, "1000": 0}}]
    good, bad = curves(plot_memory.draw({"task": "recall", "runs": runs}))
    assert len({y for _, y in good}) == 1 and [x for x, _ in good] == sorted(x for x, _ in good), good
    assert good[0][1] < bad[0][1] < bad[1][1] == bad[2][1], bad  # y grows downwards
    assert abs((good[0][1] + bad[1][1]) / 2 - bad[0][1]) < 0.11, bad  # coordinates have one decimal
    svg = plot_memory.draw({"task": "copy", "runs": runs})
    good, bad = curves(svg)
    assert len(good) == 2 and good[0] == bad[0] and good[1][1] < bad[1][1], svg
    assert "bad &amp; slow" in svg


def check_contexts():
    report = {"contexts": 3, "bounds": [0, 50, 100, 32000], "on": [6.3, 5.9, 5.1], "off": [6.3, 6.0, 5.2]}
    svg = plot_contexts.draw(report)
    off, on = curves(svg)
    assert off[0] == on[0] and off[1][1] < on[1][1] and off[2][1] < on[2][1], svg
    assert re.findall(r'text-anchor="end" class="">([\d.]+)<', svg) == ["5", "5.5", "6", "6.5"], svg
    assert "mean of 3 contexts of 32k tokens" in svg


check_memory()
check_contexts()
