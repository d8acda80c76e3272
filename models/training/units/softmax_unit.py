"""Softmax attention over all keys of the context: the unit of Transformer-VQ without its quantization.

score(i, j) = q_i . k_j, causal, with a bias for i - j <= M (position_bias.py). The state grows.
"""

from typing import NamedTuple

import torch

from models.training.units.attention import dense_attention
from models.training.units.relative_unit import RelativeUnit
from models.training.units.unit import Mixed

QUERIES = 512  # queries of one product; limits the scores in memory at a time


class KeyValueState(NamedTuple):
    """The keys and values of all n positions so far."""

    key: torch.Tensor  # [B, G, n, K]
    value: torch.Tensor  # [B, G, n, V]


class SoftmaxUnit(RelativeUnit):
    def initial_state(self, batch, dtype=torch.float32, device=None) -> KeyValueState:
        groups = self.config.n_kv_head
        return KeyValueState(torch.zeros(batch, groups, 0, self.config.d_k, dtype=dtype, device=device),
                             torch.zeros(batch, groups, 0, self.config.d_v, dtype=dtype, device=device))

    def mix(self, normed, values, state, codes, use_accumulator) -> Mixed:
        """Ignores `codes`; without the accumulator, position i sees only i - M..i."""
        query, bias, keys = self.project(normed)
        if state is not None:
            keys = torch.cat([state.key.to(keys.dtype), keys], 2)
            values = torch.cat([state.value.to(values.dtype), values], 2)
        rows = QUERIES if state is not None else normed.shape[1]
        output = dense_attention(query, bias, keys, values, rows, None if use_accumulator else self.config.mem_len)
        if state is not None:
            state = KeyValueState(keys.detach().to(state.key.dtype), values.detach().to(state.value.dtype))
        return Mixed(output, state)
