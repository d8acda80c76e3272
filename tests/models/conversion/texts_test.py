"""Texts of models without a tokenizer. test_conversion_report.py has one with."""

import json

import pytest
from conftest import SHAPE

from models.conversion.texts import TextError, read_ids


@pytest.fixture(autouse=True)
def model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**SHAPE, "vocab_size": 16}))


def test_ids_of_files(tmp_path):
    (tmp_path / "one").write_text("3 1\n4")
    (tmp_path / "two").write_text("15")
    assert [ids.tolist() for ids in read_ids(tmp_path, [tmp_path / "one", tmp_path / "two"])] == [[3, 1, 4], [15]]


@pytest.mark.parametrize("content, message", [
    (b"3 1 four", "text: has 'four', must hold ids below 16 separated by spaces, for the model has no tokenizer"),
    (b"3 16", "text: has '16', must hold ids below 16"),
    (b"3 \xff", "text: is not UTF-8 from byte 2 on"),
])
def test_says_which_file_is_wrong(tmp_path, content, message):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(TextError, match=message):
        read_ids(tmp_path, [tmp_path / "text"])
