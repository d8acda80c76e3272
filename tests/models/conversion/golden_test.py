"""The models of tests/golden/hugging_face/converted_*, which the server is compared with."""

import numpy as np
import pytest
import torch

import recurrence
from models.conversion.directory import load_model
from models.conversion.expected import columns
from models.training.files import safetensors

NAMES = ["converted_llama", "converted_qwen3", "converted_grow"]
# Float32 of log-probabilities below 32.
TOLERANCE = 1e-6


@pytest.fixture(params=NAMES)
def made(golden, request):
    """-> (the model, what is expected of it)"""
    directory = golden / "hugging_face" / request.param
    return load_model(directory), safetensors.load(directory / "expected.safetensors")


def check_text(model, expected, rows, codes):
    tokens = expected["text.tokens"]
    assert np.array_equal(codes, expected["text.codes"])
    assert np.abs(rows[np.arange(len(tokens) - 1), tokens[1:]] - expected["text.target_logprobs"]).max() < TOLERANCE
    assert np.abs(rows[-len(expected["text.last_logprobs"]):] - expected["text.last_logprobs"]).max() < TOLERANCE


def tensor(ids):
    return torch.from_numpy(ids.astype(np.int64))


def test_the_quadratic_form(made):
    model, expected = made
    tokens = tensor(expected["text.tokens"])
    with torch.no_grad():
        check_text(model, expected, model.log_probabilities(tokens).numpy(), columns(model.config, model(tokens).codes))


def test_the_recurrence(made):
    model, expected = made
    rows, codes = recurrence.log_probabilities(model, tensor(expected["text.tokens"]))
    places = model.config.heads_by_ring()
    check_text(model, expected, rows.numpy(), np.stack([codes[:, layer, head] for layer, head in places], 1))


def test_the_continuation(made):
    model, expected = made
    prompt, tokens = expected["greedy.prompt_tokens"], expected["greedy.tokens"]
    with torch.no_grad():
        rows = model.log_probabilities(tensor(np.concatenate([prompt, tokens])))[len(prompt) - 1:-1]
    assert np.array_equal(rows.argmax(-1), tokens)
    assert np.abs(rows.max(-1).values.numpy() - expected["greedy.logprobs"]).max() < TOLERANCE


def test_what_is_beyond_the_ring_matters(made):
    """By far more than any tolerance: no model that forgets it agrees."""
    model, expected = made
    tokens = tensor(expected["text.tokens"])
    with torch.no_grad():
        rows = model.log_probabilities(tokens)
        for layer, head in model.config.heads_by_ring():
            codebooks = model.model.layers[layer].self_attn.conversion
            readers = len(codebooks.bias) // len(codebooks.score)
            before = codebooks.bias.clone()
            codebooks.bias[head * readers:(head + 1) * readers] -= 100
            assert (model.log_probabilities(tokens) - rows).abs().max() > 0.01, (layer, head)
            codebooks.bias.copy_(before)
