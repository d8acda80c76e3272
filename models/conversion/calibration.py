"""Queries, keys and values of a softmax model for some texts, layer after layer.

Only those of one layer are in memory at a time, and the rows [T, D] of each text before that layer.
"""

from typing import Iterator, List, NamedTuple

import torch

from models.conversion import cores
from models.conversion.attention import Heads
from models.conversion.model import Model
from models.conversion.rotation import Positions


class Seen(NamedTuple):
    """What one layer sees of the texts."""

    number: int
    texts: List[List[Heads]]  # by text and kv head


class Calibration:
    """`model` must not be converted. Each of `texts` [T] begins a context. `layer` and `rows` continue an earlier calibration."""

    def __init__(self, model: Model, texts: List[torch.Tensor], context: int, layer: int = 0, rows: List[torch.Tensor] = None):
        self.model, self.layer = model, layer
        self.positions = [Positions(model.frequencies, len(text), context) for text in texts]
        with torch.no_grad():
            self.rows = rows or [model.model.embed_tokens(text) for text in texts]

    def __iter__(self) -> Iterator[Seen]:
        """Yields what each layer sees. The caller must call advance() to go on to the next layer."""
        while self.layer < self.model.config.layers:
            layer = self.model.model.layers[self.layer]
            with torch.no_grad():
                texts = [layer.self_attn.heads(layer.input_layernorm(x)) for x in self.rows]
            yield Seen(self.layer, texts)

    def advance(self) -> None:
        layer = self.model.model.layers[self.layer]

        def ahead(text: int) -> torch.Tensor:
            with torch.no_grad():
                return layer(self.rows[text], self.positions[text], self.model.state)[0]

        self.rows = cores.each(ahead, range(len(self.rows)))
        self.layer += 1
