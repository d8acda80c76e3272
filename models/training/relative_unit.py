"""What the softmax kinds share: queries and keys of fixed length, and a learned bias by distance within the reach M."""

import torch
from torch import nn

from models.training.config import ModelConfig
from models.training.unit import Unit, heads, linear, rms, sinusoid


class RelativeUnit(Unit):
    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.q_proj = linear(config.d_model, config.n_head * config.d_k)
        self.k_proj = linear(config.d_model, config.n_kv_head * config.d_k)
        self.r_proj = linear(config.d_model, config.n_head * config.d_k)
        self.u = nn.Parameter(torch.zeros(config.n_head, config.d_k))
        self.w = nn.Parameter(torch.zeros(config.n_head, config.d_k))
        distances = torch.arange(config.mem_len, -1, -1)
        table = sinusoid(distances, config.d_model, config.pe_lam)
        self.register_buffer("distance_table", table, persistent=False)  # [M+1, D], distance M first

    def project(self, normed):
        """-> queries plus each bias, twice [B, H, T, K]; keys [B, G, T, K]; position keys by distance M..0 [H, M+1, K]"""
        config = self.config
        scale = config.d_k ** -0.25
        query = rms(heads(self.q_proj(normed), config.n_head)) * scale
        keys = rms(heads(self.k_proj(normed), config.n_kv_head)) * scale
        positions = self.r_proj(self.distance_table.to(self.r_proj.weight.dtype)) * scale
        positions = positions.unflatten(-1, (config.n_head, config.d_k)).transpose(0, 1)
        return query + self.u[:, None] * scale, query + self.w[:, None] * scale, keys, positions
