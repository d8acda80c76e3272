"""Attention whose weights are products of features, and its linear form.

    o_i = f(q_i)^T A_i / (f(q_i) . b_i)    A_i = sum over j <= i of g(k_j) v_j^T    b_i = sum over j <= i of g(k_j)

A kind says what f and g are, [..., K] -> [..., F] with no feature below zero. The linear Transformer (Katharopoulos et
al. 2020, equations 8 to 12, 16 to 20) has f = g = phi, phi(x) = elu(x) + 1, and F = K.
"""

from typing import NamedTuple

import torch

from models.training.config import ModelConfig
from models.training.units.attention import sums_before
from models.training.units.unit import Mixed, Unit, heads, linear

BLOCK = 64  # positions, if the config has no block_len


class FeatureState(NamedTuple):
    key_value_sum: torch.Tensor  # A [B, G, F, V], never less than float32
    key_sum: torch.Tensor  # b [B, G, F]


class FeatureUnit(Unit):
    """A subclass defines how many features there are and how they are computed; it is called without autocast."""

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.q_proj = linear(config.d_model, config.n_head * config.d_k)
        self.k_proj = linear(config.d_model, config.n_kv_head * config.d_k)

    def width(self) -> int:
        """F"""
        raise NotImplementedError

    def maps(self, query, keys, before):
        """query [B, H, T, K], keys [B, G, T, K], before: b of all earlier positions [B, G, F], or None if there are none
        -> f(q) [B, H, T, F], g(k) [B, G, T, F], what after_step takes. A factor common to all features of a query cancels."""
        raise NotImplementedError

    def initial_state(self, batch, dtype=torch.float32, device=None) -> FeatureState:
        dtype = torch.float64 if dtype == torch.float64 else torch.float32
        shape = batch, self.config.n_kv_head, self.width()
        return FeatureState(torch.zeros(*shape, self.config.d_v, dtype=dtype, device=device),
                            torch.zeros(*shape, dtype=dtype, device=device))

    def mix(self, normed, values, state, codes, use_accumulator) -> Mixed:
        """Ignores `codes` and `use_accumulator`: there are no codes and no reach."""
        query, keys = heads(self.q_proj(normed), self.config.n_head), heads(self.k_proj(normed), self.config.n_kv_head)
        exact = torch.float64 if normed.dtype == torch.float64 else torch.float32
        with torch.autocast(normed.device.type, enabled=False):  # sums of thousands of addends
            query, keys, seen = self.maps(query.to(exact), keys.to(exact), None if state is None else state.key_sum)
            if state is None:
                return Mixed(quadratic_form(query, keys, values.to(exact)), None, seen=seen)
            output, state = block_form(query, keys, values.to(exact), state, self.config.block_len or BLOCK)
        return Mixed(output, state, seen=seen)


class LinearUnit(FeatureUnit):
    def width(self) -> int:
        return self.config.d_k

    def maps(self, query, keys, before):
        return elu_plus_one(query), elu_plus_one(keys), None


def elu_plus_one(x: torch.Tensor) -> torch.Tensor:
    """elu(x) + 1, without the cancellation that would round it to 0 below -17 in float32."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def quadratic_form(query, keys, values) -> torch.Tensor:
    """The definition, with a weight for every pair of positions. [B, H, T, F], [B, G, T, F], [B, G, T, V] -> [B, H, T, V]"""
    share = query.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(share, 1), values.repeat_interleave(share, 1)
    weights = (query @ keys.transpose(-1, -2)).tril()
    return weights @ values / weights.sum(-1, keepdim=True)


def block_form(query, keys, values, state: FeatureState, length: int):
    """Computes all blocks of a segment at once. Each block attends to the sums of all positions before it, and to itself.
    Shapes as above.

    Returns ([B, H, T, V], the state after the segment). Positions that pad the last block have keys of zero.
    """
    batch, groups, tokens, _ = keys.shape
    share, padding = query.shape[1] // groups, -tokens % length
    blocks = (tokens + padding) // length

    def by_block(x):  # [B, G * Q, T, C] -> [B, G, Q, n, L, C]
        x = torch.nn.functional.pad(x, (0, 0, 0, padding))
        return x.reshape(batch, groups, -1, blocks, length, x.shape[-1])

    query, keys, values = by_block(query), by_block(keys), by_block(values)
    added = keys[:, :, 0].transpose(-1, -2) @ values[:, :, 0]  # [B, G, n, F, V]
    added_keys = keys[:, :, 0].sum(-2)  # [B, G, n, F]
    before = sums_before(added) + state.key_value_sum[:, :, None]
    before_keys = added_keys.cumsum(2) - added_keys + state.key_sum[:, :, None]
    weights = (query @ keys.transpose(-1, -2)).tril()  # [B, G, Q, n, L, L]
    numerator = weights @ values + query @ before[:, :, None]
    denominator = weights.sum(-1) + (query * before_keys[:, :, None, :, None]).sum(-1)

    def whole(x):  # [B, G, Q, n, L, ...] -> [B, H, T, ...], before the division, so that no padding divides by zero
        return x.reshape(batch, groups * share, tokens + padding, *x.shape[5:])[:, :, :tokens]

    output = whole(numerator) / whole(denominator)[..., None]
    return output, FeatureState(state.key_value_sum + added.detach().sum(2), state.key_sum + added_keys.detach().sum(2))
