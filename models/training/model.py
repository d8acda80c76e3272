"""A stack of attention units between embedding and logits, one builder for every kind.

Parameter names are those of docs/model-format.md.
"""

from typing import Any, Callable, List, NamedTuple, Optional, Union

import torch
from torch import nn
from torch.nn import functional as F

from models.training.config import ModelConfig
from models.training.units.encoder_unit import EncoderUnit
from models.training.units.exponential_unit import PerformerUnit, SoftCodebookUnit
from models.training.units.feature_unit import LinearUnit
from models.training.units.softmax_unit import SoftmaxUnit
from models.training.units.unit import Unit, norm_of, sinusoid
from models.training.units.vq_unit import VQUnit

# The attention kind of each model_type.
UNITS = {"transformer_vq": VQUnit, "softmax_transformer": SoftmaxUnit, "linear_transformer": LinearUnit,
         "soft_codebook": SoftCodebookUnit, "performer": PerformerUnit, "vq_encoder": EncoderUnit}


class State(NamedTuple):
    """The state of a batch of sequences between two segments. All sequences are at the same position."""

    position: torch.Tensor  # int64, no axes
    layers: List[Any]  # per layer the state of its kind: a NamedTuple of tensors


class Output(NamedTuple):
    logits: torch.Tensor  # [B, T, vocab]
    state: Optional[State]
    auxiliary: torch.Tensor  # the units' own loss (vq: commitment), summed over layers
    seen: list  # per layer, what its unit's `after_step` takes


class Model(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        if config.pe_abs:
            self.position = nn.Module()
            self.position.scale = nn.Parameter(torch.zeros(1))
        unit = UNITS[config.model_type]
        self.causal, self.granule = unit.causal, unit.granule(config)
        self.layers: List[Unit] = nn.ModuleList([unit(config) for _ in range(config.n_layer)])
        if config.output_norm:
            self.norm = norm_of(config)
        self.lm_head = nn.Module()
        if not config.tie_word_embeddings:
            self.lm_head.weight = nn.Parameter(torch.randn(config.vocab_size, config.d_model) * config.d_model ** -0.5)
        self.lm_head.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.compiled: List[Callable] = []  # the layers, compiled; if there are any, training uses them

    def compile_layers(self) -> None:
        """Makes training use compiled layers. All layers are alike, so each shape is compiled only once."""
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
        """tokens [B, T] follow the state; logits of row i are for the token after tokens[:, i].

        With a state T may be any number, but unless it is a multiple of `granule` (vq: block_len; others: 1) the state
        returned is None, and `auxiliary` and `seen` are those of the padded segment. Without a state the context begins
        here and is computed in the quadratic form. `codes`, a tensor [B, G, T] per layer, forces the quantization, and
        use_accumulator=False limits attention to what is within reach; kinds without codes or reach ignore them. An
        encoder takes no state, and its logits of row i are for the token at i itself, which is hidden in training.
        """
        x, after, auxiliary, seen = self._through_layers(tokens, state, codes, use_accumulator)
        weight = self.embedding.weight if self.config.tie_word_embeddings else self.lm_head.weight
        scale = self.config.logit_scale  # applied before the product: x is the smaller matrix
        logits = F.linear(x * scale, weight, self.lm_head.bias * scale)
        return Output(logits, after, auxiliary, seen)

    def encode(self, tokens) -> torch.Tensor:
        """A vector for each position of whole sequences, [B, T] -> [B, T, D]; only for encoders."""
        if self.causal:
            raise ValueError(f"a {self.config.model_type} predicts, it does not encode; a vq_encoder does")
        return self._through_layers(tokens)[0]

    def _through_layers(self, tokens, state=None, codes=None, use_accumulator=True):
        """-> (x [B, T, D] before the logits, the state after, the units' own loss, what their after_step takes)"""
        length = tokens.shape[1]
        padding = -length % self.granule if state is not None else 0
        x = self.embedding(F.pad(tokens, (0, padding)))
        start = state.position if state is not None else 0
        if self.config.pe_abs:
            index = start + torch.arange(length + padding, device=x.device)
            x = x + self.position.scale * sinusoid(index, self.config.d_model, self.config.pe_lam).to(x)
        layer_states, auxiliary, seen = [], torch.zeros((), device=x.device), []
        run = self.compiled if self.compiled and self.training else self.layers
        for number, layer in enumerate(run):
            forced = None if codes is None else F.pad(codes[number], (0, padding))
            before = None if state is None else state.layers[number]
            x, mixed = layer(x, before, forced, use_accumulator)
            layer_states.append(mixed.state)
            seen.append(mixed.seen)
            auxiliary = auxiliary + mixed.auxiliary
        x = x[:, :length]
        if self.config.output_norm:
            x = self.norm(x)
        after = State(start + length, layer_states) if state is not None and padding == 0 else None
        return x, after, auxiliary, seen

    def after_step(self, seen: list, generator=None) -> Union[torch.Tensor, int]:
        """Updates what units learn without gradients (vq: codebooks); returns how many codes were revived."""
        return sum(layer.after_step(what, generator) for layer, what in zip(self.layers, seen))
