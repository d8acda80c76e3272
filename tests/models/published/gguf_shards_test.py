"""GGUF files in parts, written by the gguf package."""

import shutil

import directory_gguf
import numpy as np
import pytest
import tiny_gguf
from conftest import ROOT

from models.published.gguf_file import GgufError
from models.published.import_gguf import import_gguf
from models.training.files import safetensors

MODEL = ROOT / "tests" / "golden" / "hugging_face" / "llama_gqa"


@pytest.fixture
def parts(tmp_path):
    """The parts' paths, the first first."""
    directory_gguf.write(MODEL, tmp_path / "model.gguf", split_max_tensors=12)
    found = sorted(tmp_path.iterdir())
    assert [path.name for path in found] == [f"model-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    return found


def refused(path, words):
    with pytest.raises(GgufError) as error:
        import_gguf(path, path.parent / "out")
    assert words in str(error.value), error.value
    assert not (path.parent / "out").exists()


def test_all_parts_are_read(parts, tmp_path):
    import_gguf(parts[0], tmp_path / "out", "float32")
    found, wanted = safetensors.load(tmp_path / "out" / "model.safetensors"), directory_gguf.text_tensors(MODEL)
    assert set(found) == set(wanted) and all(np.array_equal(found[name], values) for name, values in wanted.items())


def test_a_part_that_is_missing_is_named(parts):
    parts[1].unlink()
    refused(parts[0], f"{parts[0]}: has 3 parts, and model-00002-of-00003.gguf is not beside it (1 such)")


def test_another_part_than_the_first_is_refused(parts):
    refused(parts[2], f"{parts[2]}: is part 3 of 3; the import wants the first, model-00001-of-00003.gguf")


def test_a_part_of_another_name_is_refused(parts, tmp_path):
    refused(parts[0].rename(tmp_path / "other.gguf"),
            "is part 1 of 3 by its fields; its name must end with -00001-of-00003.gguf")


def test_a_part_in_the_place_of_another_is_refused(parts):
    shutil.copy(parts[2], parts[1])
    refused(parts[0], f"{parts[1]}: split.no and split.count are 2 and 3, must be 1 and 3: it is a part of another file")


def test_a_damaged_part_is_named(parts):
    parts[1].write_bytes(parts[1].read_bytes()[:-1])
    refused(parts[0], f"{parts[1]}: tensor ")


def part(path, number, count, tensors, **fields):
    own = {"split.no": ("add_uint16", number), "split.count": ("add_uint16", count), **fields}
    return tiny_gguf.write(path, own if number else {**tiny_gguf.fields(), **own}, tensors)


def test_a_tensor_in_two_parts_is_refused(tmp_path):
    tensors = tiny_gguf.tensors()
    first = part(tmp_path / "m-00001-of-00002.gguf", 0, 2, tensors)
    second = part(tmp_path / "m-00002-of-00002.gguf", 1, 2, {"output_norm.weight": tensors["output_norm.weight"]})
    refused(first, f"{second}: has the tensor output_norm.weight, which an earlier part has, too")


def test_a_count_of_tensors_that_is_wrong_is_refused(tmp_path):
    tensors = tiny_gguf.tensors()
    last = {"output_norm.weight": tensors.pop("output_norm.weight")}
    first = part(tmp_path / "m-00001-of-00002.gguf", 0, 2, tensors, **{"split.tensors.count": ("add_int32", 21)})
    part(tmp_path / "m-00002-of-00002.gguf", 1, 2, last)
    refused(first, f"{first}: split.tensors.count is 21, but its 2 parts have 20 tensors")


@pytest.mark.parametrize("name, method, value, words", [
    ("split.count", "add_int32", -1, "split.count is -1, must be from 1 to 99999"),
    ("split.count", "add_uint32", 100000, "split.count is 100000, must be from 1 to 99999"),
    ("split.count", "add_string", "2", "split.count is '2', must be from 1 to 99999"),
    ("split.no", "add_uint16", 2, "split.no is 2, must be from 0 to 1"),
])
def test_fields_of_parts_that_are_refused(tmp_path, name, method, value, words):
    first = part(tmp_path / "m-00001-of-00002.gguf", 0, 2, tiny_gguf.tensors(), **{name: (method, value)})
    refused(first, f"{first}: {words}")
