"""Several conversions side by side."""

import numpy as np
import pytest

from models.conversion.report import ORIGINAL, Passage
from models.conversion.texts import TextError
from models.conversion.variants import table, variants


def test_a_row_for_each_conversion():
    texts = [Passage("novel", [0] * 1101, 4400), Passage("again", [0] * 400, 1600, 101)]
    base = {"novel": np.full(1100, 1.25), "again": np.concatenate([np.full(100, 9.0), np.full(299, 0.5)])}
    bits = {name: {ORIGINAL: of, "wide": of * 1.01, "narrow": of * 1.1} for name, of in base.items()}
    sizes = {ORIGINAL: [10 ** 6, 10 ** 7, 10 ** 8, 10 ** 9], "wide": [61 * 10 ** 6] * 4, "narrow": [30 * 10 ** 6] * 4}
    assert table(texts, {"bits": bits, "bytes": sizes}).splitlines() == [
        "| | novel | again | bytes of 1,048,576 tokens |", "|---|---:|---:|---:|",
        "| original | 1.2500 | 0.5000 | 1,000.0 MB |",
        "| wide | +1.00 ± 0.00 | +1.00 ± 0.00 | 61.0 MB |",
        "| narrow | +10.00 ± 0.00 | +10.00 ± 0.00 | 30.0 MB |"]


@pytest.mark.parametrize("names", [("a/one", "b/one"), ("one", ORIGINAL)])
def test_names_must_tell_directories_apart(tmp_path, names):
    with pytest.raises(TextError, match="must have names of their own"):
        variants(tmp_path, [tmp_path / name for name in names], [Passage("novel", [0] * 10, 40)], print)
