"""Measures what it costs to code a single kv head: the increase in nats on some texts, with all other heads exact.

Different texts show different heads: prose, code and markup show heads to which many keys matter, a repeated passage shows heads
that find it. So each text has a name, and costs are kept by text.
"""

import contextlib
import copy
import dataclasses
import queue
from typing import Dict, Iterator, List, NamedTuple, Tuple

import torch
from torch.nn import functional as F

from models.conversion import cores
from models.conversion.config import Head
from models.conversion.model import Model
from models.conversion.rotation import Positions

ROWS = 128  # rows of logits at a time, on each core


class Text(NamedTuple):
    name: str
    tokens: torch.Tensor  # [T], the beginning of a context
    scored: slice  # the tokens whose nats count


class Costs(NamedTuple):
    base: Dict[str, float]  # nats per token with all heads exact, by text
    more: Dict[Head, Dict[str, float]]  # how many more with the head coded


@contextlib.contextmanager
def only_coded(model: Model, heads) -> Iterator[None]:
    """Within this context only `heads` are coded; all other heads keep all their keys."""
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
    """Nats per token of a text, from its rows [T, D] behind the last layer."""
    begin, end, _ = text.scored.indices(len(text.tokens))
    total = 0.0
    for first in range(begin, end, ROWS):
        targets = text.tokens[first:min(first + ROWS, end)]
        hidden = model.model.norm(rows[first - 1:first - 1 + len(targets)])
        total += float(F.cross_entropy(model.logits(hidden), targets, reduction="sum"))
    return total / (end - begin)


def twin(model: Model) -> Model:
    """A model that shares the parameters but has its own configuration."""
    return copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})


class Measure:
    """Measures a converted model layer by layer. Texts must not be longer than its trained context."""

    def __init__(self, model: Model, texts: List[Text]):
        self.model, self.texts = model, texts
        context = model.config.conversion.context
        self.positions = [Positions(model.frequencies, len(text.tokens), context) for text in texts]
        for positions in self.positions:
            positions.beyond(model.config.conversion.ring)  # computed now, before threads share it
        with torch.no_grad():
            self.rows = [model.model.embed_tokens(text.tokens) for text in texts]
        self.twins: queue.SimpleQueue = queue.SimpleQueue()
        for _ in range(cores.count()):
            self.twins.put(twin(model))
        exact = cores.each(lambda index: self._nats(index, 0), range(len(texts)))
        self.base = {text.name: nats for text, nats in zip(texts, exact)}

    def _nats(self, index: int, number: int, coded: Head = None) -> float:
        """Nats per token of text `index`, with the head `coded` of layer `number` coded and all others exact."""
        model, text = self.twins.get(), self.texts[index]
        try:
            with torch.no_grad():
                rows = self.rows[index]
                for layer in range(number, model.config.layers):
                    with only_coded(model, [coded] if coded and layer == number else ()):
                        rows = model.model.layers[layer](rows, self.positions[index], model.state)[0]
                return nats(model, rows, text)
        finally:
            self.twins.put(model)

    def layers(self, first: int = 0) -> Iterator[Tuple[int, Dict[Head, Dict[str, float]]]]:
        """Yields for each layer from `first` on its number and what each of its heads costs."""
        for number, layer in enumerate(self.model.model.layers):
            if number >= first:
                heads = [(number, head) for head in range(self.model.config.kv_heads)]
                asked = [(head, index) for head in heads for index in range(len(self.texts))]
                found = cores.each(lambda task: self._nats(task[1], number, task[0]), asked)
                more: Dict[Head, Dict[str, float]] = {head: {} for head in heads}
                for (head, index), coded in zip(asked, found):
                    name = self.texts[index].name
                    more[head][name] = coded - self.base[name]
                yield number, more
            with only_coded(self.model, ()), torch.no_grad():
                self.rows = [layer(rows, positions, self.model.state)[0] for rows, positions in zip(self.rows, self.positions)]


def measure(model: Model, texts: List[Text]) -> Costs:
    measured = Measure(model, texts)
    return Costs(measured.base, {head: more for _, costs in measured.layers() for head, more in costs.items()})
