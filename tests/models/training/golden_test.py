"""The chain from the reference's checkpoints: imported weights give the reference's log-probabilities."""

import numpy as np
import pytest
import torch

from models.training.export import load_model
from models.training.files import safetensors

# The reference computes in float32; with float64 here, what remains is its rounding (at most 2.6e-5 was seen).
TOLERANCE = 3e-5
# In float32 here too: roundings of both sides.
TOLERANCE_FLOAT32 = 1e-4
NAMES = ["bytes_untied", "heads_unequal", "pieces_tied", "pixels_abs"]


def log_probabilities(model, tokens, quadratic):
    with torch.no_grad():
        state = None if quadratic else model.initial_state(1)
        return model(torch.from_numpy(tokens.astype(np.int64))[None], state).logits[0].log_softmax(-1).numpy()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sequence", ["text", "random", "constant", "short"])
def test_sequences(golden, name, sequence):
    expected = safetensors.load(golden / name / "expected.safetensors")
    tokens, rows = expected[f"{sequence}.tokens"], expected[f"{sequence}.logprobs"]
    model = load_model(golden / name).double()
    assert np.abs(log_probabilities(model, tokens, True) - rows).max() < TOLERANCE
    assert np.abs(log_probabilities(model, tokens, False) - rows).max() < TOLERANCE
    assert np.abs(log_probabilities(model.float(), tokens, False) - rows).max() < TOLERANCE_FLOAT32


def test_long_sequence(golden):
    expected = safetensors.load(golden / "bytes_untied" / "expected.safetensors")
    tokens, targets = expected["long.tokens"], expected["long.target_logprobs"]
    rows = log_probabilities(load_model(golden / "bytes_untied").double(), tokens, False)
    assert np.abs(rows[np.arange(len(targets)), tokens[1:]] - targets).max() < TOLERANCE
    assert np.abs(rows[-64:] - expected["long.last_logprobs"]).max() < TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_greedy_continuation(golden, name):
    """Every token of the continuation is the best one, so a step-by-step run takes the same path."""
    expected = safetensors.load(golden / name / "expected.safetensors")
    prompt, greedy = expected["greedy.prompt_tokens"], expected["greedy.tokens"]
    rows = log_probabilities(load_model(golden / name), np.concatenate([prompt, greedy]), False)
    rows = rows[len(prompt) - 1:-1]
    assert (rows.argmax(-1) == greedy).all()
    assert np.abs(rows.max(-1) - expected["greedy.logprobs"]).max() < TOLERANCE_FLOAT32


def test_shipped_model(golden):
    """The expected file beside the shipped weights belongs to them; in float32, by blocks."""
    expected = safetensors.load(golden / "novels_expected.safetensors")
    model = load_model(golden.parents[1] / "models" / "zoo" / "novels")
    for name in ("text", "random"):
        tokens = expected[f"{name}.tokens"]
        rows = log_probabilities(model, tokens, False)
        targets = rows[np.arange(len(tokens) - 1), tokens[1:]]
        assert np.abs(targets - expected[f"{name}.target_logprobs"]).max() < TOLERANCE_FLOAT32
        assert np.abs(rows[-64:] - expected[f"{name}.last_logprobs"]).max() < TOLERANCE_FLOAT32
    prompt, greedy = expected["greedy.prompt_tokens"], expected["greedy.tokens"]
    rows = log_probabilities(model, np.concatenate([prompt, greedy]), False)[len(prompt) - 1:-1]
    assert (rows.argmax(-1) == greedy).all()
