"""What a softmax model's layers see of some texts: queries, keys and values of one layer after the other.

No more than one layer's are ever in memory, beside the rows [T, D] of each text ahead of it.
"""

from typing import Iterator, List, NamedTuple

import torch

from models.conversion import cores
from models.conversion.attention import Heads
from models.conversion.model import Model
from models.conversion.rotation import Positions


class Seen(NamedTuple):
    """By one layer."""

    number: int
    texts: List[List[Heads]]  # by text and kv head


class Calibration:
    """`model` has no conversion. Each of `texts` [T] begins a context. `layer` and `rows`: where an earlier one stood."""

    def __init__(self, model: Model, texts: List[torch.Tensor], context: int, layer: int = 0, rows: List[torch.Tensor] = None):
        self.model, self.layer = model, layer
        self.positions = [Positions(model.frequencies, len(text), context) for text in texts]
        with torch.no_grad():
            self.rows = rows or [model.model.embed_tokens(text) for text in texts]

    def __iter__(self) -> Iterator[Seen]:
        """A layer after the other; advance() goes from one to the next."""
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
