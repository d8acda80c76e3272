"""What a source of training data gives to the trainer."""

from typing import NamedTuple, Optional

import torch


class Batch(NamedTuple):
    """The rows of one step. Token t of a row is the input at t and, unless it is the first, the target at t - 1."""

    tokens: torch.Tensor  # int64 [B, T+1]
    context: Optional[int] = None  # the number of the carried context that the rows continue; None: every row is a whole sequence
    fresh: bool = True  # whether the context begins here
    asked: slice = slice(None)  # the targets that count in the loss
