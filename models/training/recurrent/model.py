"""Models of the public families with recurrent layers: blocks between embedding and logits. Parameter names are the families'."""

from typing import Any, Callable, List, NamedTuple, Optional

import torch
from torch import nn
from torch.nn import functional as F

from models.training.model import Output, State
from models.training.recurrent.config import Mamba2Config, PublicConfig, Qwen35Config, Rwkv7Config
from models.training.recurrent.mamba2 import Mamba2Block
from models.training.recurrent.parts import RmsNorm
from models.training.recurrent.qwen3_5 import Qwen35Block
from models.training.recurrent.rwkv7 import Rwkv7Block, layer_norm
from models.training.units.unit import linear


class Family(NamedTuple):
    config: type
    block: type  # of (config, index); (x, state, what the block before hands on) -> (x, state, what it hands on)
    norm: Callable[[Any], nn.Module]  # behind the last block
    # Names of parts.
    trunk: str
    embedding: str
    last_norm: str


FAMILIES = {family.config.model_type: family for family in (
    Family(Rwkv7Config, Rwkv7Block, layer_norm, "model", "embeddings", "norm"),
    Family(Mamba2Config, Mamba2Block, lambda config: RmsNorm(config.hidden_size, config.layer_norm_epsilon),
           "backbone", "embeddings", "norm_f"),
    Family(Qwen35Config, Qwen35Block, lambda config: RmsNorm(config.hidden_size, config.rms_norm_eps, offset=1.0),
           "model", "embed_tokens", "norm"),
)}


class RecurrentModel(nn.Module):
    """Has what trainer, export and reports use of a `Model`."""

    causal, granule = True, 1

    def __init__(self, config: PublicConfig):
        super().__init__()
        self.config, self.family = config, FAMILIES[config.model_type]
        width, family = config.hidden_size, self.family
        trunk = nn.Module()
        trunk.add_module(family.embedding, nn.Embedding(config.vocab_size, width))
        trunk.layers = nn.ModuleList([family.block(config, index) for index in range(config.num_hidden_layers)])
        trunk.add_module(family.last_norm, family.norm(config))
        self.add_module(family.trunk, trunk)
        if config.tie_word_embeddings:
            with torch.no_grad():  # rows of the embedding begin with a length of sqrt(D): logits near 1 need a gain of 1 / sqrt(D)
                getattr(trunk, family.last_norm).weight.add_(width ** -0.5 - 1)
        else:
            self.lm_head = linear(width, config.vocab_size)
        self.compiled: List[Callable] = []

    @property
    def trunk(self) -> nn.Module:
        return getattr(self, self.family.trunk)

    @property
    def embedding(self) -> nn.Embedding:
        return getattr(self.trunk, self.family.embedding)

    @property
    def layers(self) -> nn.ModuleList:
        return self.trunk.layers

    def compile_layers(self) -> None:
        """Makes training use compiled layers."""
        self.compiled = [torch.compile(layer.forward, dynamic=False) for layer in self.layers]

    def set_dropout(self, chance: float) -> None:
        """In training each number that a layer's branch adds is left out with this chance."""
        for layer in self.layers:
            layer.dropout.p = chance

    def initial_state(self, batch: int) -> State:
        weight = self.embedding.weight
        layers = [layer.initial_state(batch, weight.dtype, weight.device) for layer in self.layers]
        return State(torch.zeros((), dtype=torch.long, device=weight.device), layers)

    def forward(self, tokens, state: Optional[State] = None, codes=None, use_accumulator=True) -> Output:
        """tokens [B, T], T of any number, follow the state; without one the context begins here, and no state is returned.
        Logits of row i are for the token after tokens[:, i]. Ignores `codes` and `use_accumulator`."""
        before = state or self.initial_state(len(tokens))
        x, handed, after = self.embedding(tokens), None, []
        for layer, its_state in zip(self.compiled if self.compiled and self.training else self.layers, before.layers):
            x, its_state, handed = layer(x, its_state, handed)
            after.append(its_state)
        x = getattr(self.trunk, self.family.last_norm)(x)
        logits = F.linear(x, self.embedding.weight if self.config.tie_word_embeddings else self.lm_head.weight)
        after = State(before.position + tokens.shape[1], after) if state else None
        return Output(logits, after, torch.zeros((), device=x.device), [])

    def after_step(self, seen, generator=None) -> int:
        """Nothing is learned without gradients."""
        return 0
