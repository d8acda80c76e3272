"""What it costs to code one kv head alone: bits more on some texts, with all other heads exact.

Texts tell different heads apart: prose, code and markup those that many keys matter to, a passage that comes again those that
find it. So each text has a name, and costs stay apart by it.
"""

import contextlib
import dataclasses
from typing import Dict, Iterator, List, NamedTuple, Tuple

import torch
from torch.nn import functional as F

from models.conversion.config import Head
from models.conversion.model import Model
from models.conversion.rotation import Positions

ROWS = 512  # of logits at a time


class Text(NamedTuple):
    name: str
    tokens: torch.Tensor  # [T], the beginning of a context
    scored: slice  # those whose nats count


class Costs(NamedTuple):
    base: Dict[str, float]  # nats of a token with all heads exact, by text
    more: Dict[Head, Dict[str, float]]  # with the head coded


@contextlib.contextmanager
def only_coded(model: Model, heads) -> Iterator[None]:
    """Meanwhile all other heads keep all their keys."""
    every = {(layer, head) for layer in range(model.config.layers) for head in range(model.config.kv_heads)}
    before = model.config
    kept = dataclasses.replace(before.conversion, wide={}, grow=frozenset(every - set(heads)))
    try:
        for layer in model.model.layers:
            layer.self_attn.config = dataclasses.replace(before, conversion=kept)
        yield
    finally:
        for layer in model.model.layers:
            layer.self_attn.config = before


@torch.no_grad()
def nats(model: Model, rows: torch.Tensor, text: Text) -> float:
    """A token, of the rows [T, D] behind the last layer."""
    begin, end, _ = text.scored.indices(len(text.tokens))
    total = 0.0
    for first in range(begin, end, ROWS):
        targets = text.tokens[first:min(first + ROWS, end)]
        hidden = model.model.norm(rows[first - 1:first - 1 + len(targets)])
        total += float(F.cross_entropy(model.logits(hidden), targets, reduction="sum"))
    return total / (end - begin)


class Measure:
    """Of a converted model, layer by layer; texts are no longer than its trained context."""

    def __init__(self, model: Model, texts: List[Text]):
        self.model, self.texts = model, texts
        context = model.config.conversion.context
        self.positions = [Positions(model.frequencies, len(text.tokens), context) for text in texts]
        with torch.no_grad():
            self.rows = [model.model.embed_tokens(text.tokens) for text in texts]
        with only_coded(model, ()):
            self.base = {text.name: nats(model, self._through(0, number), text) for number, text in enumerate(texts)}

    @torch.no_grad()
    def _through(self, first: int, number: int, rows: torch.Tensor = None) -> torch.Tensor:
        """The rows of a text behind all layers from `first` on."""
        rows = self.rows[number] if rows is None else rows
        for layer in self.model.model.layers[first:]:
            rows = layer(rows, self.positions[number], self.model.state)[0]
        return rows

    @torch.no_grad()
    def layers(self, first: int = 0) -> Iterator[Tuple[int, Dict[Head, Dict[str, float]]]]:
        """From the `first` on: a layer's number, and what each of its heads costs."""
        for number, layer in enumerate(self.model.model.layers):
            more = {}
            for head in range(self.model.config.kv_heads if number >= first else 0):
                of_text = more[number, head] = {}
                for index, text in enumerate(self.texts):
                    with only_coded(self.model, [(number, head)]):
                        rows = layer(self.rows[index], self.positions[index], self.model.state)[0]
                    with only_coded(self.model, ()):
                        rows = self._through(number + 1, index, rows)
                    of_text[text.name] = nats(self.model, rows, text) - self.base[text.name]
            with only_coded(self.model, ()):
                self.rows = [layer(rows, positions, self.model.state)[0] for rows, positions in zip(self.rows, self.positions)]
            if number >= first:
                yield number, more


def measure(model: Model, texts: List[Text]) -> Costs:
    measured = Measure(model, texts)
    return Costs(measured.base, {head: more for _, costs in measured.layers() for head, more in costs.items()})
