"""Soft codebook and Performer against what they come near: hard quantization, and softmax attention."""

import math

import pytest
import torch

from conftest import random_model
from models.training.units.exponential_unit import exponentials, positive_features, reached, soft_assignment
from models.training.units.feature_unit import quadratic_form


def hard_and_soft(sigma, **options):
    """The same weights as a Transformer-VQ without a positional bias and as a soft codebook."""
    hard = random_model("transformer_vq", **options)
    with torch.no_grad():
        for layer in hard.layers:
            layer.u.zero_()
            layer.r_proj.weight.zero_()
    soft = random_model("soft_codebook", sigma=sigma, **options)
    soft.load_state_dict(without_bias(hard))
    return hard, soft


def without_bias(model):
    return {name: value for name, value in model.state_dict().items() if not name.endswith((".u", ".w", "r_proj.weight"))}


@pytest.mark.parametrize("eta", [0.3, 1e-2, 1e-4, 1e-8])
def test_the_distance_from_hard_quantization_falls_with_sigma(eta):
    """A code that is not the nearest gets at most epsilon = exp(-gap / (2 sigma^2)) of a key, where its squared distance is
    larger by the gap. The weight of a position then changes by a factor within 1 +- eta, eta = S epsilon exp(r), r the range
    of q . C_s; and a weighted mean of values by at most 2 eta / (1 - eta) of the largest value."""
    codes, width = 6, 4
    query, values = torch.randn(1, 4, 40, width, dtype=torch.float64), torch.randn(1, 2, 40, 3, dtype=torch.float64)
    codebook, chosen = torch.randn(2, codes, width, dtype=torch.float64), torch.randint(codes, (1, 2, 40))
    keys = torch.stack([codebook[g, chosen[0, g]] for g in range(2)])[None]
    keys = keys + 0.05 * torch.randn_like(keys)
    nearest = (keys[:, :, :, None] - codebook[:, None]).square().sum(-1).sort(-1)
    gap = (nearest.values[..., 1] - nearest.values[..., 0]).min()
    scores = query.unflatten(1, (2, 2)) @ codebook[:, None].transpose(-1, -2)
    spread = (scores.amax(-1) - scores.amin(-1)).max()
    sigma = ((gap / 2) / (spread + math.log(codes / eta))).sqrt().item()
    hard = torch.nn.functional.one_hot(nearest.indices[..., 0], codes).double()
    weights = exponentials(query, codebook, torch.ones(1, 2, 40, codes, dtype=torch.bool))
    difference = quadratic_form(weights, soft_assignment(keys, codebook, sigma), values) - quadratic_form(weights, hard, values)
    assert 0 < difference.abs().max() <= 2 * eta / (1 - eta) * values.abs().max()


@pytest.mark.parametrize("block", [dict(), dict(block="standard", d_ff=24)])
def test_a_very_small_sigma_is_hard_quantization(block):
    hard, soft = hard_and_soft(1e-4, n_head=4, n_kv_head=2, **block)
    ids = torch.randint(50, (2, 101))
    expected = hard(ids).logits
    for state in (None, soft.initial_state(2)):
        assert (soft(ids, state).logits - expected).abs().max() < 1e-10  # float64 sums in another order


def test_shares_are_those_of_a_mixture_of_gaussians():
    keys, codebook = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(3, 6, 4, dtype=torch.float64)
    density = torch.exp(-(keys[:, :, :, None] - codebook[:, None]).square().sum(-1) / (2 * 0.6 ** 2))
    expected = density / density.sum(-1, keepdim=True)
    assert torch.allclose(soft_assignment(keys, codebook, 0.6), expected, rtol=1e-12)


def test_codes_move_to_the_mean_of_what_they_are_responsible_for():
    model = random_model("soft_codebook", n_layer=1).float()
    codebook = model.layers[0].codebook
    before = codebook.sum.clone(), codebook.count.clone()
    output = model(torch.randint(50, (2, 40)))
    keys, shares = output.seen[0]
    model.after_step(output.seen)
    assert torch.allclose(codebook.count, 0.99 * before[1] + 0.01 * shares.sum((0, 2)), rtol=1e-5)
    moved = 0.99 * before[0] + 0.01 * torch.einsum("bgts,bgtk->gsk", shares, keys)
    assert torch.allclose(codebook.sum, moved, rtol=1e-5, atol=1e-6)


def performer_attention(query, keys, values, features):
    of_keys = positive_features(keys, features)
    return quadratic_form(exponentials(query, features, reached(of_keys)), of_keys, values)[:, :, -1]


def test_performer_comes_near_softmax_attention_as_the_root_of_its_features():
    """The delta method: with p softmax's weights and o its output, F times the mean squared error of a component tends to
    sum_jl p_j p_l (v_j - o) (v_l - o) exp((q + k_j) . (q + k_l)), since E exp(a . P) exp(b . P) = exp(|a + b|^2 / 2) for a
    standard normal P. The squared errors of R draws have a mean within 4 sqrt(2 / R) of their own (normal errors, 4 standard
    deviations, all components as one)."""
    draws, tokens, width = 400, 12, 4
    random = torch.Generator().manual_seed(5)
    drawn = torch.randn(2, 1, 1, tokens, width, generator=random, dtype=torch.float64)
    query, keys = 0.8 * torch.nn.functional.normalize(drawn, dim=-1)
    values = torch.randn(1, 1, tokens, 3, generator=random, dtype=torch.float64)
    weights = (query[0, 0, -1] @ keys[0, 0].T).softmax(-1)
    softmax = weights @ values[0, 0]
    sums = query[0, 0, -1] + keys[0, 0]  # q + k_j
    centred = weights[:, None] * (values[0, 0] - softmax)
    expected = torch.einsum("jv,jl,lv->", centred, torch.exp(sums @ sums.T), centred).item()
    errors = {}
    for count in (64, 256, 1024, 4096):
        squares = []
        for _ in range(draws):
            features = torch.randn(1, count, width, generator=random, dtype=torch.float64)
            squares.append((performer_attention(query, keys, values, features)[0, 0] - softmax).square().sum().item())
        errors[count] = sum(squares) / draws
    # At 64 features terms of the order 1/F^2 still count; from 256 on they are below the statistical tolerance.
    for count in (256, 1024, 4096):
        assert abs(errors[count] * count / expected - 1) < 4 * math.sqrt(2 / draws)
    assert errors[64] > errors[256] > errors[1024] > errors[4096]


def test_performers_weights_are_softmax_attentions_in_the_limit():
    """The unit itself, with many features, beside a softmax unit of the same weights without a positional bias."""
    softmax = random_model("softmax_transformer", n_layer=1, d_k=2, n_head=2, n_kv_head=1)
    with torch.no_grad():
        softmax.layers[0].u.zero_()
        softmax.layers[0].r_proj.weight.zero_()
    ids, errors = torch.randint(50, (1, 30)), []
    expected = softmax(ids).logits
    for count in (100, 10000):
        performer = random_model("performer", n_layer=1, d_k=2, n_head=2, n_kv_head=1, n_feature=count)
        performer.load_state_dict({**without_bias(softmax), "layers.0.features": performer.layers[0].features})
        errors.append((performer(ids).logits - expected).square().mean().sqrt().item())
    # A hundred times the features: a tenth of the error, to a factor of 2 for the two draws.
    assert 5 < errors[0] / errors[1] < 20


def test_features_survive_float32():
    query = torch.full((1, 1, 1, 4), 30.0)
    rows = torch.tensor([[[9.0, 9, 9, 9], [-9.0, -9, -9, -9]]])
    assert exponentials(query, rows, torch.tensor([True, True]).expand(1, 1, 1, 2)).flatten().tolist() == [1.0, 0.0]


def test_features_are_reached_by_the_keys_before():
    features = torch.tensor([[0.0, 1, 0, 0], [0, 0, 1e-30, 0], [0, 0, 0, 0]])[None, None]
    expected = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0]], dtype=torch.bool)
    assert torch.equal(reached(features)[0, 0], expected)
    expected[:, 3] = True
    assert torch.equal(reached(features, torch.tensor([[[0.0, 0, 0, 2]]]))[0, 0], expected)


@pytest.mark.parametrize("tokens", [40, 101])
def test_a_code_that_no_key_is_near_does_not_decide(tokens):
    """Its score with a query may be the largest by far; the shares of it are 0."""
    ids, found = torch.randint(50, (2, tokens)), []
    for length in (1000, -1000):
        torch.manual_seed(1)
        model = random_model("soft_codebook", sigma=0.1).float()
        for layer in model.layers:
            layer.codebook.sum[:, 3] = length * layer.codebook.count[:, 3, None]
        for state in (None, model.initial_state(2)):
            found.append(model(ids, state).logits)
    assert all(logits.isfinite().all() for logits in found)
    # The same sums of float32, in another order: 2^-24 of values below 16, some hundred times.
    assert all((logits - found[0]).abs().max() < 100 * 16 * 2.0 ** -24 for logits in found[1:])
