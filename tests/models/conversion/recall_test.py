"""Pass keys that models are asked for, and what is told of their answers."""

import random

import pytest

from models.conversion.recall import ASKED, DIGITS, LENGTHS, TOLD, Asked, recall, table
from models.conversion.texts import TextError

PLACES = 3
TEXT = "".join(random.Random(1).choices("abcdefghij ", k=10_000))
LIKELY, UNLIKELY = 0.5, 4.5


class Fake:
    """Of a token for each character. `missed`: the digit of each key that another token is likelier than."""

    directory = "fake"

    def __init__(self, missed=None):
        self.missed, self.contexts = missed, []

    def tokenize(self, text):
        return [ord(character) for character in text]

    def against_best(self, ids):
        self.contexts.append("".join(map(chr, ids)))
        digits = [(UNLIKELY if digit == self.missed else LIKELY, LIKELY) for digit in range(DIGITS)]
        return [(9.0, 1.0)] * (len(ids) - 1 - DIGITS) + digits


def test_every_model_has_the_same_keys_at_the_same_places():
    one, other = Fake(), Fake(missed=0)
    distances = [[asked.distance for asked in recall(model, TEXT, PLACES)] for model in (one, other)]
    assert one.contexts == other.contexts and distances[0] == distances[1]
    assert len(set(one.contexts)) == PLACES * len(LENGTHS)
    assert len({context[-DIGITS:] for context in one.contexts}) > len(LENGTHS)


def test_a_distance_is_from_where_the_key_is_told_to_the_question():
    model = Fake()
    found = recall(model, TEXT, PLACES)
    lengths = [length for length in LENGTHS for _ in range(PLACES)]
    for asked, length, context in zip(found, lengths, model.contexts, strict=True):
        key = context[-DIGITS:]
        told, question = TOLD.format(key=key), f"{ASKED} {key}"
        assert key.isdigit() and context.count(told) == 1 and context.index(question) == length == len(context) - len(question)
        assert asked.distance == length - context.index(told)
        assert context.replace(told, "").removesuffix(question) in TEXT


@pytest.mark.parametrize("missed", [None, 0, DIGITS - 1])
def test_a_key_is_found_if_each_digit_is_the_likeliest(missed):
    for asked in recall(Fake(missed), TEXT, PLACES):
        assert asked.found == (missed is None)
        assert asked.nats == pytest.approx(LIKELY if missed is None else LIKELY + (UNLIKELY - LIKELY) / DIGITS)


def test_says_how_far_it_is():
    notes = []
    recall(Fake(), TEXT, 1, notes.append)
    assert notes == [f"fake: {length} tokens" for length in LENGTHS]


def test_a_row_has_the_keys_of_its_distances():
    model = [Asked(1, True, 0.25), Asked(256, False, 2.0), Asked(257, True, 1.0), Asked(8192, False, 3.0)]
    other = [asked._replace(found=True, nats=0.0) for asked in model]
    assert table({"model": model, "other": other}).splitlines() == [
        "| tokens back | keys | model: found | nats a digit | other: found | nats a digit |",
        "|---|---:|---:|---:|---:|---:|",
        "| 0 to 256 | 2 | 50% | 1.12 | 100% | 0.00 |",
        "| 256 to 2,048 | 1 | 100% | 1.00 | 100% | 0.00 |",
        "| 2,048 to 4,096 | 0 | |  | |  |",
        "| 4,096 to 8,192 | 1 | 0% | 3.00 | 100% | 0.00 |",
    ]


def test_without_keys_every_row_has_its_cells():
    header, *rows = table({"model": []}).splitlines()
    assert len(rows) == 5 and {row.count("|") for row in rows} == {header.count("|")}


def test_a_text_must_be_long_enough():
    with pytest.raises(TextError, match="the text has 100 tokens, must have at least 8064"):
        recall(Fake(), TEXT[:100], PLACES)
