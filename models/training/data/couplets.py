"""Couplets: a first line and the line that answers it, as sequences of characters.

    FIRST "\\n" SECOND eos

An end-of-sequence id stands before half of them, so that the model also knows how to begin one.
"""

import collections
import lzma
import math
import pathlib
from typing import List, Tuple

import numpy as np
import torch
import torch.nn.functional as F

from models.training.data.characters import END, FIRST_ID, PAD, UNKNOWN, Characters
from models.training.data.sequences import Sequences, begin_at_frequencies
from models.training.generate import sample

SEPARATOR = "\n"
HELD_OUT = 2000  # pairs kept out of training, to choose the best checkpoint
EVALUATION_TOKENS = 8192  # tokens of a batch
EMBEDDING_SCALE = 0.25  # standard deviation at the start

Pair = Tuple[str, str]


def read_pairs(path) -> List[Pair]:
    """Tab-separated pairs, one a line, UTF-8; .xz is unpacked. ValueError names the file and the line."""
    path = pathlib.Path(path)
    opened = lzma.open(path) if path.suffix == ".xz" else open(path, "rb")
    with opened as file:
        try:
            lines = file.read().decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8 at byte {error.start}") from None
    pairs = []
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        if line and (len(fields) != 2 or not all(fields)):
            raise ValueError(f"{path}: line {number} is not two texts with a tab between them")
        if line:
            pairs.append((fields[0], fields[1]))
    if not pairs:
        raise ValueError(f"{path} holds no pairs")
    return pairs


def sequence(characters: Characters, pair: Pair) -> np.ndarray:
    return np.concatenate([[END], characters.encode(pair[0] + SEPARATOR + pair[1]), [END]]).astype(characters.dtype)


def by_length(sequences) -> List[np.ndarray]:
    groups = collections.defaultdict(list)
    for ids in sequences:
        groups[len(ids)].append(ids)
    return [np.stack(groups[length]) for length in sorted(groups)]


def vocabulary(pairs: List[Pair]) -> Characters:
    return Characters.of((first + second for first, second in pairs), begin=[SEPARATOR])


class Couplets:
    """The task: training pairs, and pairs held out from them."""

    unit = "perplexity of a second line's character"
    stages = (0.0,)

    def __init__(self, train: List[Pair], characters: Characters, batch_tokens: int, held_out: int = HELD_OUT):
        if held_out >= len(train):
            raise ValueError(f"{len(train)} pairs do not leave any to train on beside {held_out} held out")
        self.characters, self.batch_tokens = characters, batch_tokens
        self.held_out = train[len(train) - held_out:]
        known = set(self.held_out)
        self.groups = by_length(sequence(characters, pair) for pair in train if pair not in known)
        self.size = sum(group.size for group in self.groups)

    def config_fields(self) -> dict:
        return dict(vocab_size=len(self.characters), pad_token_id=PAD, eos_token_id=END, unk_token_id=UNKNOWN,
                    tokenizer={"type": "characters", "file": "characters.txt", "first_id": FIRST_ID})

    def source(self, stage: int, seed: int) -> Sequences:
        return Sequences(self.groups, self.batch_tokens, seed, drop_first=True)

    def prepare(self, model) -> None:
        """Sets the logits' bias by the characters' frequencies. Makes the embeddings small: they are also the rows of the logits,
        and with large ones every character would predict itself at first."""
        counts = sum(np.bincount(group.ravel(), minlength=len(self.characters)) for group in self.groups)
        begin_at_frequencies(model, counts)
        with torch.no_grad():
            model.embedding.weight.mul_(EMBEDDING_SCALE)

    def validate(self, model) -> float:
        return math.exp(second_lines(model, self.characters, self.held_out)["nats"])


@torch.no_grad()
def second_lines(model, characters: Characters, pairs: List[Pair]) -> dict:
    """How well second lines are predicted from first lines.

    nats: mean over the characters of second lines; nats_with_end: the same with the end-of-sequence id behind each line.
    """
    was_training = model.training
    model.eval()
    lengths = collections.defaultdict(list)
    for first, second in pairs:
        ids = characters.encode(first + SEPARATOR + second)
        lengths[len(first), len(second)].append(np.append(ids, END).astype(np.int64))
    totals = collections.Counter()
    for (first, second), rows in sorted(lengths.items()):
        size = max(1, EVALUATION_TOKENS // (first + second + 2))
        for begin in range(0, len(rows), size):
            tokens = torch.from_numpy(np.stack(rows[begin:begin + size])).to(model.lm_head.bias.device)
            logits = model(tokens[:, :-1]).logits[:, first:].float()
            nats = F.cross_entropy(logits.flatten(0, 1), tokens[:, first + 1:].flatten(), reduction="none")
            nats = nats.reshape(len(tokens), second + 1)
            totals["characters"] += nats[:, :-1].numel()
            totals["nats"] += float(nats[:, :-1].double().sum())
            totals["end"] += float(nats[:, -1].double().sum())
            totals["ends"] += len(tokens)
    model.train(was_training)
    return {"nats": totals["nats"] / totals["characters"], "characters": totals["characters"],
            "nats_with_end": (totals["nats"] + totals["end"]) / (totals["characters"] + totals["ends"])}


@torch.no_grad()
def answers(model, characters: Characters, firsts: List[str], temperature: float, top_p: float, seed: int = 0,
            longest: int = 64) -> List[str]:
    """A sampled second line for each first line, those of equal length in one batch."""
    random = torch.Generator().manual_seed(seed)
    lengths, found = collections.defaultdict(list), {}
    for number, first in enumerate(firsts):
        lengths[len(first)].append(number)
    for _, numbers in sorted(lengths.items()):
        tokens = torch.from_numpy(np.stack([characters.encode(firsts[n] + SEPARATOR) for n in numbers]).astype(np.int64))
        begin, ended = tokens.shape[1], torch.zeros(len(numbers), dtype=torch.bool)
        while tokens.shape[1] < begin + longest and not ended.all():
            chosen = sample(model(tokens).logits[:, -1].float(), temperature, top_p, random)
            ended |= chosen == END
            tokens = torch.cat([tokens, chosen.masked_fill(ended, END)[:, None]], 1)
        for number, row in zip(numbers, tokens[:, begin:].tolist()):
            found[number] = characters.decode(row)  # the end has no text
    return [found[n] for n in range(len(firsts))]
