import json

import numpy as np
import pytest
import torch

from conftest import random_model
from models.training.export import load_model, tensors_of
from models.training.files import safetensors
from models.training.files.directory import read_tensors, write_model
from models.training.quantize import MATRICES, dequantized, quantize, quantized


def test_values_at_the_ends():
    matrix = np.array([[127, -127, 63.5, 64.5, 0.4], [0] * 5, [-2, 1, 0.01, 2, -1.5], [1e-37, 0, 0, 0, -1e-37]], np.float32)
    values, scales = quantize(matrix)
    assert values.tolist() == [[127, -127, 64, 64, 0], [0] * 5, [-127, 64, 1, 127, -95], [0] * 5]
    assert scales.tolist() == [1, 1, float(np.float32(2) / np.float32(127)), 1]
    assert values.dtype == np.int8 and scales.dtype == np.float32


def test_a_value_moves_by_half_a_scale_at_most():
    matrix = np.random.default_rng(1).standard_normal((40, 33)).astype(np.float32)
    values, scales = quantize(matrix)
    moved = np.abs(values * scales[:, None].astype(np.float64) - matrix)
    # and by the rounding of the quotient
    assert (moved <= scales[:, None] * (0.5 + 127 * 2.0 ** -24)).all()
    assert (np.abs(values).max(axis=1) == 127).all()


@pytest.mark.parametrize("tied", [False, True])
def test_a_directory_and_back(tmp_path, tied):
    model = random_model(n_head=2, n_kv_head=1, tie_word_embeddings=tied).float()
    write_model(tmp_path, model.config, quantized(tensors_of(model)))
    raw = safetensors.load(tmp_path / "model.safetensors")
    matrices = [name for name in raw if MATRICES.fullmatch(name)]
    assert len(matrices) == (11 if tied else 12)
    for name, value in raw.items():
        assert (value.dtype == np.int8) == (name in matrices), name
    assert {f"{name}_scale" for name in matrices} == {name for name in raw if name.endswith("_scale")}

    again = load_model(tmp_path)
    values, scales = quantize(model.layers[1].q_proj.weight.detach().numpy())
    assert torch.equal(again.layers[1].q_proj.weight, torch.from_numpy(values * scales[:, None]))
    assert torch.equal(again.layers[1].r_proj.weight, model.layers[1].r_proj.weight)
    # Once quantized, nothing changes any more.
    twice = quantized(raw)
    assert twice.keys() == raw.keys()
    for name in matrices:
        assert np.array_equal(twice[name], raw[name]), name
        assert np.array_equal(twice[f"{name}_scale"], raw[f"{name}_scale"]), name


# Dequantized and quantized again they would have other scales: no row reaches 127.
def test_int8_matrices_are_carried_over():
    values = np.array([[3, -5, 2], [1, 0, 126]], np.int8)
    scales = np.array([0.3, 0.7], np.float32)
    tensors = {"lm_head.weight": values, "lm_head.weight_scale": scales,
               "embedding.weight": np.ones((2, 3)), "lm_head.bias": np.array([0.1, 0.5])}
    result = quantized(tensors)
    assert np.array_equal(result["lm_head.weight"], values) and np.array_equal(result["lm_head.weight_scale"], scales)
    assert (result["embedding.weight"] == 127).all() and result["embedding.weight"].dtype == np.int8
    assert result["embedding.weight_scale"].dtype == np.float32
    assert result["lm_head.bias"].dtype == np.float32


def test_a_directory_of_shards(tmp_path):
    model = random_model().float()
    tensors = tensors_of(model)
    write_model(tmp_path, model.config, {})
    (tmp_path / "model.safetensors").unlink()
    shards = ["a.safetensors", "b.safetensors"]
    shard_of = {name: shards[i % 2] for i, name in enumerate(tensors)}
    for shard in shards:
        safetensors.save(tmp_path / shard, {name: tensors[name] for name in tensors if shard_of[name] == shard})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shard_of}))
    read = read_tensors(tmp_path)
    assert read.keys() == tensors.keys()
    assert all(np.array_equal(read[name], tensors[name]) for name in tensors)

    index.write_text(json.dumps({"weight_map": {"embedding.weight": "../a.safetensors"}}))
    with pytest.raises(ValueError, match="shard of tensor embedding.weight is '../a.safetensors'"):
        read_tensors(tmp_path)
    index.write_text(json.dumps({"weight_map": {"nothing.weight": "a.safetensors"}}))
    with pytest.raises(ValueError, match="a.safetensors: lacks the tensor nothing.weight"):
        read_tensors(tmp_path)


def test_bfloat16_stays_bfloat16(tmp_path):
    model = random_model().float()
    halves = {name: value.to_float32() if isinstance(value, safetensors.BFloat16) else value
              for name, value in tensors_of(model, bfloat16=True).items()}
    result = quantized(halves)
    assert isinstance(result["layers.0.r_proj.weight"], safetensors.BFloat16)
    assert isinstance(result["lm_head.bias"], safetensors.BFloat16)
    assert result["layers.0.codebook.sum"].dtype == np.float32


def test_scales_must_be_there():
    with pytest.raises(ValueError, match="lacks embedding.weight_scale"):
        dequantized({"embedding.weight": np.zeros((2, 3), np.int8)})


def test_the_matrices_of_the_standard_block_are_quantized_too():
    tensors = quantized(tensors_of(random_model("linear_transformer", block="standard", d_ff=24, n_layer=1).float()))
    as_int8 = {name for name, value in tensors.items() if not isinstance(value, safetensors.BFloat16) and value.dtype == np.int8}
    layer = ("q_proj", "k_proj", "v_proj", "o_proj", "mlp_up", "mlp_down")
    assert as_int8 == {"embedding.weight", "lm_head.weight", *(f"layers.0.{name}.weight" for name in layer)}
