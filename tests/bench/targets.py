#!/usr/bin/env python3
"""Compares the reports of a run of scripts/gpu-check with what a GPU is asked to show (docs/gpu.md).

    targets.py FOLDER

FOLDER holds batch.json, context.json, large.json, prefill_2048.json, prefill_65536.json, engine.json and serve.json,
as far as they were made. Prints asked, found and met for each figure, the worst case of each. Exit code 1 if one is not met, 3 if none is missed but some have no report: they stay open.
"""

import json
import pathlib
import sys


def load(folder, name):
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def cases(report, **wanted):
    """Of a report of decode or prefill, those with these fields."""
    return [c for c in (report or {}).get("cases", []) if all(c[k] == v for k, v in wanted.items())]


def median_percent(found):
    return [case["percent_of_ceiling"]["median"] for case in found]


def quotients(report, over, under, field):
    """Percent that `field` is at context `over` of what it is at `under`, for each batch that has both."""
    result = []
    for base in cases(report, context=under):
        result += [100 * case[field] / base[field] for case in cases(report, context=over, batch=base["batch"])]
    return result


def figures(folder):
    """(what, asked, "at least" or "at most", what was found: the worst counts; nothing: open)."""
    batch, context, large = (load(folder, name) for name in ("batch", "context", "large"))
    short, long = load(folder, "prefill_2048"), load(folder, "prefill_65536")
    engine, serve = load(folder, "engine"), load(folder, "serve")
    at_32 = [case for case in cases(batch) if case["batch"] >= 32]
    speeds = [100 * b["tokens_per_second"] / a["tokens_per_second"] for a in cases(short, context=0)
              for b in cases(long, context=0)]
    return [
        ("enwik8 shape, 1 session: % of the roofline", 40, "at least", median_percent(cases(batch, batch=1))),
        ("enwik8 shape, 32 sessions and more: %", 70, "at least", median_percent(at_32)),
        ("PG-19 shape, 1 session: %", 65, "at least", median_percent(cases(large, batch=1))),
        ("a token at context 1,000,000: % of 2,000's time", 103, "at most",
         quotients(context, 1_000_000, 2_000, "ms_median")),
        ("a prompt of 65,536 tokens: % of the matrix rate", 45, "at least",
         [c["percent_of_matrix_rate"] for c in cases(long, context=0)]),
        ("the same: % of the tokens/s of 2,048", 95, "at least", speeds),
        ("64 sessions by the engine: % of the model's tokens/s", 97, "at least",
         [engine["percent_of_model"]] if engine and engine["batch"] == 64 else []),
        ("64 sessions through the server: % of the engine's", 97, "at least",
         [serve["percent_of_engine"]] if serve and serve["batch"] == 64 else []),
    ]


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_dir():
        print(__doc__)
        return 2
    missed = still_open = False
    print(f"{'':<54} {'asked':>14} {'found':>8}")
    for what, asked, bound, found in figures(pathlib.Path(sys.argv[1])):
        if not found:
            verdict, shown, still_open = "open: no report", "", True
        else:
            worst = min(found) if bound == "at least" else max(found)
            met = worst >= asked if bound == "at least" else worst <= asked
            verdict, shown, missed = "met" if met else "NOT MET", f"{worst:.1f}", missed or not met
        print(f"{what:<54} {bound:>9} {asked:>4} {shown:>8}  {verdict}")
    return 1 if missed else 3 if still_open else 0


if __name__ == "__main__":
    sys.exit(main())
