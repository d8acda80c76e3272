"""Attention over quantized keys in both directions, for models that read a whole text at once.

    U[s] = sum of v_j with z_j = s    n[s] = how many    o_i = sum_s exp(q_i . C_s) U[s] / sum_s exp(q_i . C_s) n[s]

The sums are those of the whole sequence, so every position looks at all of them, in linear time.
"""

import torch

from models.training.config import ModelConfig
from models.training.units.quantizer import Quantizer
from models.training.units.unit import Mixed, Unit, heads, linear, rms


class EncoderUnit(Unit):
    causal = False

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.q_proj = linear(config.d_model, config.n_head * config.d_k)
        self.k_proj = linear(config.d_model, config.n_kv_head * config.d_k)
        self.codebook = Quantizer(config.n_kv_head, config.n_code, config.d_k)

    def initial_state(self, batch, dtype=torch.float32, device=None):
        raise ValueError("an encoder reads whole sequences: it has no state and predicts no next token")

    def mix(self, normed, values, state, codes, use_accumulator) -> Mixed:
        """Uses the quadratic form in training, which gives keys a gradient; else the linear form, which gives them none."""
        scale = self.config.d_k ** -0.25
        query = rms(heads(self.q_proj(normed), self.config.n_head)) * scale
        keys = rms(heads(self.k_proj(normed), self.config.n_kv_head)) * scale
        with torch.autocast(normed.device.type, enabled=False):  # bfloat16 would flip codes
            codes, quantized, commitment = self.codebook(keys, codes)
            values = values.to(keys.dtype)
            if self.training:
                output = quadratic_form(query, quantized, values)
            else:
                output = linear_form(query, codes, values, self.codebook.codebook().to(keys.dtype))
        return Mixed(output, None, commitment, (keys.detach(), codes))

    def after_step(self, seen, generator) -> torch.Tensor:
        return self.codebook.update(*seen, generator)


def quadratic_form(query, keys, values) -> torch.Tensor:
    """The definition, with a weight for every pair of positions. [B, H, T, K], [B, G, T, K], [B, G, T, V] -> [B, H, T, V]"""
    share = query.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(share, 1), values.repeat_interleave(share, 1)
    return (query @ keys.transpose(-1, -2)).softmax(-1) @ values


def linear_form(query, codes, values, codebook) -> torch.Tensor:
    """query [B, H, T, K], codes [B, G, T], values [B, G, T, V], codebook [G, S, K] -> [B, H, T, V]"""
    groups, n_code, _ = codebook.shape
    shape = *codes.shape[:2], n_code
    sums = values.new_zeros(*shape, values.shape[-1])
    sums.scatter_add_(2, codes[..., None].expand_as(values), values)  # [B, G, S, V]
    counts = values.new_zeros(shape).scatter_add_(2, codes, torch.ones_like(codes, dtype=values.dtype))
    scores = query.unflatten(1, (groups, -1)) @ codebook[:, None].transpose(-1, -2)  # [B, G, Q, T, S]
    weights = (scores + counts.log()[:, :, None, None]).softmax(-1)  # of codes; log 0 = -inf: not there
    means = sums / counts.clamp(min=1)[..., None]
    return (weights @ means[:, :, None]).flatten(1, 2)
