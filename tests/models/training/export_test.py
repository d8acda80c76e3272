import json

import numpy as np
import pytest
import torch

from conftest import random_model
from models.training import export
from models.training.evaluate import by_position
from models.training.export import load_model, tensors_of
from models.training.files import checkpoint, safetensors
from models.training.files.directory import write_model
from models.training.generate import generate
from models.training.token_bits import token_bits


def test_round_trip(tmp_path):
    model = random_model(n_head=2, n_kv_head=1, pe_abs=True, output_norm=True).float()
    write_model(tmp_path, model.config, tensors_of(model))
    again = load_model(tmp_path)
    assert again.config == model.config
    tokens = torch.randint(50, (1, 40))
    assert torch.equal(again(tokens, again.initial_state(1)).logits, model(tokens, model.initial_state(1)).logits)


def test_says_how_texts_begin_where_that_is_asked_for(tmp_path, monkeypatch):
    model = random_model(eos_token_id=49, tokenizer={"type": "ids"})
    checkpoint.save(tmp_path / "best.pt", {"config": model.config.to_json(), "model": model.state_dict()})
    for name, flags in [("without", []), ("with", ["--add-bos-token"])]:
        monkeypatch.setattr("sys.argv", ["export", str(tmp_path / "best.pt"), str(tmp_path / name), *flags])
        export.main()
    assert not (tmp_path / "without" / "generation_config.json").exists()
    begin = json.loads((tmp_path / "with" / "generation_config.json").read_text())
    assert begin == {"bos_token_id": 49, "add_bos_token": True}


def test_an_id_that_is_not_there_begins_no_text(tmp_path, monkeypatch, capsys):
    model = random_model(tokenizer={"type": "ids"})
    checkpoint.save(tmp_path / "best.pt", {"config": model.config.to_json(), "model": model.state_dict()})
    monkeypatch.setattr("sys.argv", ["export", str(tmp_path / "best.pt"), str(tmp_path / "model"), "--add-bos-token"])
    with pytest.raises(SystemExit):
        export.main()
    assert "--add-bos-token: the model has no end-of-sequence id" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_names_and_shapes_are_those_of_the_format():
    tensors = tensors_of(random_model(n_head=4, n_kv_head=2, pe_abs=True, output_norm=True, n_layer=1))
    assert {name: value.shape for name, value in tensors.items()} == {
        "embedding.weight": (50, 16), "position.scale": (1,), "norm.weight": (16,), "norm.bias": (16,),
        "lm_head.weight": (50, 16), "lm_head.bias": (50,),
        "layers.0.norm.weight": (16,), "layers.0.norm.bias": (16,), "layers.0.u": (4, 8), "layers.0.w": (4, 8),
        "layers.0.q_proj.weight": (32, 16), "layers.0.k_proj.weight": (16, 16), "layers.0.v_proj.weight": (24, 16),
        "layers.0.g_proj.weight": (48, 16), "layers.0.r_proj.weight": (32, 16), "layers.0.o_proj.weight": (16, 48),
        "layers.0.codebook.sum": (2, 7, 8), "layers.0.codebook.count": (2, 7)}
    tied = tensors_of(random_model(tie_word_embeddings=True))
    assert not {"lm_head.weight", "position.scale", "norm.weight"} & set(tied)


def test_bfloat16_keeps_codebooks(tmp_path):
    model = random_model().float()
    write_model(tmp_path, model.config, tensors_of(model, bfloat16=True))
    raw = (tmp_path / "model.safetensors").read_bytes()
    header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["dtype"] == ("F32" if ".codebook." in name else "BF16")
    again = load_model(tmp_path)
    assert torch.equal(again.layers[0].codebook.sum, model.layers[0].codebook.sum)
    assert torch.equal(again.embedding.weight, model.embedding.weight.bfloat16().float())


def test_bfloat16_keeps_random_features():
    tensors = tensors_of(random_model("performer", n_layer=1).float(), bfloat16=True)
    assert {name for name, value in tensors.items() if not isinstance(value, safetensors.BFloat16)} == {"layers.0.features"}


def test_loading_names_what_is_wrong(tmp_path):
    model = random_model().float()
    tensors = tensors_of(model)
    write_model(tmp_path, model.config, {name: value for name, value in tensors.items() if name != "layers.1.u"})
    with pytest.raises(ValueError, match="lacks the tensor layers.1.u"):
        load_model(tmp_path)
    write_model(tmp_path, model.config, {**tensors, "layers.1.u": np.zeros((1, 9), np.float32)})
    with pytest.raises(ValueError, match=r"layers.1.u has shape \[1, 9\], not \[1, 8\]"):
        load_model(tmp_path)
    write_model(tmp_path, model.config, {**tensors, "layers.2.u": tensors["layers.1.u"]})
    with pytest.raises(ValueError, match="no use for 1 tensors, such as layers.2.u"):
        load_model(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 40, -1])
def test_cut_safetensors_files(tmp_path, size):
    safetensors.save(tmp_path / "whole", {"a": np.zeros((3, 4), np.float32)})
    (tmp_path / "cut").write_bytes((tmp_path / "whole").read_bytes()[:size])
    with pytest.raises(ValueError, match="cut"):
        safetensors.load(tmp_path / "cut")


def test_evaluation_does_not_depend_on_segments_and_equals_the_definition():
    model = random_model()
    ids = np.random.default_rng(1).integers(0, 50, 150).astype(np.uint16)
    bits = token_bits(model, ids, segment=16)
    tokens = torch.from_numpy(ids.astype(np.int64))[None]
    rows = model(tokens).logits[0].log_softmax(-1) / -np.log(2)
    expected = rows[torch.arange(149), tokens[0, 1:]].detach().numpy()
    assert len(bits) == 149
    # float64 model, float32 cross entropy: 24 bits of values below 64
    assert np.abs(bits - expected).max() < 64 * 2.0 ** -22
    assert np.abs(token_bits(model, ids, segment=4096) - bits).max() < 64 * 2.0 ** -22


def test_by_position():
    assert by_position(np.array([1.0, 1, 4, 4, 4]), bounds=(0, 2, 4, 100)) == [(0, 2, 1.0), (2, 4, 4.0), (4, 5, 4.0)]


def test_greedy_generation_takes_the_best_token_of_the_whole_context():
    model = random_model()
    prompt = [3, 1, 4]
    ids = generate(model, prompt, 30, temperature=0)
    rows = model(torch.tensor([prompt + ids])).logits[0]
    assert rows[len(prompt) - 1:-1].argmax(-1).tolist() == ids
