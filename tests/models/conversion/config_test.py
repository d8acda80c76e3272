"""What config.json says, and how it is refused."""

import numpy as np
import pytest

from conftest import CONVERSION, SHAPE
from models.conversion.config import ConfigError, read_config
from models.conversion.frequencies import frequencies


def test_heads_are_in_the_order_of_their_rings():
    config = read_config({**SHAPE, "num_key_value_heads": 3, "conversion": {
        **CONVERSION, "wide": [{"ring": 128, "heads": [[0, 0], [1, 1]]}], "grow": [[1, 2]]}})
    assert config.heads_by_ring() == [(0, 1), (0, 2), (0, 0), (1, 0), (1, 1)]
    assert read_config(SHAPE).heads_by_ring() == []


def test_a_conversion_is_written_as_it_was_read():
    fields = {**CONVERSION, "wide": [{"ring": 64, "heads": [[0, 1]]}, {"ring": 128, "heads": [[0, 0], [1, 1]]}], "grow": [[1, 0]]}
    assert read_config({**SHAPE, "conversion": fields}).conversion.to_json() == fields


def test_what_families_have_where_a_field_is_left_out():
    shape = {name: value for name, value in SHAPE.items() if name not in ("head_dim", "num_key_value_heads")}
    assert (read_config(shape).kv_heads, read_config(shape).head_dim) == (6, 4)
    assert read_config({**shape, "model_type": "qwen3", "num_attention_heads": 64}).kv_heads == 32
    assert read_config({**shape, "model_type": "qwen3", "num_key_value_heads": None}).kv_heads == 6
    assert read_config({**shape, "model_type": "qwen3", "num_key_value_heads": 2}).head_dim == 128


@pytest.mark.parametrize("fields, message", [
    ({"codes": 0}, "conversion.codes is 0, must be an integer above 0"),
    ({"version": 2}, "conversion.version is 2, must be 1"),
    ({"trained_context": 100}, "conversion.trained_context is 100, must be a multiple of prefill_chunk, which is 64"),
    ({"ring": 80}, "a ring of 80, must be a multiple of 64 from 64 to trained_context, which is 128"),
    ({"ring": None}, "a ring of None, must be"),
    ({"wide": [{"ring": 192, "heads": [[0, 0]]}]}, "a ring of 192, must be"),
    ({"wide": [{"ring": 128, "heads": [[2, 0]]}]}, r"conversion.wide has head \[2, 0\], must be .* of 2 layers with 2 kv heads"),
    ({"wide": [{"ring": 128, "heads": [[0, 0]]}, {"ring": 64, "heads": [[0, 0]]}]}, r"conversion.wide has head \[0, 0\] twice"),
    ({"grow": [[0, 2]]}, r"conversion.grow has head \[0, 2\], must be"),
    ({"grow": [[1, 0]]}, r"head \[1, 0\] in wide and in grow"),
])
def test_refuses_a_conversion_that_no_model_has(fields, message):
    with pytest.raises(ConfigError, match=message):
        read_config({**SHAPE, "conversion": {**CONVERSION, **fields}})


@pytest.mark.parametrize("fields, message", [
    ({"model_type": "gemma"}, "model_type is 'gemma', must be one of llama, mistral, qwen2, qwen3"),
    ({"hidden_size": None}, "hidden_size is None, must be an integer above 0"),
    ({"num_key_value_heads": 4}, "num_key_value_heads is 4, must divide num_attention_heads, which is 6"),
    ({"model_type": "mistral", "sliding_window": 512}, "sliding_window is 512, must be null"),
    ({"model_type": "mistral"}, "sliding_window is 4096, must be null"),
    ({"model_type": "qwen2", "use_sliding_window": True}, "sliding_window is 4096, must be null"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types has 'sliding_attention', must be full_attention"),
])
def test_refuses_a_shape(fields, message):
    with pytest.raises(ConfigError, match=message):
        read_config({**SHAPE, **fields})


@pytest.mark.parametrize("fields", [{"model_type": "mistral", "sliding_window": None}, {"model_type": "qwen2"}, {"sliding_window": 8},
                                    {"model_type": "qwen3", "sliding_window": 8, "use_sliding_window": False}])
def test_takes_a_shape_without_a_window(fields):
    assert read_config({**SHAPE, **fields}).width == SHAPE["hidden_size"]


def test_frequencies_of_both_forms():
    plain = frequencies({}, 6)
    assert plain == pytest.approx([1, 10000 ** (-1 / 3), 10000 ** (-2 / 3)], rel=1e-6) and plain.dtype == np.float32
    both = [read_config({**SHAPE, **fields}).rope for fields in (
        {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2}},
        {"rope_parameters": {"rope_theta": 500.0, "rope_type": "linear", "factor": 2}})]
    for rope in both:
        assert frequencies(rope, 4) == pytest.approx([0.5, 500 ** -0.5 / 2], rel=1e-6)
    assert frequencies({"rope_theta": 100, "partial_rotary_factor": 0.7}, 6) == pytest.approx([1, 0.1], rel=1e-6)


# Waves of 6.3, 135 and 2,916 positions: of 64 a quarter is 16, so the first stays; of 200, 135 lies between 50 and 200.
def test_frequencies_of_llama3():
    scaled = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    plain = frequencies({}, 6)
    assert frequencies({**scaled, "original_max_position_embeddings": 64}, 6) == pytest.approx(plain / [1, 8, 8], rel=1e-6)
    smooth = (200 / (2 * np.pi / plain[1]) - 1) / 3
    between = frequencies({**scaled, "original_max_position_embeddings": 200}, 6)[1]
    assert between == pytest.approx(plain[1] * ((1 - smooth) / 8 + smooth), rel=1e-5)


@pytest.mark.parametrize("rope, message", [
    ({"rope_type": "yarn"}, "the rope type is 'yarn', must be one of default, linear, llama3"),
    ({"factor": 4.0}, "has a factor and no rope_type"),
    ({"partial_rotary_factor": 0.2}, "turn 1 numbers of each head of 6, must be an even number above 0"),
])
def test_refuses_other_positions(rope, message):
    with pytest.raises(ConfigError, match=message):
        frequencies(rope, 6)
