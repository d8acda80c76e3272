"""Scaled rotary positions, which GGUF files have as a factor or as a tensor of divisors."""

import numpy as np
import pytest
from tiny_gguf import made, read, refused

from models.published.gguf_file import GgufError
from models.published.gguf_rope import llama3
from models.published.import_gguf import import_gguf


def rope_of(tmp_path, change):
    import_gguf(made(tmp_path, change), tmp_path / "out")
    config = read(tmp_path / "out" / "config.json")
    return config["rope_theta"], config["rope_scaling"]


@pytest.mark.parametrize("fields, scaling", [
    ({}, None),
    ({"scaling.type": ("add_string", "none"), "scaling.factor": ("add_float32", 4.0)}, None),
    ({"scaling.type": ("add_string", "linear"), "scaling.factor": ("add_float32", 1.0)}, None),
    ({"scaling.type": ("add_string", "linear"), "scaling.factor": ("add_float32", 4.0)}, {"rope_type": "linear", "factor": 4.0}),
    ({"scaling.factor": ("add_float32", 2.5)}, {"rope_type": "linear", "factor": 2.5}),
    ({"scale_linear": ("add_float32", 8.0)}, {"rope_type": "linear", "factor": 8.0}),
])
def test_linear_scaling(tmp_path, fields, scaling):
    def change(given, _):
        given.update({f"llama.rope.{name}": value for name, value in fields.items()})
    assert rope_of(tmp_path, change) == (100000.0, scaling)


def divisors(head, theta, factor, low, high, original):
    """Number by number, as llama.cpp's converter computes them."""
    found = []
    for i in range(0, head, 2):
        wavelength = np.float32(2 * np.pi) * np.float32(theta) ** np.float32(i / head)
        if wavelength < original / high:
            found.append(1.0)
        elif wavelength > original / low:
            found.append(factor)
        else:
            smooth = np.float32(np.float32(original) / wavelength - np.float32(low)) / np.float32(high - low)
            found.append(1 / ((1 - smooth) / np.float32(factor) + smooth))
    return np.array(found, np.float32)


@pytest.mark.parametrize("head", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("theta, factor, high, original", [
    (500000.0, 8.0, 4.0, 8192),  # Llama 3.1
    (500000.0, 32.0, 4.0, 8192),  # Llama 3.2
    (500000.0, 8.0, 4.0, 4096), (500000.0, 8.0, 4.0, 131072), (10000.0, 4.0, 2.0, 2048), (1000000.0, 16.0, 8.0, 32768),
])
def test_parameters_of_llama3_are_found(head, theta, factor, high, original):
    assert llama3(divisors(head, theta, factor, 1.0, high, original), theta) == {
        "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": high,
        "original_max_position_embeddings": original}


def test_other_units_give_the_same_divisors():
    """Factors of 2 and 8 of 16384 are factors of 1 and 4 of 8192."""
    assert llama3(divisors(128, 500000.0, 8.0, 2.0, 8.0, 16384), 500000.0)["original_max_position_embeddings"] == 8192


def test_a_file_of_llama3(tmp_path):
    def change(_, tensors):
        tensors["rope_freqs.weight"] = np.array([1, 1, 1, 8], np.float32)  # wavelengths 6, 112, 1987, 35333
    assert rope_of(tmp_path, change) == (100000.0, {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192})


def test_divisors_of_one_are_no_scaling(tmp_path):
    def change(_, tensors):
        tensors["rope_freqs.weight"] = np.ones(4, np.float32)
    assert rope_of(tmp_path, change) == (100000.0, None)


@pytest.mark.parametrize("values, words", [
    ([1, 1, 8], "tensor rope_freqs.weight has the shape [3], by the size of a head it would be [4]"),
    ([1, 1, 0.5, 8], "tensor rope_freqs.weight divides frequencies by 0.5, must be by 1 or more"),
    ([8, 8, 1, 1], "tensor rope_freqs.weight divides frequencies in a way that rope_type llama3 does not"),
    ([1, 1.2, 1.1, 8], "tensor rope_freqs.weight divides frequencies in a way that rope_type llama3 does not"),
    ([1, 1, 1.00001, 8], "tensor rope_freqs.weight divides frequencies in a way that rope_type llama3 does not"),
    ([1, 1, np.nan, 8], "tensor rope_freqs.weight holds values that are not finite"),
])
def test_divisors_that_are_refused(tmp_path, values, words):
    def change(_, tensors):
        tensors["rope_freqs.weight"] = np.array(values, np.float32)
    refused(tmp_path, words, change)


def test_a_divisor_that_is_off_is_refused(tmp_path):
    values = divisors(128, 500000.0, 8.0, 1.0, 4.0, 8192)
    between = np.flatnonzero((values > 1) & (values < 8))
    assert len(between) == 6
    for place in between:
        changed = values.copy()
        changed[place] *= 1.0002
        with pytest.raises(GgufError, match="in a way that rope_type llama3 does not"):
            llama3(changed, 500000.0)


def test_two_scalings_are_refused(tmp_path):
    def change(fields, tensors):
        tensors["rope_freqs.weight"] = np.array([1, 1, 1, 8], np.float32)
        fields["llama.rope.scaling.factor"] = ("add_float32", 2.0)
    refused(tmp_path, "has both llama.rope.scaling.factor and the tensor rope_freqs.weight", change)


@pytest.mark.parametrize("kind", ["longrope", "yarn"])
def test_other_types_are_refused(tmp_path, kind):
    def change(fields, _):
        fields["llama.rope.scaling.type"] = ("add_string", kind)
    refused(tmp_path, f"llama.rope.scaling.type is '{kind}'; known here are none, linear", change)
