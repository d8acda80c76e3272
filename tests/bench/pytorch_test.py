#!/usr/bin/env python3
"""tvq-bench's decode and PyTorch's side by side, tiny, on the CPU: fields, never times.

    pytorch_test.py PATH_TO_TVQ_BENCH
"""

import json
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).with_name("pytorch_decode.py")


def main():
    with tempfile.TemporaryDirectory() as folder:
        report, beside = f"{folder}/report.json", f"{folder}/beside.json"
        subprocess.run([sys.argv[1], "decode", "--preset", "tiny", "--dtype", "bfloat16", "--batch", "1,2", "--context",
                        "0,5000", "--rounds", "1", "--seconds", "0.01", "--ceiling-megabytes", "64", "--json", report],
                       check=True)
        subprocess.run([sys.executable, SCRIPT, report, "--device", "cpu", "--seconds", "0.01", "--json", beside], check=True)
        cases = json.loads(pathlib.Path(beside).read_text())["cases"]
    assert [(c["batch"], c["context"]) for c in cases] == [(1, 0), (1, 5000), (2, 0), (2, 5000)], cases
    assert all(c["tvq_ms"] > 0 and c["pytorch_ms"] > 0 for c in cases), cases


if __name__ == "__main__":
    main()
