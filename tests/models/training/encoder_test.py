"""The encoder's linear form against the quadratic formula, and what an encoder is not."""

import numpy as np
import pytest
import torch

from conftest import BLOCKS, ENCODER, random_model
from models.training import evaluate
from models.training.config import ModelConfig
from models.training.export import load_model, tensors_of
from models.training.files.directory import write_model
from models.training.model import Model
from models.training.units.encoder_unit import linear_form

TOLERANCE = 1e-10  # float64, other order of sums
HEADS = [dict(), dict(n_head=4, n_kv_head=2), dict(n_head=3, n_kv_head=1)]
every_form = pytest.mark.parametrize("options", [{**BLOCKS[block], **heads} for block in BLOCKS for heads in HEADS])


def encoder(**options):
    return random_model("vq_encoder", **{"n_code": 7, "output_norm": True, "pe_abs": True, **options})


@every_form
@pytest.mark.parametrize("tokens", [1, 2, 90])
def test_linear_form_equals_quadratic_form(options, tokens):
    model, ids = encoder(**options), torch.randint(50, (2, tokens))
    quadratic = model.train().encode(ids)
    linear = model.eval().encode(ids)
    assert linear.shape == (2, tokens, 16)
    assert (linear - quadratic).abs().max() < TOLERANCE


def test_linear_form_equals_the_formula_written_out():
    query, values = torch.randn(1, 2, 9, 4, dtype=torch.float64), torch.randn(1, 1, 9, 3, dtype=torch.float64)
    codes, codebook = torch.randint(5, (1, 1, 9)), torch.randn(1, 5, 4, dtype=torch.float64)
    delta = torch.nn.functional.one_hot(codes[0, 0], 5).double()  # [T, S]
    for head in range(2):
        weights = torch.exp(query[0, head] @ codebook[0].T)  # [T, S]
        expected = (weights @ (delta.T @ values[0, 0])) / (weights @ delta.sum(0))[:, None]
        assert (linear_form(query, codes, values, codebook)[0, head] - expected).abs().max() < TOLERANCE


def test_every_position_sees_every_other():
    model, ids = encoder(n_layer=1).eval(), torch.randint(50, (1, 20))
    base = model.encode(ids)
    for place in (0, 19):
        other = ids.clone()
        other[0, place] = (ids[0, place] + 1) % 50
        assert ((model.encode(other) - base).abs().amax(-1) > 1e-9).all()


def test_training_gives_keys_and_codes_what_they_learn_from():
    model, ids = encoder().train(), torch.randint(50, (2, 30))
    output = model(ids)
    torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), ids.flatten()).backward()
    assert all(layer.k_proj.weight.grad.abs().sum() > 0 for layer in model.layers)
    before = model.layers[0].codebook.sum.clone()
    model.after_step(output.seen)
    assert not torch.equal(before, model.layers[0].codebook.sum)


def test_learns_to_fill_in_hidden_tokens():
    """What stands behind the hidden token tells it."""
    torch.manual_seed(1)
    model = Model(ModelConfig(**{**ENCODER, "vocab_size": 12, "n_layer": 1, "output_norm": True}))
    optimizer, filler, hidden, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), 10, 11, []
    for _ in range(80):
        told = torch.randint(5, (32, 1))
        shown = torch.cat([torch.tensor([[filler, hidden]]).expand(32, 2), told.expand(32, 4) + 5], 1)
        output = model(shown)
        loss = torch.nn.functional.cross_entropy(output.logits[:, 1], told[:, 0])
        optimizer.zero_grad()
        (loss + 1e-3 * output.auxiliary).backward()
        optimizer.step()
        model.after_step(output.seen)
        losses.append(loss.item())
    assert np.mean(losses[:3]) > 0.9 * np.log(5) and np.mean(losses[-10:]) < 0.2 * np.log(5)


def test_a_model_directory_gives_the_encoder_back(tmp_path):
    model = encoder(n_head=2, n_kv_head=1).float().eval()
    write_model(tmp_path, model.config, tensors_of(model))
    ids = torch.randint(50, (1, 40))
    assert torch.equal(load_model(tmp_path).encode(ids), model.encode(ids))


def test_an_encoder_predicts_nothing_and_a_decoder_encodes_nothing(tmp_path, monkeypatch, capsys):
    model = encoder()
    with pytest.raises(ValueError, match="an encoder reads whole sequences: it has no state"):
        model.initial_state(1)
    with pytest.raises(ValueError, match="a linear_transformer predicts, it does not encode; a vq_encoder does"):
        random_model("linear_transformer").encode(torch.zeros(1, 3, dtype=torch.long))
    write_model(tmp_path, model.config, tensors_of(model))
    monkeypatch.setattr("sys.argv", ["evaluate", str(tmp_path), "text"])
    with pytest.raises(SystemExit):
        evaluate.main()
    assert "a vq_encoder predicts no next token" in capsys.readouterr().err


def test_a_hundred_thousand_tokens_take_linear_memory():
    """The quadratic form would hold 10^10 weights. Its rows are checked at a few positions."""
    tokens = 100_000
    query, values = torch.randn(1, 1, tokens, 4), torch.randn(1, 1, tokens, 3)
    codes, codebook = torch.randint(5, (1, 1, tokens)), torch.randn(1, 5, 4)
    output = linear_form(query, codes, values, codebook)
    for place in (0, 77_777, tokens - 1):
        weights = (codebook[0, codes[0, 0]].double() @ query[0, 0, place].double()).softmax(0)
        expected = weights @ values[0, 0].double()
        # A float32 sum of n numbers of about 1 is about sqrt(n) all along; each of its n roundings errs by up to 2^-24 of
        # that. As a random walk they come to 2^-24 n, of the mean 2^-24; 6 standard deviations.
        assert (output[0, 0, place] - expected).abs().max() < 6 * 2.0 ** -24
