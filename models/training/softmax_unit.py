"""Softmax attention over every key there ever was: the unit of Transformer-VQ without its quantization.

score(i, j) = (q_i + u) . k_j + (q_i + w) . R_(i-j) if i - j <= M else (q_i + u) . k_j, causal. The state grows.
"""

from typing import NamedTuple

import torch

from models.training.attention import at_least_float32, relative_scores
from models.training.config import ModelConfig
from models.training.relative_unit import RelativeUnit
from models.training.unit import Mixed

QUERIES = 512  # of one product: bounds the scores held at a time


class KeyValueState(NamedTuple):
    """Every position so far, n of them."""

    key: torch.Tensor  # [B, G, n, K]
    value: torch.Tensor  # [B, G, n, V]


class SoftmaxUnit(RelativeUnit):
    def initial_state(self, batch, dtype=torch.float32, device=None) -> KeyValueState:
        groups = self.config.n_kv_head
        return KeyValueState(torch.zeros(batch, groups, 0, self.config.d_k, dtype=dtype, device=device),
                             torch.zeros(batch, groups, 0, self.config.d_v, dtype=dtype, device=device))

    def mix(self, normed, values, state, codes, use_accumulator) -> Mixed:
        """There are no codes; without the accumulator, position i sees i - M..i only."""
        query_u, query_w, keys, positions = self.project(normed)
        if state is not None:
            keys = torch.cat([state.key.to(keys.dtype), keys], 2)
            values = torch.cat([state.value.to(values.dtype), values], 2)
        rows = QUERIES if state is not None else normed.shape[1]
        output = attention(query_u, query_w, keys, values, positions, self.config, rows, use_accumulator)
        if state is not None:
            state = KeyValueState(keys.detach().to(state.key.dtype), values.detach().to(state.value.dtype))
        return Mixed(output, state)


def attention(query_u, query_w, keys, values, positions, config: ModelConfig, rows: int, use_accumulator: bool = True):
    """Of the last T of n positions to all before them and themselves, so many `rows` of scores at a time.

    query_u, query_w [B, H, T, K] (queries plus each bias), keys [B, G, n, K], values [B, G, n, V], positions
    [H, M+1, K] position keys by distance M..0. Returns [B, H, T, V].
    """
    share = config.n_head // config.n_kv_head
    keys, values = keys.repeat_interleave(share, 1), values.repeat_interleave(share, 1)
    tokens, before = query_u.shape[2], keys.shape[2] - query_u.shape[2]
    outputs = []
    for begin in range(0, tokens, rows):
        end = min(begin + rows, tokens)
        seen = before + end  # positions up to the last row's own
        reach = min(config.mem_len, seen - 1)
        by_distance = query_w[:, :, begin:end] @ positions[:, -1 - reach:].transpose(-1, -2)
        bias = relative_scores(at_least_float32(by_distance), seen + reach)[..., reach:]
        scores = at_least_float32(query_u[:, :, begin:end] @ keys[:, :, :seen].transpose(-1, -2)) + bias
        hidden = mask(before + begin, before + end, seen, None if use_accumulator else config.mem_len)
        weights = scores.masked_fill(hidden.to(scores.device), float("-inf")).softmax(-1).to(values.dtype)
        outputs.append(weights @ values[:, :, :seen])
    return torch.cat(outputs, 2) if len(outputs) > 1 else outputs[0]


def mask(begin: int, end: int, seen: int, reach) -> torch.Tensor:
    """Which of positions 0..seen-1 each of begin..end-1 may not look at. [end - begin, seen]"""
    distance = torch.arange(begin, end)[:, None] - torch.arange(seen)[None]
    return (distance < 0) if reach is None else (distance < 0) | (distance > reach)
