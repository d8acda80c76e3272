#!/usr/bin/env python3
"""The pictures of reports, on made-up ones."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import plot_contexts
import plot_conversion
import plot_memory
import plot_speed


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


def check_speed():
    of_peers = {"rows": [{"what": what, "side": side, "at": at, "tokens_per_second": {"median": speed}}
                         for what, side, at, speed in (("decode", "ours", 4096, 50), ("decode", "ours", 1024, 50), ("decode", "theirs", 1024, 50),
                                                       ("decode", "theirs", 4096, 5), ("decode", "theirs", 0, 90), ("prompt", "ours", 1024, 1))]}
    found = plot_speed.curves(plot_speed.of_peers(of_peers))
    assert found == {"ours": [(1024, 50), (4096, 50)], "theirs": [(1024, 50), (4096, 5)]}, found
    ours, theirs = curves(plot_speed.draw(found, "context", "title", "subtitle"))
    assert ours[0] == theirs[0] and ours[0][1] == ours[1][1] < theirs[1][1], (ours, theirs)
    of_decode = {"device": "cpu: 3 threads", "cases": [{"context": 7, "batch": batch, "tokens_per_second": 10 * batch} for batch in (1, 8)]}
    assert plot_speed.of_decode(of_decode, "int8", "sessions") == [("int8", 1, 10), ("int8", 8, 80)]
    assert plot_speed.curves(plot_speed.of_decode(of_decode, "int8", "threads")) == {"int8": [(3, 45)]}


def check_conversion():
    rows = [{"text": text, "from": end // 2, "to": end, "original": bits, "converted": [more, 0.1], "rings and sinks alone": [9, 0.1]}
            for text, end, bits, more in (("novel", 512, 1.2, 0), ("novel", 1024, 1.1, 10), ("code", 512, 0.8, 0), ("code", 1024, 0.7, 0),
                                          ("again", 399, 0.1, 0))]
    report = {"rows": rows, "tokens": [1024, 8192], "bytes": {"original": [10 ** 6, 10 ** 7], "converted": [10 ** 7, 10 ** 7]}}
    novel, converted, code, same = curves(plot_conversion.draw_bits(report))
    assert novel[0] == converted[0] and novel[1][1] > converted[1][1] and code == same, (novel, converted, code, same)
    grows, constant = curves(plot_conversion.draw_bytes(report))
    assert grows[1] == constant[1] and constant[0][1] == constant[1][1] < grows[0][1], (grows, constant)
    wrong = subprocess.run([sys.executable, plot_conversion.__file__, "speed", "a", "b"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1 and "bits|bytes REPORT.json OUT.svg" in wrong.stderr, wrong


def check_program():
    report = {"contexts": 1, "bounds": [0, 50, 100], "on": [6.3, 5.9], "off": [6.3, 6.0]}
    with tempfile.TemporaryDirectory() as folder:
        given, made = pathlib.Path(folder, "report.json"), pathlib.Path(folder, "out.svg")
        given.write_text(json.dumps(report), encoding="utf-8")
        subprocess.run([sys.executable, plot_contexts.__file__, given, made], check=True)
        assert made.read_text(encoding="utf-8") == plot_contexts.draw(report)
    without = subprocess.run([sys.executable, plot_contexts.__file__], capture_output=True, text=True, check=False)
    assert without.returncode == 1 and "plot_contexts.py REPORT.json OUT.svg" in without.stderr, without


check_program()
check_memory()
check_contexts()
check_speed()
check_conversion()
