"""Models of all known families, from directories of transformers to GGUF and back."""

import directory_gguf
import numpy as np
import pytest
from conftest import ROOT
from tiny_gguf import read

from models.published.gguf_file import GgufError
from models.published.import_gguf import import_gguf
from models.training.files import safetensors

GOLDEN = ROOT / "tests" / "golden" / "hugging_face"
MODELS = {"llama_gqa": "llama", "llava_mistral": "llama", "qwen2_vl": "qwen2", "qwen3_tied": "qwen3"}


def there_and_back(tmp_path, model, kind="F32", change=lambda fields, tensors: None, dtype="float32"):
    """-> (tensors in the GGUF file, tensors of the directory made of it)"""
    written = directory_gguf.write(GOLDEN / model, tmp_path / "model.gguf", kind, change)
    import_gguf(tmp_path / "model.gguf", tmp_path / "out", dtype)
    return written, safetensors.load(tmp_path / "out" / "model.safetensors")


@pytest.mark.parametrize("model", MODELS)
def test_the_tensors_come_back(tmp_path, model):
    _, found = there_and_back(tmp_path, model)
    wanted = directory_gguf.text_tensors(GOLDEN / model)
    assert set(found) == set(wanted)
    for name, values in wanted.items():
        assert np.array_equal(found[name], values), name


@pytest.mark.parametrize("model, family", MODELS.items())
def test_the_config_comes_back(tmp_path, model, family):
    there_and_back(tmp_path, model)
    found, wanted = read(tmp_path / "out" / "config.json"), directory_gguf.text_config(GOLDEN / model)
    assert found["model_type"] == family
    for name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                 "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings"):
        assert found[name] == wanted[name], name
    assert found["rope_theta"] == (wanted.get("rope_parameters") or wanted)["rope_theta"] and found["rope_scaling"] is None
    assert found["head_dim"] == wanted.get("head_dim", wanted["hidden_size"] // wanted["num_attention_heads"])


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantized_tensors_are_the_packages(tmp_path, kind):
    """The rows of queries and keys too, which are turned back after they are dequantized."""
    written, found = there_and_back(tmp_path, "llama_gqa", kind)
    names = {"model.embed_tokens.weight": "token_embd.weight", "model.layers.2.mlp.gate_proj.weight": "blk.2.ffn_gate.weight",
             "lm_head.weight": "output.weight"}
    for ours, theirs in names.items():
        assert np.array_equal(found[ours], written[theirs])
    turned = directory_gguf.permuted(found["model.layers.1.self_attn.q_proj.weight"], 6)
    assert np.array_equal(turned, written["blk.1.attn_q.weight"])
    assert not np.array_equal(found["lm_head.weight"], directory_gguf.text_tensors(GOLDEN / "llama_gqa")["lm_head.weight"])


def test_bfloat16_weights_stay_as_they_are(tmp_path):
    written, found = there_and_back(tmp_path, "qwen3_tied", "BF16", dtype="bfloat16")
    assert np.array_equal(found["model.embed_tokens.weight"], written["token_embd.weight"])


@pytest.mark.parametrize("attention, mlp", [(True, True), (True, False), (False, True)])
def test_biases_of_a_llama(tmp_path, attention, mlp):
    shapes = {**({"attn_q": 96, "attn_k": 32, "attn_v": 32, "attn_output": 96} if attention else {}),
              **({"ffn_gate": 200, "ffn_up": 200, "ffn_down": 96} if mlp else {})}

    def change(_, tensors):
        for layer in range(3):
            for name, size in shapes.items():
                tensors[f"blk.{layer}.{name}.bias"] = np.arange(size, dtype=np.float32) + layer
    _, found = there_and_back(tmp_path, "llama_gqa", change=change)
    config = read(tmp_path / "out" / "config.json")
    assert (config["attention_bias"], config["mlp_bias"]) == (attention, mlp)
    assert sum(name.endswith(".bias") for name in found) == 3 * len(shapes)
    if attention:  # two heads of 16 numbers, in pairs
        assert found["model.layers.1.self_attn.k_proj.bias"].tolist() == [
            1.0 + 16 * head + 2 * pair + second for head in range(2) for second in range(2) for pair in range(8)]
        assert found["model.layers.1.self_attn.v_proj.bias"].tolist() == [1.0 + i for i in range(32)]
    if mlp:
        assert found["model.layers.2.mlp.down_proj.bias"][3] == 5.0


@pytest.mark.parametrize("model, name, words", [
    ("llama_gqa", "blk.0.attn_q.bias", "lacks the tensor blk.0.attn_k.bias, of shape [32] by its fields"),
    ("qwen2_vl", "blk.0.attn_output.bias", "tensor blk.0.attn_output.bias, which has no place in the model"),
    ("qwen3_tied", "blk.0.attn_q.bias", "tensor blk.0.attn_q.bias, which has no place in the model"),
    ("qwen2_vl", "blk.0.attn_q_norm.weight", "tensor blk.0.attn_q_norm.weight, which has no place in the model"),
])
def test_tensors_that_a_family_does_not_have(tmp_path, model, name, words):
    def change(_, tensors):
        tensors[name] = np.zeros(len(tensors["blk.0.attn_q.weight"]), np.float32)
    with pytest.raises(GgufError) as error:
        there_and_back(tmp_path, model, change=change)
    assert words in str(error.value)


@pytest.mark.parametrize("model, name", [("qwen2_vl", "blk.1.attn_v.bias"), ("qwen3_tied", "blk.1.attn_k_norm.weight")])
def test_tensors_that_a_family_needs(tmp_path, model, name):
    with pytest.raises(GgufError, match=f"lacks the tensor {name}"):
        there_and_back(tmp_path, model, change=lambda _, tensors: tensors.pop(name))
