"""The recurrence by chunks is the recurrence step by step."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from models.training.recurrent.recurrence import CHUNK, Inputs, chunks, recur, steps

BATCH, HEADS, K, V = 2, 3, 8, 5
STRONGEST = -0.607  # the log of RWKV-7's smallest decay


def unit_vectors(*shape):
    return F.normalize(torch.randn(BATCH, HEADS, *shape, dtype=torch.float64), dim=-1)


def made(kind: str, tokens: int, log_w: float = None, strength: float = None):
    """Inputs as the families make them: k, q and a of length at most 1, and a rate of removal that is one for all channels."""
    shape = BATCH, HEADS, tokens
    k, v, q = unit_vectors(tokens, K), unit_vectors(tokens, V), unit_vectors(tokens, K)
    width = K if kind == "rwkv7" else 1
    if log_w is None:
        decay = torch.rand(*shape, width, dtype=torch.float64)
        decay = STRONGEST * decay if kind == "rwkv7" else -0.01 * decay / (1.001 - decay)  # of a head, sometimes near 0
    else:
        decay = torch.full((*shape, width), log_w, dtype=torch.float64)
    if kind == "mamba2":
        return Inputs(decay, k, v, q)
    rate = torch.rand(*shape, 1, dtype=torch.float64) if strength is None else strength
    a = unit_vectors(tokens, K) if kind == "rwkv7" else k
    return Inputs(decay, k, v, q, a, rate * (a if kind == "rwkv7" else decay.exp() * k))


def as_dtype(inputs: Inputs, dtype) -> Inputs:
    return Inputs(*(None if part is None else part.to(dtype) for part in inputs))


def bound(inputs: Inputs, states, length: int, dtype) -> float:
    """How far either form may be from exact arithmetic. M is the largest of |S_t|_F, |S_t a_t|, |v_t|.

    A position's weights <., .> have the relative error of K + L + 4 roundings, of their product, sum and system, and for each of
    the d positions between that of a sum of logarithms in float64. The weights are at most the decays between, the largest of all
    channels; each is of a v, a u and of S_0, at most M. What is wrong at s is in the state at t multiplied with the transitions
    between, whose norms are at most the largest eigenvalues of diag(w) - rate a a^T.
    """
    total = inputs.log_w.cumsum(2)
    tokens = total.shape[2]
    distance = torch.arange(tokens)[:, None] - torch.arange(tokens)

    def between(logs):  # [B, H, T, C] sums -> the largest product between two positions, [B, H, T, T]
        largest = (logs[:, :, :, None] - logs[:, :, None]).amax(-1).exp()
        return largest.masked_fill(distance < 0, 0)

    weight = between(total).masked_fill(distance > length, 0)
    logs = -inputs.log_w.unfold(2, min(length, tokens), 1).sum(-1).min()
    errors = (K + length + 4) * torch.finfo(dtype).eps + logs * (distance + 1) * torch.finfo(torch.float64).eps
    weights = (errors / 2 * weight).sum(-1).max()
    w = inputs.log_w.exp()
    removed = 0 if inputs.a is None else (inputs.a * inputs.b).sum(-1)
    norm = torch.maximum(w.amax(-1), (w.amin(-1) - removed).abs())
    propagated = between(norm.clamp(min=1e-300).log().cumsum(2)[..., None]).sum(-1).max()
    most = max(states.flatten(3).norm(dim=-1).max(), inputs.v.norm(dim=-1).max())
    return float(3 * most * weights * (propagated + 1))


def exact(inputs: Inputs):
    """-> (y, the state after, all states [B, H, T, V, K]) in float64"""
    state, outputs, states = torch.zeros(BATCH, HEADS, V, K, dtype=torch.float64), [], []
    for t in range(inputs.v.shape[2]):
        y, state = steps(Inputs(*(None if part is None else part[:, :, t:t + 1] for part in inputs)), state)
        outputs.append(y)
        states.append(state)
    return torch.cat(outputs, 2), state, torch.stack(states, 2)


CASES = [(kind, tokens, length) for kind in ("rwkv7", "gated_delta", "mamba2")
         for tokens, length in ((1, 16), (7, 16), (90, 16), (150, CHUNK))]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind, tokens, length", CASES)
def test_chunks_are_steps(kind, tokens, length, dtype):
    inputs = as_dtype(as_dtype(made(kind, tokens), dtype), torch.float64)
    y, state, states = exact(inputs)
    tolerance = bound(inputs, states, length, dtype)
    assert tolerance < (1e-9 if dtype == torch.float64 else 0.3) * y.abs().max()
    start = torch.zeros(BATCH, HEADS, V, K, dtype=dtype)
    rounded = as_dtype(inputs, dtype)
    for found, after in (steps(rounded, start), chunks(rounded, start, length)):
        assert found.dtype == dtype and (found - y).abs().max() < tolerance
        assert (after - state).abs().max() < tolerance


@pytest.mark.parametrize("kind, log_w, strength", [
    ("rwkv7", STRONGEST, 0.5), ("rwkv7", -1e-9, 1.0), ("gated_delta", -200.0, 1.0), ("gated_delta", 0.0, 1.0),
    ("mamba2", -200.0, 0.0), ("mamba2", 0.0, 0.0)])
def test_float32_holds_the_strongest_and_the_weakest_decays(kind, log_w, strength):
    inputs = as_dtype(as_dtype(made(kind, 2 * CHUNK, log_w, strength), torch.float32), torch.float64)
    y, state, states = exact(inputs)
    leaves = as_dtype(inputs, torch.float32)._asdict()
    leaves = Inputs(**{name: None if part is None else part.requires_grad_() for name, part in leaves.items()})
    found, after = chunks(leaves, torch.zeros(BATCH, HEADS, V, K))
    tolerance = bound(inputs, states, CHUNK, torch.float32)
    assert (found - y).abs().max() < tolerance and (after - state).abs().max() < tolerance
    found.square().sum().backward()
    assert all(part is None or part.grad.isfinite().all() for part in leaves)


def test_equal_keys_that_replace_their_values_leave_the_last():
    """The system of a chunk is then as far from the identity as it can be: an inverse by powers would lose all digits."""
    tokens = CHUNK + 9
    key = unit_vectors(1, K).expand(-1, -1, tokens, -1).float()
    values = unit_vectors(tokens, V).float()
    found, _ = chunks(Inputs(torch.zeros(BATCH, HEADS, tokens, 1), key, values, key, key, key), torch.zeros(BATCH, HEADS, V, K))
    # By hand: y_t = v_t <k, k>^2 + S_(t-1) k (1 - <k, k>), and <k, k> is 1 but for K roundings. Each form adds 2 L roundings.
    assert (found - values).abs().max() < (4 * K + 4 * CHUNK) * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("kind", ["rwkv7", "gated_delta", "mamba2"])
def test_gradients_of_both_forms_are_equal(kind):
    inputs, found = made(kind, 40), []
    for form in (steps, lambda leaves, state: chunks(leaves, state, 16)):
        leaves = Inputs(*(None if part is None else part.detach().clone().requires_grad_() for part in inputs))
        start = torch.ones(BATCH, HEADS, V, K, dtype=torch.float64, requires_grad=True)
        y, state = form(leaves, start)
        (y.square().sum() + state.square().sum()).backward()
        found.append([start.grad] + [part.grad for part in leaves if part is not None])
    for of_steps, of_chunks in zip(*found):
        assert of_steps.abs().max() > 1e-3
        assert torch.allclose(of_steps, of_chunks, rtol=1e-8, atol=1e-10)  # float64 sums of some hundred numbers


@pytest.mark.parametrize("kind", ["rwkv7", "gated_delta", "mamba2"])
def test_a_state_is_carried(kind):
    inputs = made(kind, 100)
    whole, last = chunks(inputs, torch.zeros(BATCH, HEADS, V, K, dtype=torch.float64), 16)
    state, parts = torch.zeros(BATCH, HEADS, V, K, dtype=torch.float64), []
    for begin, end in ((0, 1), (1, 33), (33, 40), (40, 100)):
        y, state = recur(Inputs(*(None if part is None else part[:, :, begin:end] for part in inputs)), state)
        parts.append(y)
    assert (torch.cat(parts, 2) - whole).abs().max() < 1e-12  # float64 sums below 10 of some hundred numbers
    assert (state - last).abs().max() < 1e-12


def test_a_step_is_what_its_formula_says():
    inputs = made("rwkv7", 3)
    y, _ = steps(inputs, torch.zeros(BATCH, HEADS, V, K, dtype=torch.float64))
    log_w, k, v, q, a, b = (part[1, 2].numpy() for part in inputs)
    s = np.zeros((V, K))
    for t in range(3):
        s = s @ np.diag(np.exp(log_w[t])) - np.outer(s @ a[t], b[t]) + np.outer(v[t], k[t])
        assert np.abs(y[1, 2, t].numpy() - s @ q[t]).max() < 1e-14
