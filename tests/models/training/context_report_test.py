"""Bits per token by position, on a random model."""

import numpy as np
import pytest

from conftest import random_model
from models.training.context_report import bounds, by_bounds, contexts, report_of, table
from models.training.token_bits import token_bits


def test_contexts_begin_every_so_many_tokens_with_the_end_id():
    rows = contexts(np.arange(10, 20), 4, 3, end=1)
    assert [row.tolist() for row in rows] == [[1, 10, 11, 12, 13], [1, 13, 14, 15, 16], [1, 16, 17, 18, 19]]
    with pytest.raises(ValueError, match="a text of 3 tokens holds no context of 4"):
        contexts(np.arange(3), 4, 3, end=1)


def test_bounds_double_up_to_the_length():
    assert bounds(600) == [0, 50, 100, 200, 500, 600]
    assert bounds(50) == [0, 50]
    assert bounds(10_000)[-3:] == [2000, 5000, 10_000]


def test_means_are_of_the_positions_between_bounds():
    assert by_bounds(np.array([[1.0, 3, 5, 6, 7]]), [0, 2, 5]).tolist() == [[2, 6]]


def test_within_the_reach_the_accumulator_is_of_no_use_and_beyond_it_is():
    model = random_model(block_len=32, mem_len=64).float().eval()
    rows = contexts(np.random.default_rng(0).integers(2, 50, 400), 300, 50, end=1)
    report = report_of(model, rows)
    assert report["contexts"] == 3 and report["bounds"] == [0, 50, 100, 200, 300]
    assert report["on"][0] == pytest.approx(report["off"][0], abs=1e-5)  # float32 in two orders of addition
    assert all(abs(on - off) > 1e-4 for on, off in zip(report["on"][1:], report["off"][1:]))
    expected = np.mean([token_bits(model, row)[100:200].mean() for row in rows])
    assert report["on"][2] == pytest.approx(expected)
    assert table(report).count("\n") == 5
