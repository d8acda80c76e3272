"""The recurrence of every recurrent layer. Per head, S [V, K], zero before the first position:

    S_t = S_(t-1) diag(w_t) - (S_(t-1) a_t) b_t^T + v_t k_t^T        y_t = S_t q_t

`steps` computes it position by position. `chunks` computes the same with products of matrices (the WY form: Yang et al. 2024,
Gated DeltaNet; Peng et al. 2025, RWKV-7, appendix). Within a chunk, W_t = w_1 * ... * w_t, S_0 is the state before it, and

    u_t = S_(t-1) a_t = S_0 (W_(t-1) a_t) + sum over s < t of <a_t, k_s> v_s - <a_t, b_s> u_s
    y_t = S_0 (W_t q_t) + sum over s <= t of <q_t, k_s> v_s - <q_t, b_s> u_s

where <., .> weighs channels by the decays between the two positions: those after s and before t for a_t, up to t for q_t. The
first line is a triangular system for all u of a chunk. Its two right sides, one of them to be multiplied with S_0, are solved for
all chunks at once. Only S_0 goes from chunk to chunk.
"""

from typing import NamedTuple, Optional

import torch
from torch.nn import functional as F

# Positions. Decays of a channel are gathered as W and 1 / W: those of RWKV-7 are above e^-0.607, so 1 / W stays below e^39, which
# float32 holds. Decays of a whole head may be any: only quotients of at most 1 are computed of them.
CHUNK = 64


class Inputs(NamedTuple):
    """What the recurrence takes of T positions, all of one dtype."""

    log_w: torch.Tensor  # [B, H, T, K], or [B, H, T, 1] for a decay that the head's channels share; at most 0
    k: torch.Tensor  # [B, H, T, K]
    v: torch.Tensor  # [B, H, T, V]
    q: torch.Tensor  # [B, H, T, K]
    a: Optional[torch.Tensor] = None  # [B, H, T, K], both or neither
    b: Optional[torch.Tensor] = None


def recur(inputs: Inputs, state: torch.Tensor):
    """state [B, H, V, K] -> (y [B, H, T, V], the state after)"""
    return (steps if inputs.v.shape[2] == 1 else chunks)(inputs, state)


def steps(inputs: Inputs, state: torch.Tensor):
    """The definition. Arguments and results are those of `recur`."""
    outputs = []
    for t in range(inputs.v.shape[2]):
        log_w, k, v, q, a, b = (None if part is None else part[:, :, t] for part in inputs)
        change = v[..., None] * k[..., None, :]
        if a is not None:
            change = change - (state @ a[..., None]) * b[..., None, :]
        state = state * log_w.exp()[..., None, :] + change
        outputs.append((state @ q[..., None])[..., 0])
    return torch.stack(outputs, 2), state


def chunks(inputs: Inputs, state: torch.Tensor, length: int = CHUNK):
    """The same by chunks of `length` positions. Positions that pad the last chunk change nothing."""
    tokens = inputs.v.shape[2]
    length = min(length, tokens)
    padding = -tokens % length

    def by_chunk(x):  # [B, H, T, C] -> [B, H, n, L, C]
        return None if x is None else F.pad(x, (0, 0, 0, padding)).unflatten(2, (-1, length))

    log_w, k, v, q, a, b = map(by_chunk, inputs)
    until = log_w.double().cumsum(-2)  # log W_t; in float32, differences of large sums would be rounded
    before, whole = until - log_w, until[..., -1:, :]
    to_end, left = exp(whole - until, k), exp(whole, k)
    k_left = k * to_end

    if a is None:
        states, state = carried(state, left, v.transpose(-1, -2) @ k_left)
        y = weights(q, until, k, until, 0) @ v
    else:
        width = v.shape[-1]
        system = weights(a, before, b, until, -1)  # below a diagonal of ones
        sides = torch.cat([weights(a, before, k, until, -1) @ v, a * exp(before, a)], -1)
        solved = torch.linalg.solve_triangular(system, sides, upper=False, unitriangular=True)
        states, state, u = carried_delta(state, left, v, k_left, solved[..., :width], solved[..., width:], b * to_end)
        y = weights(q, until, k, until, 0) @ v - weights(q, until, b, until, 0) @ u
    y = y + (q * exp(until, q)) @ states.transpose(-1, -2)
    return y.flatten(2, 3)[:, :, :tokens], state


def exp(logs, like) -> torch.Tensor:
    return logs.exp().to(like.dtype)


def weights(left, left_log, right, right_log, diagonal: int) -> torch.Tensor:
    """[..., L, K] twice -> [..., L, L]: left_t . right_s by the decays between, where s <= t + diagonal, else 0"""
    if left_log.shape[-1] == 1:
        here = torch.ones(left.shape[-2], right.shape[-2], dtype=torch.bool, device=left.device).tril(diagonal)
        between = (left_log - right_log.transpose(-1, -2)).to(left.dtype).masked_fill(~here, float("-inf"))
        return left @ right.transpose(-1, -2) * between.exp()
    return ((left * exp(left_log, left)) @ (right * exp(-right_log, right)).transpose(-1, -2)).tril(diagonal)


def carried(state, left, added):
    """S_0 of each chunk, [B, H, n, V, K], and the state after the last, where nothing is removed."""
    states = []
    for n in range(added.shape[2]):
        states.append(state)
        state = state * left[:, :, n] + added[:, :, n]
    return torch.stack(states, 2), state


def carried_delta(state, left, v, k_left, from_values, from_state, b_left):
    """As `carried`, with what is removed: u = from_values + from_state S_0^T, [B, H, n, L, V]."""
    states, removed = [], []
    for n in range(v.shape[2]):
        states.append(state)
        u = from_values[:, :, n] + from_state[:, :, n] @ state.transpose(-1, -2)
        change = v[:, :, n].transpose(-1, -2) @ k_left[:, :, n] - u.transpose(-1, -2) @ b_left[:, :, n]
        state = state * left[:, :, n] + change
        removed.append(u)
    return torch.stack(states, 2), state, torch.stack(removed, 2)
