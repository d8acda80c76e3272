import bz2

import pytest

from models.training.data.couplet_rules import (LEVEL, OBLIQUE, echoes, ends_in_tone, keeps_repetition, opposite_tones,
                                                read_tones, rules_kept)

READINGS = """# Unihan
U+6625\tkCantonese\tceon1
U+6625\tkMandarin\tchūn
U+98CE\tkMandarin\tfēng
U+79CB\tkMandarin\tqiū
U+6708\tkMandarin\tyuè
U+6C34\tkMandarin\tshuǐ
U+91CF\tkMandarin\tliàng liáng
U+7684\tkMandarin\tde
U+5973\tkMandarin\tnǚ
U+4EBA\tkMandarin\trén
"""


@pytest.fixture(params=["plain", "packed"])
def tones(request, tmp_path):
    if request.param == "plain":
        (tmp_path / "readings.txt").write_text(READINGS, encoding="utf-8")
        return read_tones(tmp_path / "readings.txt")
    (tmp_path / "readings.txt.bz2").write_bytes(bz2.compress(READINGS.encode()))
    return read_tones(tmp_path / "readings.txt.bz2")


def test_tones_are_those_of_the_first_reading(tones):
    level, oblique = dict.fromkeys("春风秋人", LEVEL), dict.fromkeys("月水量女", OBLIQUE)
    assert tones == {**level, **oblique}, "的 is neutral"


def test_a_file_without_readings_is_named(tmp_path):
    (tmp_path / "other.txt").write_text("U+6625\tkCantonese\tceon1\n")
    with pytest.raises(ValueError, match="other.txt has no kMandarin readings"):
        read_tones(tmp_path / "other.txt")


@pytest.mark.parametrize("first, second, kept", [
    ("春春人", "月月水", True), ("春春人", "月水水", False), ("春风人", "月水月", False), ("春风人", "月水女", True),
])
def test_repetition_is_at_the_same_places(first, second, kept):
    assert keeps_repetition(first, second) == kept


def test_an_echo_is_a_character_of_the_first_line_but_for_punctuation():
    assert echoes("春，风", "月，春") and not echoes("春，风", "月，水")


def test_the_first_line_ends_oblique_and_the_second_level(tones):
    assert ends_in_tone("春月", "水人", tones) is True
    assert ends_in_tone("月春", "人水", tones) is False
    assert ends_in_tone("春月", "人水", tones) is False
    assert ends_in_tone("春的", "水人", tones) is None
    assert ends_in_tone("", "水人", tones) is None


def test_opposite_tones_are_counted_at_even_places_and_the_end(tones):
    assert opposite_tones("春月", "风人", tones) == 1
    assert opposite_tones("春月人", "风水月", tones) == 0.5, "the second place is alike, the end is not; the first is free"
    assert opposite_tones("春的人", "风水月", tones) == 1, "only the end has tones on both sides"
    assert opposite_tones("的", "春", tones) is None


def test_shares_are_of_the_pairs_that_a_rule_can_be_asked_of(tones):
    pairs = [("春月", "风人"), ("春月", "春人"), ("春春", "人秋"), ("春月", "风"), ("春", "")]
    kept = rules_kept(pairs, tones)
    assert kept.length == 3 / 5
    assert kept.repetition == 2 / 3
    assert kept.no_echo == 4 / 5
    assert kept.end_tones == 3 / 4, "of the four pairs whose ends have tones, lengths aside"
    assert kept.opposite_tones == pytest.approx(2 / 3)
    assert rules_kept(pairs, {})[3:] == (None, None)
