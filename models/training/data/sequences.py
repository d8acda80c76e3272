"""Batches of independent short sequences. A row of a batch is one sequence, so no sequence can see another."""

from typing import List

import numpy as np
import torch

from models.training.data.batch import Batch


class Sequences:
    """Endless shuffled passes over groups of sequences of equal length. A batch is from one group, so nothing is padded.

    groups: arrays [n, T+1]; each row is a sequence. A batch has about `tokens` tokens; the last of a group may be smaller. With
    `drop_first`, half of the batches lack the rows' first token.
    """

    def __init__(self, groups: List[np.ndarray], tokens: int, seed: int, drop_first: bool = False):
        self.groups = [group for group in groups if len(group)]
        if not self.groups:
            raise ValueError("there are no sequences to train on")
        self.tokens, self.seed, self.drop_first = tokens, seed, drop_first
        self.epoch, self.index, self.plan = 0, 0, None

    def _plan(self):
        """The batches of this pass, which depend on the seed and the pass alone: [(group, rows, whether to drop)]."""
        random = np.random.Generator(np.random.PCG64([self.seed, self.epoch]))
        plan = []
        for number, group in enumerate(self.groups):
            rows = random.permutation(len(group))
            size = max(1, self.tokens // (group.shape[1] - 1))
            plan += [(number, rows[begin:begin + size]) for begin in range(0, len(rows), size)]
        drops = random.random(len(plan)) < 0.5
        return [(*plan[n], bool(drops[n]) and self.drop_first) for n in random.permutation(len(plan))]

    def next(self) -> Batch:
        if self.plan is None:
            self.plan = self._plan()
        number, rows, drop = self.plan[self.index]
        self.index += 1
        if self.index == len(self.plan):
            self.epoch, self.index, self.plan = self.epoch + 1, 0, None
        tokens = self.groups[number][np.sort(rows), int(drop):]
        return Batch(torch.from_numpy(tokens.astype(np.int64)))

    def state_dict(self):
        return {"epoch": self.epoch, "index": self.index}

    def load_state_dict(self, state):
        self.epoch, self.index, self.plan = state["epoch"], state["index"], None


def begin_at_frequencies(model, counts: np.ndarray) -> None:
    """Sets the logits' bias so that without other contributions each id would have its frequency in the training data."""
    chances = torch.from_numpy((counts + 0.5) / (counts + 0.5).sum()).float()
    with torch.no_grad():
        model.lm_head.bias.copy_(chances.log() / model.config.logit_scale)
