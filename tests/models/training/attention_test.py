"""The linear block form against the quadratic definition."""

import pytest
import torch

from conftest import random_model
from models.training.units.position_bias import relative_scores

SHAPES = [
    dict(),
    dict(n_head=4, n_kv_head=2, block_len=6, mem_len=10, pe_abs=True, output_norm=True),
    dict(n_head=3, n_kv_head=1, block_len=4, mem_len=11, logit_scale=0.3),
    dict(n_head=2, block_len=12, mem_len=5, tie_word_embeddings=True, output_norm=True, pe_lam=500.0),
    dict(n_head=3, block_len=5, mem_len=1),
    dict(block_len=5, mem_len=0),
    dict(position_bias="toeplitz"),
    dict(position_bias="toeplitz", n_head=4, n_kv_head=2, block_len=6, mem_len=10, pe_abs=True),
    dict(position_bias="rerope"),
    dict(position_bias="rerope", n_head=4, n_kv_head=2, block_len=6, mem_len=10, pe_lam=500.0),
    dict(position_bias="rerope", block_len=5, mem_len=0),
]
# Both forms add the same float64 numbers in another order: differences are a few roundings (1e-16) of logits below 100.
TOLERANCE = 1e-11


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("use_accumulator", [True, False])
def test_block_form_equals_quadratic_form(shape, use_accumulator):
    model = random_model(**shape)
    tokens = torch.randint(50, (2, 101))
    quadratic = model(tokens, use_accumulator=use_accumulator).logits
    blocks = model(tokens, model.initial_state(2), use_accumulator=use_accumulator).logits
    assert (quadratic - blocks).abs().max() < TOLERANCE


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tokens", [1, 2, 5, 9])
def test_sequences_shorter_than_the_reach(shape, tokens):
    model = random_model(**{**shape, "mem_len": 9})
    ids = torch.randint(50, (2, tokens))
    assert (model(ids).logits - model(ids, model.initial_state(2)).logits).abs().max() < TOLERANCE


def gradients(model, tokens, state, use_accumulator):
    model.zero_grad()
    output = model(tokens, state, use_accumulator=use_accumulator)
    (output.logits.square().mean() + output.auxiliary).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("use_accumulator", [True, False])
def test_gradients_of_both_forms_are_equal(shape, use_accumulator):
    """With the accumulator, all but those that come from keys: the linear form gives far keys no gradient."""
    model = random_model(**{**shape, "n_layer": 1})
    tokens = torch.randint(50, (1, 7 * model.config.block_len))
    quadratic = gradients(model, tokens, None, use_accumulator)
    blocks = gradients(model, tokens, model.initial_state(1), use_accumulator)
    assert quadratic.keys() == blocks.keys()
    from_keys = ("embedding", "layers.0.norm", "layers.0.k_proj", "position.scale")
    for name in quadratic:
        if not use_accumulator or not name.startswith(from_keys):
            assert torch.allclose(quadratic[name], blocks[name], rtol=1e-8, atol=1e-11), name


@pytest.mark.parametrize("shape", SHAPES)
def test_carrying_the_state_over_segments_changes_nothing(shape):
    model = random_model(**shape)
    tokens = torch.randint(50, (2, 9 * model.config.block_len + 3))
    whole = model(tokens, model.initial_state(2)).logits
    state, parts, begin = model.initial_state(2), [], 0
    for blocks in (1, 3, 2, 4):  # the last segment ends within a block
        output = model(tokens[:, begin:begin + blocks * model.config.block_len], state)
        parts.append(output.logits)
        begin, state = begin + blocks * model.config.block_len, output.state
    assert state is None
    assert (whole - torch.cat(parts, 1)).abs().max() < TOLERANCE


def test_far_tokens_matter_only_through_the_accumulator():
    model = random_model(n_layer=1)
    tokens = torch.randint(50, (1, 40))
    other = tokens.clone()
    other[0, 3] = (tokens[0, 3] + 1) % 50  # more than the reach of 8 before the last position

    def last(tokens, use_accumulator):
        return model(tokens, model.initial_state(1), use_accumulator=use_accumulator).logits[0, -1]

    assert torch.equal(last(tokens, False), last(other, False))
    assert not torch.equal(last(tokens, True), last(other, True))


def test_relative_scores_moves_each_distance_to_its_position():
    length, reach, window = 3, 4, 9
    by_distance = torch.arange(1.0, 1 + length * (reach + 1)).reshape(length, reach + 1)
    moved = relative_scores(by_distance, window)
    for i in range(length):
        for j in range(window):
            distance = window - length + i - j
            expected = by_distance[i, reach - distance] if 0 <= distance <= reach else 0.0
            assert moved[i, j] == expected


def scores_by_definition(form, unit, query, key, distance):
    """score(i, j) of docs/mathematics.md, query and key [K] as they are projected."""
    reach = unit.config.mem_len
    if form == "toeplitz":
        return query @ key + (unit.distance_bias[0, distance] if distance <= reach else 0)
    turn = min(distance, reach) * unit.config.pe_lam ** (-2 * torch.arange(4, dtype=torch.float64) / 8)
    cos, sin = turn.cos(), turn.sin()
    return query[:4] @ (key[:4] * cos - key[4:] * sin) + query[4:] @ (key[:4] * sin + key[4:] * cos)


@pytest.mark.parametrize("form", ["toeplitz", "rerope"])
def test_a_bias_is_what_its_formula_says(form):
    unit = random_model(position_bias=form, n_layer=1, mem_len=5, pe_lam=70.0).layers[0]
    normed = torch.randn(1, 20, 16, dtype=torch.float64)
    query, bias, keys = unit.project(normed)
    scale = 8 ** -0.25
    raw = unit.q_proj(normed)[0]
    raw = raw * (raw.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * scale
    found = bias(query @ keys.transpose(-1, -2), lambda: keys)[0, 0]
    for i in range(20):
        for j in range(i + 1):
            expected = scores_by_definition(form, unit, raw[i], keys[0, 0, j], i - j)
            assert (found[i, j] - expected).abs() < TOLERANCE
