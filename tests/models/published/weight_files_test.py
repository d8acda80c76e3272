"""Weights in one file, or in several with an index."""

import json

import numpy as np
import pytest

from models.published.weight_files import grouped, write_weights
from models.training.files import safetensors


@pytest.mark.parametrize("largest, groups", [(100, ["abcd"]), (30, ["abc", "d"]), (29, ["ab", "cd"]), (5, ["a", "b", "c", "d"])])
def test_groups_are_as_large_as_files_may_be(largest, groups):
    assert grouped({"a": 10, "b": 10, "c": 10, "d": 10}, largest) == [list(group) for group in groups]


def test_several_files_and_their_index(tmp_path):
    tensors = {name: np.full((2, 2), value, np.float32) for value, name in enumerate("badc")}
    write_weights(tmp_path, iter(tensors.items()), {name: 16 for name in tensors}, largest=40)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 64}
    for name, values in tensors.items():
        assert np.array_equal(safetensors.load(tmp_path / index["weight_map"][name])[name], values)


def test_one_tensor_at_a_time_is_made(tmp_path):
    """Those of a file are held until it is written, and no others."""
    made = []

    def tensors():
        for number in range(3):
            made.append([path.name for path in tmp_path.iterdir()])
            yield f"t{number}", np.zeros(4, np.float32)
    write_weights(tmp_path, tensors(), {f"t{number}": 16 for number in range(3)}, largest=16)
    assert [len(files) for files in made] == [0, 1, 2]
