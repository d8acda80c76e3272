"""What tvq-verify is given."""

import json

import numpy as np
import pytest
import torch

from conftest import CONVERSION, SHAPE, random_model
from models.conversion import expected
from models.conversion.directory import load_model
from models.training.files import safetensors

LENGTH = 600  # past a block of logits


def write(directory, model, **change):
    """A directory without a tokenizer: texts are ids."""
    (directory / "config.json").write_text(json.dumps({**SHAPE, "conversion": CONVERSION, **change}))
    tensors = {name: value.float().numpy() for name, value in model.state_dict().items()}
    safetensors.save(directory / "model.safetensors", tensors)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """-> (the model of a directory, its ids, what was written)"""
    write(tmp_path, random_model())
    ids = np.random.default_rng(0).integers(0, SHAPE["vocab_size"], 700)
    (tmp_path / "ids.txt").write_text(" ".join(map(str, ids)))
    monkeypatch.setattr(expected, "CONTINUATION", 8)
    monkeypatch.setattr("sys.argv", ["expected", *map(str, (tmp_path, tmp_path / "ids.txt", tmp_path / "out.safetensors")),
                                     "--tokens", str(LENGTH), "--last-rows", "90"])
    expected.main()
    return load_model(tmp_path), ids[:LENGTH], safetensors.load(tmp_path / "out.safetensors")


def test_has_what_the_model_predicts(made):
    model, ids, out = made
    with torch.no_grad():
        rows = model.log_probabilities(torch.from_numpy(ids)).numpy()
    assert np.array_equal(out["text.tokens"], ids)
    # Float32 of values below 32.
    assert np.abs(out["text.target_logprobs"] - rows[np.arange(LENGTH - 1), ids[1:]]).max() < 1e-6
    assert out["text.last_logprobs"].shape == (90, SHAPE["vocab_size"])
    assert np.abs(out["text.last_logprobs"] - rows[-90:]).max() < 1e-6
    assert np.abs(out["short.logprobs"] - rows[:1]).max() < 1e-6 and out["short.tokens"].tolist() == [ids[0]]


def test_has_the_codes_of_the_heads_in_their_order(made):
    model, ids, out = made
    with torch.no_grad():
        codes = model(torch.from_numpy(ids)).codes
    columns = [codes[0][0], codes[0][1], codes[1][1], codes[1][0]]  # 1.0 is wide
    assert out["text.codes"].dtype == np.int32 and np.array_equal(out["text.codes"], torch.stack(columns, 1))
    assert np.array_equal(out["short.codes"], [[CONVERSION["codes"]] * 4])


def test_has_a_continuation(made):
    model, _, out = made
    tokens = np.concatenate([out["greedy.prompt_tokens"], out["greedy.tokens"]])
    assert len(out["greedy.prompt_tokens"]) == expected.PROMPT and len(out["greedy.tokens"]) == 8
    with torch.no_grad():
        rows = model.log_probabilities(torch.from_numpy(tokens.astype(np.int64)))[expected.PROMPT - 1:-1]
    assert np.array_equal(rows.argmax(-1), out["greedy.tokens"])
    assert np.abs(rows.max(-1).values.numpy() - out["greedy.logprobs"]).max() < 1e-6
    assert out["greedy.codes"].shape == (len(tokens), 4)


def test_refuses_tensors_that_do_not_fit(tmp_path):
    model = random_model()
    write(tmp_path, model, num_hidden_layers=1, conversion={**CONVERSION, "wide": []})
    with pytest.raises(ValueError, match="no use for 14 tensors, such as model.layers.1"):
        load_model(tmp_path)
    write(tmp_path, model, num_hidden_layers=3)
    with pytest.raises(ValueError, match="lacks the tensor model.layers.2"):
        load_model(tmp_path)
    write(tmp_path, model, conversion={**CONVERSION, "codes": 9})
    with pytest.raises(ValueError, match=r"conversion.assign has shape \[2, 7, 8\], must be \[2, 9, 8\]"):
        load_model(tmp_path)
