"""The quadratic form against the recurrence, transformers and the softmax model."""

import numpy as np
import pytest
import torch

import recurrence
from conftest import CONVERSION, SHAPE, random_model
from models.conversion import attention
from models.conversion.config import read_config
from models.conversion.directory import load_model
from models.conversion.model import Model
from models.training.files import safetensors

LENGTH = 330  # past two of the longer rings and the trained context, and no multiple of a block
# Sums of some hundred numbers below 10 in float64.
TOLERANCE = 1e-11

MODELS = {
    "narrow and wide": dict(),
    "biases everywhere": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "biases of queries, keys and values, scaled": dict(
        model_type="qwen2", rope_scaling={"rope_type": "linear", "factor": 2.5}),
    "norms of heads, partial rotation": dict(
        model_type="qwen3", rope_parameters={"rope_theta": 50000.0, "partial_rotary_factor": 0.5}),
    "heads that keep all": dict(model_type="mistral", sliding_window=None, conversion={**CONVERSION, "grow": [[0, 1], [1, 1]]}),
}


@pytest.mark.parametrize("state", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_equals_the_recurrence(fields, state):
    model, tokens = random_model(state, **fields), torch.randint(0, SHAPE["vocab_size"], (LENGTH,))
    with torch.no_grad():
        rows, codes = model.log_probabilities(tokens), torch.stack(model(tokens).codes)  # [layers, G, T]
    wanted, wanted_codes = recurrence.log_probabilities(model, tokens)
    assert np.array_equal(codes.permute(2, 0, 1).numpy(), wanted_codes)
    assert (rows - wanted).abs().max() < TOLERANCE
    for layer, head in model.config.heads_by_ring():
        assert codes[layer, head, 0] == CONVERSION["codes"]
        assert len(codes[layer, head, 1:].unique()) > 3


def test_bfloat16_keys_and_values_differ():
    tokens = torch.randint(0, SHAPE["vocab_size"], (LENGTH,))
    model = random_model()
    with torch.no_grad():
        exact = model.log_probabilities(tokens)
        model.state = torch.bfloat16
        assert (model.log_probabilities(tokens) - exact).abs().max() > 1e-4


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_sums_give_what_the_quadratic_form_gives(fields):
    model, tokens = random_model(**fields), torch.randint(0, SHAPE["vocab_size"], (LENGTH,))

    def computed() -> tuple:
        rows = model.log_probabilities(tokens)
        weights = torch.arange(rows.numel(), dtype=rows.dtype).view_as(rows).cos()
        parameters = [parameter for name, parameter in model.named_parameters() if not name.endswith(("assign", "metric"))]
        return rows, torch.autograd.grad((rows * weights).sum(), parameters)

    rows, gradients = computed()
    for layer in model.model.layers:
        layer.self_attn.by_sums = True
    by_sums, their_gradients = computed()
    assert (by_sums - rows).abs().max() < TOLERANCE
    for gradient, other in zip(gradients, their_gradients):
        assert (gradient - other).abs().max() < TOLERANCE * max(1, gradient.abs().max())


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_is_the_softmax_model_where_rings_are_longer_than_the_text(fields):
    fields = {**fields, "conversion": {**CONVERSION, **fields.get("conversion", {}), "trained_context": 512, "ring": 384,
                                       "wide": [{"ring": 512, "heads": [[1, 0]]}]}}
    model, tokens = random_model(**fields), torch.randint(0, SHAPE["vocab_size"], (LENGTH,))
    plain = Model(read_config({**SHAPE, **fields, "conversion": None})).double()
    plain.load_state_dict({name: value for name, value in model.state_dict().items() if ".conversion." not in name})
    with torch.no_grad():
        assert (model.log_probabilities(tokens) - plain.log_probabilities(tokens)).abs().max() < TOLERANCE


# transformers computes in float32: angles of up to 1,000 are 3e-5 off there, as are log-probabilities.
@pytest.mark.parametrize("name", ["llama_gqa", "qwen3_tied"])
def test_the_softmax_model_is_that_of_transformers(golden, name):
    expected = safetensors.load(golden / "hugging_face" / name / "expected.safetensors")
    tokens = torch.from_numpy(expected["long.tokens"][:1000].astype(np.int64))
    with torch.no_grad():
        rows = load_model(golden / "hugging_face" / name).log_probabilities(tokens)
    found = rows[torch.arange(999), tokens[1:]].numpy()
    assert np.abs(found - expected["long.target_logprobs"][:999]).max() < 5e-5


def test_given_codes_are_used():
    model, tokens = random_model(), torch.randint(0, SHAPE["vocab_size"], (LENGTH,))
    with torch.no_grad():
        rows, own = model.log_probabilities(tokens), model(tokens).codes
        assert torch.equal(model.log_probabilities(tokens, own), rows)
        others = [codes.clone() for codes in own]
        others[0][1, 5] = (others[0][1, 5] + 1) % CONVERSION["codes"]
        changed = model.log_probabilities(tokens, others)
        assert torch.equal(model(tokens, others).codes[0], others[0])
    # Position 5 leaves the narrow ring of that head when 69 comes.
    assert torch.equal(changed[:69], rows[:69]) and not torch.equal(changed[69], rows[69])


def test_gradients_reach_what_scores_and_what_makes_keys():
    model, tokens = random_model(torch.bfloat16), torch.randint(0, SHAPE["vocab_size"], (200,))
    model.log_probabilities(tokens)[torch.arange(199), tokens[1:]].mean().backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()}
    assert {name.rsplit(".", 1)[1] for name in without} == {"assign", "metric"}


def test_a_gradient_is_the_slope(monkeypatch):
    monkeypatch.setattr(attention, "rounded", lambda x, dtype: x)  # it has steps, and no slope
    model, tokens = random_model(), torch.randint(0, SHAPE["vocab_size"], (200,))
    parameters = [model.model.layers[0].self_attn.conversion.score, model.model.layers[1].self_attn.conversion.map]

    with torch.no_grad():
        codes = model(tokens).codes

    def loss():
        return model.log_probabilities(tokens, codes)[torch.arange(199), tokens[1:]].mean()

    loss().backward()
    for parameter in parameters:
        direction, step = torch.randn_like(parameter), 1e-5
        slope = float((parameter.grad * direction).sum())
        with torch.no_grad():
            parameter.add_(step * direction)
            above = float(loss())
            parameter.add_(-2 * step * direction)
            below = float(loss())
            parameter.add_(step * direction)
        # What float64 keeps of the difference, over the step; what curvature adds is of the order of the squared step.
        assert slope == pytest.approx((above - below) / (2 * step), rel=1e-6)
