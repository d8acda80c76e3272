"""Models of the public families with recurrent layers: one function in every form, whose directories are the families'."""

import json

import numpy as np
import pytest
import torch

from conftest import PUBLIC, ROOT, random_public_model
from models.training.export import load_model, tensors_of
from models.training.families import read_config
from models.training.files import safetensors
from models.training.files.directory import write_model
from models.training.generate import generate

# The same float64 numbers added in another order: a few roundings (1e-16) of sums below 1,000.
TOLERANCE = 1e-10
every_family = pytest.mark.parametrize("family", PUBLIC)


@every_family
@pytest.mark.parametrize("tokens", [1, 7, 90])
def test_whole_by_segments_and_step_by_step(family, tokens):
    model = random_public_model(family)
    ids = torch.randint(50, (2, tokens))
    whole = model(ids).logits
    for pieces in ([1] * tokens, [tokens // 2, tokens - tokens // 2]):
        state, rows = model.initial_state(2), []
        for piece in ids.split([piece for piece in pieces if piece], 1):
            output = model(piece, state)
            rows.append(output.logits)
            state = output.state
        assert (torch.cat(rows, 1) - whole).abs().max() < TOLERANCE
        assert int(state.position) == tokens
    assert not any(part.requires_grad for layer in state.layers for part in layer)


@every_family
def test_far_tokens_matter_and_later_ones_do_not(family):
    model = random_public_model(family)
    ids = torch.randint(50, (1, 40))
    other = ids.clone()
    other[0, 20] = (ids[0, 20] + 1) % 50
    rows, changed = model(ids).logits[0], model(other).logits[0]
    assert torch.equal(rows[:20], changed[:20])
    assert (rows[-1] - changed[-1]).abs().max() > 1e3 * TOLERANCE


@every_family
def test_every_parameter_learns(family):
    model = random_public_model(family)
    model(torch.randint(50, (2, 12))).logits.square().mean().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


@every_family
@pytest.mark.parametrize("options", [
    {}, dict(tie_word_embeddings=True),
    dict(tie_word_embeddings=False, eos_token_id=[1, 2], use_cache=True, tokenizer={"type": "bytes"})])
def test_a_directory_gives_the_model_back(tmp_path, family, options):
    model = random_public_model(family, **options).float()
    write_model(tmp_path, model.config, tensors_of(model))
    again = load_model(tmp_path)
    assert again.config == model.config
    written = json.loads((tmp_path / "config.json").read_text())
    assert {**PUBLIC[family], **options}.items() <= written.items() and ("tokenizer" in written) == ("tokenizer" in options)
    ids = torch.randint(50, (1, 20))
    assert torch.equal(again(ids).logits, model(ids).logits)
    exact = again.double()
    chosen = generate(exact, [3, 1, 4], 10, temperature=0)
    assert exact(torch.tensor([[3, 1, 4] + chosen])).logits[0, 2:-1].argmax(-1).tolist() == chosen


NORM = {"weight", "bias"}
NAMES = {
    "rwkv7": ("model.embeddings", "model.norm", {
        "": {"pre_norm": NORM, "attn_norm": NORM, "ffn_norm": NORM},
        "attn.": {**{f"{c}_proj": {"weight"} for c in "rkvo"},
                  **{f"{c}_lora.lora": {"0.weight", "2.weight", "2.bias"} for c in "wa"},
                  "g_lora.lora": {"0.weight", "2.weight"}, "g_norm": NORM,
                  "": {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "k_k", "k_a", "r_k"}},
        "ffn.": {"key": {"weight"}, "value": {"weight"}, "": {"x_k"}}}),
    "mamba2": ("backbone.embeddings", "backbone.norm_f", {
        "": {"norm": {"weight"}},
        "mixer.": {"in_proj": {"weight"}, "conv1d": NORM, "norm": {"weight"}, "out_proj": {"weight"},
                   "": {"A_log", "D", "dt_bias"}}}),
    "qwen3_5_text": ("model.embed_tokens", "model.norm", {
        "": {"input_layernorm": {"weight"}, "post_attention_layernorm": {"weight"}},
        "linear_attn.": {**{f"in_proj_{c}": {"weight"} for c in ("qkv", "z", "b", "a")}, "conv1d": {"weight"}, "norm": {"weight"},
                         "out_proj": {"weight"}, "": {"A_log", "dt_bias"}},
        "mlp.": {f"{c}_proj": {"weight"} for c in ("gate", "up", "down")}}),
}


@every_family
def test_names_of_tensors_are_the_families(family):
    embedding, norm, parts = NAMES[family]
    expected = {f"{group}{part}.{name}" if part else f"{group}{name}"
                for group, of_group in parts.items() for part, names in of_group.items() for name in names}
    tensors = tensors_of(random_public_model(family))
    first = f"{embedding.split('.')[0]}.layers.0."
    assert {name[len(first):] for name in tensors if name.startswith(first)} == expected
    ends = {name for name in tensors if ".layers." not in name}
    assert ends == {f"{embedding}.weight", f"{norm}.weight", *([f"{norm}.bias"] if family == "rwkv7" else []),
                    *([] if family == "mamba2" else ["lm_head.weight"])}


def test_names_of_other_layers_and_shapes_of_a_few():
    rwkv7 = tensors_of(random_public_model("rwkv7"))
    second = {name.split(".", 3)[3] for name in rwkv7 if name.startswith("model.layers.1.")}
    first = {name.split(".", 3)[3] for name in rwkv7 if name.startswith("model.layers.0.")}
    assert second - first == {f"attn.v_lora.lora.{name}" for name in ("0.weight", "2.weight", "2.bias")}
    assert first - second == {"pre_norm.weight", "pre_norm.bias"}
    assert rwkv7["model.layers.0.attn.x_r"].shape == (1, 1, 16) and rwkv7["model.layers.0.ffn.x_k"].shape == (16,)
    assert rwkv7["model.layers.0.attn.r_k"].shape == (2, 8)
    qwen = tensors_of(random_public_model("qwen3_5_text"))
    attention = {name.split(".", 4)[4]: qwen[name].shape for name in qwen if ".1.self_attn." in name}
    assert attention == {"q_proj.weight": (64, 16), "k_proj.weight": (16, 16), "v_proj.weight": (16, 16), "o_proj.weight": (16, 32),
                         "q_norm.weight": (8,), "k_norm.weight": (8,)}
    assert tensors_of(random_public_model("mamba2"))["backbone.layers.0.mixer.conv1d.weight"].shape == (32 + 2 * 12, 1, 4)


@pytest.mark.parametrize("family, fields, message", [
    ("rwkv7", dict(head_dim=5), "hidden_size must be a multiple of head_dim, which is 5, not 16"),
    ("rwkv7", dict(head_dim=0), "head_dim must be a positive integer, not 0"),
    ("rwkv7", dict(attn={"layers": [1]}), "attn must be None, not {'layers'"),
    ("rwkv7", dict(value_dim=[16, 32]), "value_dim must be hidden_size, which is 16, not"),
    ("mamba2", dict(n_groups=3), "num_heads must be a multiple of n_groups, which is 3, not 4"),
    ("mamba2", dict(expand=3), "num_heads must be expand . hidden_size / head_dim, of 3, 16 and 8, not 4"),
    ("mamba2", dict(hidden_act="gelu"), "hidden_act must be 'silu', not 'gelu'"),
    ("qwen3_5_text", dict(layer_types=["linear_attention"]), "layer_types must be .* for each of 2 layers"),
    ("qwen3_5_text", dict(linear_num_key_heads=3), "linear_num_value_heads must be a multiple of linear_num_key_heads, which is 3"),
    ("qwen3_5_text", dict(rope_parameters={"rope_type": "yarn"}), "rope_type must be 'default', not 'yarn'"),
    ("qwen3_5_text", dict(quantization_config={}), "quantization_config must be None"),
])
def test_what_is_not_supported_is_named(family, fields, message):
    with pytest.raises(ValueError, match=message):
        read_config({**PUBLIC[family], **fields})


def test_a_field_that_is_missing_is_named():
    fields = {name: value for name, value in PUBLIC["mamba2"].items() if name != "state_size"}
    with pytest.raises(ValueError, match="the config.json of a mamba2 lacks state_size"):
        read_config(fields)


@pytest.mark.parametrize("limit, most", [
    ([0.0, {"__float__": "Infinity"}], float("inf")), ([0.0, 0.25], 0.25), (None, float("inf"))])
def test_step_limits(limit, most):
    assert read_config({**PUBLIC["mamba2"], "time_step_limit": limit}).step_limits() == (0.0, most)


GOLDEN = [name for name in ("rwkv7_pieces", "mamba2_one_group")
          if (ROOT / "tests/golden/hugging_face" / name / "model.safetensors").exists()]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_directories_of_the_families_own_code(golden, name):
    folder = golden / "hugging_face" / name
    expected = safetensors.load(folder / "expected.safetensors")
    model = load_model(folder)
    prompt, greedy = expected["greedy.prompt_tokens"], expected["greedy.tokens"]
    ids = torch.from_numpy(np.concatenate([prompt, greedy]).astype(np.int64))[None]
    with torch.no_grad():
        rows = model(ids).logits[0].log_softmax(-1).numpy()[len(prompt) - 1:-1]
    assert (rows.argmax(-1) == greedy).all()
    assert np.abs(rows.max(-1) - expected["greedy.logprobs"]).max() < 1e-4  # what float32 may differ by (tests/golden/README.md)
