#!/usr/bin/env python3
"""tvq-bench's decode beside PyTorch's of the same model and of a softmax Transformer, tiny, on the CPU: fields, never times.

    pytorch_test.py PATH_TO_TVQ_BENCH
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent


def beside(script, report, out, *arguments):
    """The cases of `script` at those of the report."""
    subprocess.run([sys.executable, FOLDER / script, report, "--device", "cpu", "--seconds", "0.01", "--json", out,
                    *arguments], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return json.loads(pathlib.Path(out).read_text())["cases"]


def main():
    if importlib.util.find_spec("torch") is None:
        sys.exit(77)  # to ctest, that this was skipped
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        subprocess.run([sys.argv[1], "decode", "--preset", "tiny", "--dtype", "bfloat16", "--batch", "1,2", "--context",
                        "0,5000", "--rounds", "1", "--seconds", "0.01", "--ceiling-megabytes", "64", "--json", report],
                       check=True)
        cases = beside("pytorch_decode.py", report, f"{folder}/pytorch.json")
        # 2 MB hold no cache of 5,000 positions with 3 key-value heads.
        softmax = beside("softmax_decode.py", report, f"{folder}/softmax.json", "--most-gigabytes", "0.002")
        subprocess.run([sys.executable, FOLDER / "plot_latency.py", report, f"{folder}/latency.svg",
                        f"{folder}/softmax.json"], check=True)
        drawn = pathlib.Path(f"{folder}/latency.svg").read_text()
    assert [(c["batch"], c["context"]) for c in cases] == [(1, 0), (1, 5000), (2, 0), (2, 5000)], cases
    assert all(c["tvq_ms"] > 0 and c["pytorch_ms"] > 0 for c in cases), cases
    assert [(c["batch"], c["context"], c["kv_heads"]) for c in softmax] == [
        (batch, context, heads) for batch in (1, 2) for context in (0, 5000) for heads in (1, 3)], softmax
    for case in softmax:
        # 2 layers, keys and values of 32 bfloat16 each.
        assert case["cache_bytes"] == 2 * 2 * case["batch"] * case["kv_heads"] * (case["context"] + 1) * 32 * 2, case
        assert ("too_little_memory" in case) == (case["cache_bytes"] > 2e6), case
        assert "too_little_memory" in case or case["softmax_ms"] > 0, case
    assert drawn.count("softmax, ") == 4, drawn


if __name__ == "__main__":
    main()
