"""Files of codes: float16, and the same directory again."""

import numpy as np

from models.conversion.codes_file import read_codes, save_codes
from models.conversion.config import load_config
from models.conversion.take_codes import take_codes
from models.conversion.write_directory import write_directory
from models.training.files import safetensors
from write_directory_test import codes_of

WIDE = {(1, 1): 128}


def test_is_half_as_large_but_for_what_float16_cannot_hold(tmp_path, golden):
    codes = codes_of("llama_gqa")
    codes["layers.1.assign"][0, 0, 0] = 1e6
    save_codes(tmp_path / "codes.safetensors", codes)
    saved = safetensors.load(tmp_path / "codes.safetensors")
    assert {name for name, values in saved.items() if values.dtype == np.float32} == {"layers.1.assign"}
    read = read_codes(tmp_path / "codes.safetensors", load_config(golden / "hugging_face" / "llama_gqa"))
    assert read[1]["assign"].dtype == np.float32 and np.array_equal(read[1]["assign"], codes["layers.1.assign"])
    for layer, tensors in enumerate(read):
        for name, values in tensors.items():
            np.testing.assert_allclose(values, codes[f"layers.{layer}.{name}"], rtol=2 ** -11, atol=2 ** -25)


def test_codes_taken_out_of_a_directory_make_the_same_again(tmp_path, golden):
    source = golden / "hugging_face" / "llama_gqa"
    save_codes(tmp_path / "found.safetensors", codes_of("llama_gqa"))
    write_directory(source, tmp_path / "found.safetensors", tmp_path / "out", 64, WIDE)
    save_codes(tmp_path / "taken.safetensors", take_codes(tmp_path / "out"))
    write_directory(source, tmp_path / "taken.safetensors", tmp_path / "again", 64, WIDE)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in (tmp_path / "again").iterdir())
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name
