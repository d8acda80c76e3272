"""The gated unit of Transformer-VQ: softmax attention over quantized keys, with a positional bias within reach."""

import torch
from torch import nn

from models.training import attention
from models.training.config import ModelConfig
from models.training.gated_unit import GatedUnit, Mixed, heads, linear, rms, sinusoid
from models.training.quantizer import Quantizer


class VQUnit(GatedUnit):
    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.q_proj = linear(config.d_model, config.n_head * config.d_k)
        self.k_proj = linear(config.d_model, config.n_kv_head * config.d_k)
        self.r_proj = linear(config.d_model, config.n_head * config.d_k)
        self.u = nn.Parameter(torch.zeros(config.n_head, config.d_k))
        self.w = nn.Parameter(torch.zeros(config.n_head, config.d_k))
        self.codebook = Quantizer(config.n_kv_head, config.n_code, config.d_k)
        distances = torch.arange(config.mem_len, -1, -1)
        table = sinusoid(distances, config.d_model, config.pe_lam)
        self.register_buffer("distance_table", table, persistent=False)  # [M+1, D], distance M first

    def initial_state(self, batch, dtype=torch.float32, device=None) -> attention.LayerState:
        return attention.initial_state(batch, self.config, dtype, device)

    def mix(self, normed, values, state, codes, use_accumulator) -> Mixed:
        """`codes` [B, G, T] forces the quantization. The auxiliary loss is the commitment."""
        config = self.config
        scale = config.d_k ** -0.25
        query = rms(heads(self.q_proj(normed), config.n_head)) * scale
        keys = rms(heads(self.k_proj(normed), config.n_kv_head)) * scale
        positions = self.r_proj(self.distance_table.to(self.r_proj.weight.dtype)) * scale
        positions = positions.unflatten(-1, (config.n_head, config.d_k)).transpose(0, 1)  # [H, M+1, K]
        query_u = query + self.u[:, None] * scale
        query_w = query + self.w[:, None] * scale
        with torch.autocast(normed.device.type, enabled=False):  # bfloat16 would flip codes
            codes, quantized, commitment = self.codebook(keys, codes)
        if state is None:
            mixed = attention.quadratic_attention(query_u, query_w, codes, quantized, values, positions, config,
                                                  use_accumulator)
        else:
            mixed, state = attention.block_attention(query_u, query_w, codes, quantized, values,
                                                     self.codebook.codebook(), positions, state, config,
                                                     use_accumulator)
        return Mixed(mixed, state, commitment, (keys.detach(), codes))

    def after_step(self, seen, generator) -> int:
        keys, codes = seen
        return self.codebook.update(keys, codes, generator)
