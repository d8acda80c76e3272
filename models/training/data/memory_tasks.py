"""Two tasks that need only memory: to repeat a sequence, and to recall which value belonged to a key long ago.

    0 x1 .. xn 0 x1 .. xn                       copy: random symbols, and the same ones again
    0 k1 v1 .. kP vP  filler  kj vj .. ki vi    recall: pairs of keys and values, noise, and the keys asked for again

Only the second part of each can be predicted, and in recall only its values: only these count in the loss. Batches are made when
they are needed, from a random state of their own.
"""

import math
from typing import NamedTuple

import numpy as np
import torch

from models.training.data.batch import Batch

BEGIN = 0
ANSWERS = 256  # the least number of answers of an evaluation: a share of them has a standard error of at most 3.2%
EVALUATION_SEED = 7
SEGMENT = 1024  # tokens of a sequence at a time, a multiple of every granule in use
ROWS = 16  # sequences at a time


class Asked(NamedTuple):
    """Rows of a task, and which targets ask for something that came before."""

    tokens: np.ndarray  # [B, T+1]
    targets: slice  # of tokens[:, 1:]


class Made:
    """A source of batches of about `tokens` tokens: `make(random, rows)` makes them."""

    def __init__(self, make, tokens: int, seed: int):
        self.make, self.tokens = make, tokens
        self.random = np.random.Generator(np.random.PCG64(seed))

    def next(self) -> Batch:
        made = self.make(self.random, self.tokens)
        return Batch(torch.from_numpy(made.tokens.astype(np.int64)), asked=made.targets)

    def state_dict(self):
        return {"random": self.random.bit_generator.state}

    def load_state_dict(self, state):
        self.random.bit_generator.state = state["random"]


@torch.no_grad()
def wrong(model, asked: Asked) -> float:
    """The share of the targets asked for that the model does not find the most likely token."""
    was_training = model.training
    model.eval()
    tokens = torch.from_numpy(asked.tokens.astype(np.int64)).to(next(model.parameters()).device)
    answers = torch.cat([most_likely(model, rows) for rows in tokens[:, :-1].split(ROWS)])
    model.train(was_training)
    return float((answers != tokens[:, 1:])[:, asked.targets].float().mean())


def most_likely(model, tokens: torch.Tensor) -> torch.Tensor:
    """The most likely token after each of tokens [B, T]; the context is carried from segment to segment."""
    state, found = model.initial_state(len(tokens)), []
    for segment in tokens.split(SEGMENT, 1):
        output = model(segment, state)
        state = output.state
        found.append(output.logits.argmax(-1))
    return torch.cat(found, 1)


class MemoryTask:
    """What both tasks share as tasks of models.training.train. The rows of a batch have one length and no padding."""

    stages = (0.0,)
    size = math.inf

    def __init__(self, batch_tokens: int):
        self.batch_tokens = batch_tokens

    def config_fields(self) -> dict:
        return dict(vocab_size=self.vocab_size, tokenizer={"type": "ids"})

    def source(self, stage: int, seed: int) -> Made:
        return Made(self.make, self.batch_tokens, seed)

    def prepare(self, model) -> None:
        """Nothing about the model follows from the data."""


class Copy(MemoryTask):
    """Sequences of `longest` / 2 to `longest` tokens out of `symbols` symbols."""

    unit = "of the repeated symbols wrong"

    def __init__(self, batch_tokens: int, symbols: int = 10, longest: int = 128):
        super().__init__(batch_tokens)
        self.symbols, self.longest, self.vocab_size = symbols, longest, symbols + 1

    def rows(self, random, count: int, length: int) -> Asked:
        symbols = random.integers(1, self.symbols + 1, size=(count, length))
        begin = np.full((count, 1), BEGIN)
        return Asked(np.concatenate([begin, symbols, begin, symbols], axis=1), slice(length + 1, None))

    def make(self, random, tokens: int) -> Asked:
        length = int(random.integers((self.longest + 1) // 2, self.longest + 1))
        return self.rows(random, max(1, tokens // (2 * length + 1)), length)

    def validate(self, model) -> float:
        return wrong(model, self.rows(np.random.default_rng(EVALUATION_SEED), -(-ANSWERS // self.longest), self.longest))


def log_uniform(random, low: int, high: int) -> int:
    return int(round(math.exp(random.uniform(math.log(low), math.log(high)))))


class Recall(MemoryTask):
    """Pairs of different keys and any values, asked for again after 10 to `farthest` tokens of noise. An evaluation has
    `pairs` of them.

    There are few different tokens, so that a small model learns the task within minutes.
    """

    unit = "of the values wrong"
    nearest = 10

    def __init__(self, batch_tokens: int, pairs: int = 8, farthest: int = 100, keys: int = 16, values: int = 8, noise: int = 4):
        super().__init__(batch_tokens)
        if pairs > keys:
            raise ValueError(f"{pairs} pairs need as many keys, there are {keys}")
        self.pairs, self.farthest, self.keys, self.values, self.noise = pairs, farthest, keys, values, noise
        self.vocab_size = 1 + keys + values + noise

    def rows(self, random, count: int, distance: int, pairs=None) -> Asked:
        pairs = self.pairs if pairs is None else pairs
        keys = 1 + np.stack([random.permutation(self.keys)[:pairs] for _ in range(count)])
        values = 1 + self.keys + random.integers(self.values, size=(count, pairs))
        noise = 1 + self.keys + self.values + random.integers(self.noise, size=(count, distance))
        order = np.stack([random.permutation(pairs) for _ in range(count)])
        given = np.stack([keys, values], axis=2).reshape(count, 2 * pairs)
        again = np.stack([np.take_along_axis(part, order, 1) for part in (keys, values)], axis=2).reshape(count, 2 * pairs)
        tokens = np.concatenate([np.full((count, 1), BEGIN), given, noise, again], axis=1)
        return Asked(tokens, slice(2 * pairs + distance + 1, None, 2))  # the target behind every key

    def make(self, random, tokens: int) -> Asked:
        """Makes rows of 1 to `pairs` pairs: with few pairs a model learns first what is asked."""
        pairs, distance = log_uniform(random, 1, self.pairs), log_uniform(random, self.nearest, self.farthest)
        return self.rows(random, max(1, tokens // (4 * pairs + distance)), distance, pairs)

    def distances(self, farthest=None):
        """The distances of an evaluation: 10, 20, 50, 100 and so on."""
        farthest = farthest or self.farthest
        steps = (step * power for power in (10 ** n for n in range(1, 10)) for step in (1, 2, 5))
        return [distance for distance in steps if self.nearest <= distance <= farthest]

    def wrong_at(self, model, distance: int, pairs=None) -> float:
        """The share of values that are wrong at this distance."""
        random, pairs = np.random.default_rng([EVALUATION_SEED, distance]), pairs or self.pairs
        return wrong(model, self.rows(random, -(-ANSWERS // pairs), distance, pairs))

    def by_distance(self, model, farthest=None, pairs=None) -> dict:
        return {distance: self.wrong_at(model, distance, pairs) for distance in self.distances(farthest)}

    def validate(self, model) -> float:
        found = self.by_distance(model)
        return sum(found.values()) / len(found)
