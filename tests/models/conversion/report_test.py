"""What a report says of bits that were measured."""

import json

import numpy as np
import pytest
from conftest import SHAPE

from models.conversion import convert, report
from models.conversion.report import CONVERTED, ORIGINAL, RINGS, Passage, difference, markdown, passages, ranges, summary
from models.conversion.texts import TextError


def test_each_range_is_as_long_as_all_before_it():
    assert ranges(3000) == [(0, 512), (512, 1024), (1024, 2048), (2048, 3000)]
    assert ranges(4096)[-1] == (2048, 4096)


def test_no_range_is_too_short_to_have_an_error():
    assert ranges(500) == [(0, 500)] and ranges(1000) == [(0, 1000)] and ranges(1024) == [(0, 512), (512, 1024)]
    assert ranges(4100)[-1] == (2048, 4100)


def test_a_difference_is_paired():
    random = np.random.default_rng(0)
    base = random.exponential(1.0, 6400)
    more, error = difference(base * 1.01, base)
    assert more == pytest.approx(1.0) and error < 0.02  # that of the texts' own bits would be 1.25
    more, error = difference(base + random.normal(0, 1, 6400), base)
    assert error == pytest.approx(100 / np.sqrt(6400) / base.mean(), rel=0.3) and abs(more) < 4 * error


def test_bits_are_of_bytes():
    assert Passage("text", [0] * 10, 40).bits_per_byte(np.array([np.log(2)])) == pytest.approx(0.25)


def texts_of(tmp_path, *lengths):
    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    for number, length in enumerate(lengths):
        (tmp_path / f"text{number}").write_text(" ".join(str(token % 10 + 10) for token in range(length)))
    return [tmp_path / f"text{number}" for number in range(len(lengths))]


def test_passages_are_beginnings_and_one_that_comes_again(tmp_path):
    long, short, again = passages(tmp_path, texts_of(tmp_path, 5000, 3000), 4000)
    assert (len(long.ids), long.bytes, len(short.ids)) == (4001, 12002, 3000)
    assert again.ids[:report.REPEATED] == again.ids[-report.REPEATED:] and len(again.ids) == 3800
    assert again.scored == 2610 and again.bytes == pytest.approx(3800 * 3, abs=2)


def test_a_short_text_is_refused_by_name(tmp_path):
    with pytest.raises(TextError, match="text1: 2600 tokens are too few"):
        passages(tmp_path, texts_of(tmp_path, 3000, 2600), 4000)
    with pytest.raises(TextError, match="a report of 2048 tokens of each text is too short, must be of 2600 at least"):
        passages(tmp_path, texts_of(tmp_path, 3000), 2048)


def test_tables():
    text = Passage("novel", [0] * 1101, 4400)
    again = Passage("again", [0] * 400, 1600, 101)
    bits = {"novel": np.concatenate([np.full(512, 1.0), np.full(588, 2.0)]), "again": np.full(399, 0.5)}
    bits = {name: {ORIGINAL: base, CONVERTED: base * 1.02, RINGS: base * 1.5} for name, base in bits.items()}
    sizes = {ORIGINAL: [10 ** 6, 8 * 10 ** 6, 64 * 10 ** 6, 10 ** 9], CONVERTED: [2 * 10 ** 6] * 4}
    told = markdown(summary([text, again], {"bits": bits, "bytes": sizes})).splitlines()
    for row in ("| novel | 0 to 512 | 1.0000 | +2.00 ± 0.00 | +50.00 ± 0.00 |",
                "| again | 100 to 399 | 0.5000 | +2.00 ± 0.00 | +50.00 ± 0.00 |",
                "| novel | 512 to 1,100 | 2.0000 | +2.00 ± 0.00 | +50.00 ± 0.00 |",
                "| original | 1.0 MB | 8.0 MB | 64.0 MB | 1,000.0 MB |", "| converted | 2.0 MB | 2.0 MB | 2.0 MB | 2.0 MB |"):
        assert row in told


def test_texts_of_reports_are_none_that_codes_are_found_on():
    shared = 100  # characters that two texts do not have in common by chance
    found_on = [path.read_text(encoding="utf-8") for path in convert.TEXTS.glob("*.txt")]
    measured = report.shipped_texts()
    assert len(found_on) == 4 and len(measured) == 3
    for path in measured:
        text = path.read_text(encoding="utf-8")
        pieces = {text[at:at + shared] for at in range(len(text) - shared)}
        for other in found_on:
            assert not any(other[at:at + shared] in pieces for at in range(len(other) - shared)), path.name
