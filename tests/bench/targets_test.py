#!/usr/bin/env python3
"""targets.py on made-up reports: what is met, missed and open."""

import json
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).with_name("targets.py")


def decode_case(batch, context, percent=80.0, ms=1.0):
    return {"batch": batch, "context": context, "percent_of_ceiling": {"median": percent}, "ms_median": ms}


def prefill_case(speed, percent):
    return {"context": 0, "tokens_per_second": speed, "percent_of_matrix_rate": percent}


def reports():
    """Of a run in which all is just met."""
    return {
        "batch": {"cases": [decode_case(1, 2000, 40), decode_case(16, 2000, 10), decode_case(32, 2000, 90),
                            decode_case(64, 2000, 70)]},
        "context": {"cases": [decode_case(b, c, 50, ms) for b in (1, 32)
                              for c, ms in ((1000, 9), (2000, 1), (1_000_000, 1.03))]},
        "large": {"cases": [decode_case(1, 2000, 65), decode_case(16, 2000, 1)]},
        "prefill_2048": {"cases": [prefill_case(1000, 1)]},
        "prefill_65536": {"cases": [prefill_case(950, 45)]},
        "engine": {"batch": 64, "percent_of_model": 97},
        "serve": {"batch": 64, "percent_of_engine": 97},
    }


def run(contents):
    with tempfile.TemporaryDirectory() as folder:
        for name, report in contents.items():
            (pathlib.Path(folder) / f"{name}.json").write_text(json.dumps(report))
        result = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)
    print(result.stdout, result.stderr)
    return result.returncode, [line.split("  ")[-1].strip() for line in result.stdout.splitlines()[1:]]


def main():
    assert run(reports()) == (0, ["met"] * 8)

    # Each figure by its own: a little less, or for a time a little more, and that line alone fails.
    worse = [lambda r: r["batch"]["cases"].__setitem__(0, decode_case(1, 2000, 39.9)),
             lambda r: r["batch"]["cases"].__setitem__(2, decode_case(32, 2000, 69.9)),
             lambda r: r["large"]["cases"].__setitem__(0, decode_case(1, 2000, 64.9)),
             lambda r: r["context"]["cases"].__setitem__(5, decode_case(32, 1_000_000, 50, 1.04)),
             lambda r: r["prefill_65536"].__setitem__("cases", [prefill_case(950, 44.9)]),
             lambda r: r["prefill_65536"].__setitem__("cases", [prefill_case(949, 45)]),
             lambda r: r["engine"].__setitem__("percent_of_model", 96.9),
             lambda r: r["serve"].__setitem__("percent_of_engine", 96.9)]
    for line, change in enumerate(worse):
        contents = reports()
        change(contents)
        assert run(contents) == (1, ["NOT MET" if i == line else "met" for i in range(8)]), line

    # What nobody measured is neither.
    contents = reports()
    del contents["serve"], contents["large"]
    contents["engine"]["batch"] = 4
    code, verdicts = run(contents)
    assert code == 3 and [i for i, v in enumerate(verdicts) if v == "open: no report"] == [2, 6, 7], verdicts
    assert run({}) == (3, ["open: no report"] * 8)


if __name__ == "__main__":
    main()
