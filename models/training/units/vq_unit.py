"""The unit of Transformer-VQ: softmax attention over quantized keys, with a positional bias within reach."""

import torch

from models.training.config import ModelConfig
from models.training.units import attention
from models.training.units.quantizer import Quantizer
from models.training.units.relative_unit import RelativeUnit
from models.training.units.unit import Mixed


class VQUnit(RelativeUnit):
    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.codebook = Quantizer(config.n_kv_head, config.n_code, config.d_k)

    @staticmethod
    def granule(config: ModelConfig) -> int:
        return config.block_len

    def initial_state(self, batch, dtype=torch.float32, device=None) -> attention.LayerState:
        return attention.initial_state(batch, self.config, dtype, device)

    def mix(self, normed, values, state, codes, use_accumulator) -> Mixed:
        """`codes` [B, G, T] forces the quantization. The auxiliary loss is the commitment."""
        query, bias, keys = self.project(normed)
        with torch.autocast(normed.device.type, enabled=False):  # bfloat16 would flip codes
            codes, quantized, commitment = self.codebook(keys, codes)
        if state is None:
            mixed = attention.dense_attention(query, bias, quantized, values, rows=query.shape[2],
                                              reach=None if use_accumulator else self.config.mem_len)
        else:
            mixed, state = attention.block_attention(query, bias, codes, quantized, values, self.codebook.codebook(), state,
                                                     self.config, use_accumulator)
        return Mixed(mixed, state, commitment, (keys.detach(), codes))

    def after_step(self, seen, generator) -> torch.Tensor:
        keys, codes = seen
        return self.codebook.update(keys, codes, generator)
