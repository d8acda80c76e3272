"""What config.json may say of a kind and a block, and what is refused by name."""

import re

import pytest

from conftest import BLOCKS, KINDS, ROOT
from models.training import config as config_module
from models.training.config import ModelConfig

SHAPE = dict(vocab_size=20, d_model=16, d_k=8, d_v=12, n_layer=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", BLOCKS)
def test_what_is_written_is_read_and_holds_no_field_that_the_model_lacks(kind, block):
    config = ModelConfig(model_type=kind, **SHAPE, **KINDS[kind], **BLOCKS[block])
    fields = config.to_json()
    assert ModelConfig.from_json(fields) == config
    special = {"n_code", "block_len", "mem_len", "sigma", "n_feature", "d_ff", "block"}
    assert special & set(fields) == {*KINDS[kind], *BLOCKS[block]}


@pytest.mark.parametrize("fields, message", [
    (dict(model_type="mamba"), "model_type must be one of transformer_vq, softmax_transformer, .*not 'mamba'"),
    (dict(model_type="soft_codebook", n_code=4), "sigma must be a positive number, not None"),
    (dict(model_type="soft_codebook", n_code=4, sigma=-0.5), "sigma must be a positive number, not -0.5"),
    (dict(model_type="soft_codebook", n_code=4, sigma=float("nan")), "sigma must be a positive number, not nan"),
    (dict(model_type="performer", n_feature=8, n_code=4), "n_code is 4: a performer has none"),
    (dict(model_type="performer", n_feature=8.0), "n_feature must be a positive integer, not 8.0"),
    (dict(model_type="vq_encoder", n_code=4, mem_len=4), "mem_len is 4: a vq_encoder has none"),
    (dict(n_code=4, block_len=4, mem_len=4, sigma=1.0), "sigma is 1.0: a transformer_vq has none"),
    (dict(block="parallel"), "block must be one of gated, standard, not 'parallel'"),
    (dict(model_type="transformer_vq", block_len=4, mem_len=4), "n_code must be a positive integer, not None"),
    (dict(model_type="softmax_transformer"), "mem_len must be an integer of at least 0, not None"),
    (dict(model_type="softmax_transformer", mem_len=-1), "mem_len must be an integer of at least 0, not -1"),
    (dict(n_code=4, block_len=4, mem_len=4, position_bias="alibi"),
     "position_bias must be one of relative, toeplitz, rerope, not 'alibi'"),
    (dict(model_type="softmax_transformer", mem_len=4, position_bias="rerope"),
     "position_bias must be one of relative, toeplitz, not 'rerope'"),
    (dict(n_code=4, block_len=4, mem_len=4, position_bias="rerope", d_k=7), "d_k must be even .*not 7"),
    (dict(model_type="performer", n_feature=8, position_bias="toeplitz"), "position_bias is 'toeplitz': a performer has none"),
    (dict(model_type="softmax_transformer", mem_len=4, n_code=8), "n_code is 8: a softmax_transformer has none"),
    (dict(model_type="linear_transformer", mem_len=4), "mem_len is 4: a linear_transformer has none"),
    (dict(model_type="linear_transformer", n_code=4), "n_code is 4: a linear_transformer has none"),
    (dict(model_type="linear_transformer", block_len=0), "block_len must be a positive integer, not 0"),
    (dict(model_type="linear_transformer", block="standard"), "d_ff must be a positive integer, not None"),
    (dict(model_type="linear_transformer", d_ff=32), "d_ff is 32: only a standard block has it, this one is gated"),
    (dict(model_type="linear_transformer", n_head=4, n_kv_head=3), "n_kv_head 3 must divide n_head 4"),
])
def test_impossible_combinations_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**{**SHAPE, **fields})


def test_the_server_has_the_same_kinds_with_the_same_fields():
    """A family of its says: return {"kind", {{"required", ...}, {"optional", ...}}, ..."""
    sources = [file.read_text() for file in (ROOT / "models/runtime/families").glob("*.cc")]
    rows = re.findall(r'return \{"(\w+)",\s*\{\{([^{}]*)\}, \{([^{}]*)\}\},', "".join(sources))
    names = {kind: tuple(tuple(re.findall(r'"(\w+)"', part)) for part in parts) for kind, *parts in rows}
    assert names == {kind: (fields.required, fields.optional) for kind, fields in config_module.KINDS.items()}


def test_a_field_that_is_null_is_absent():
    fields = dict(model_type="linear_transformer", **SHAPE, n_code=None, mem_len=None)
    assert ModelConfig.from_json(fields) == ModelConfig(model_type="linear_transformer", **SHAPE)


def test_a_config_without_a_kind_is_named():
    with pytest.raises(ValueError, match="config.json lacks model_type"):
        ModelConfig.from_json(SHAPE)
