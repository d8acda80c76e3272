"""Measures how well a model predicts token ids."""

import math

import numpy as np
import torch
import torch.nn.functional as F

SEGMENT = 4096  # tokens in a call; any multiple of the model's granule gives the same numbers


@torch.no_grad()
def token_bits(model, ids: np.ndarray, use_accumulator: bool = True, segment: int = SEGMENT) -> np.ndarray:
    """-> -log2 of the probability of each of ids[1:], given all ids before it"""
    was_training = model.training
    model.eval()
    segment = max(1, segment // model.granule) * model.granule
    tokens = torch.from_numpy(ids.astype(np.int64))[None].to(next(model.parameters()).device)
    state, bits = model.initial_state(1), []
    for begin in range(0, len(ids) - 1, segment):
        piece = tokens[:, begin:begin + segment]
        output = model(piece, state, use_accumulator=use_accumulator)
        state = output.state
        targets = tokens[0, begin + 1:begin + 1 + segment]
        loss = F.cross_entropy(output.logits[0, :len(targets)].float(), targets, reduction="none")
        bits.append(loss.cpu().numpy() / math.log(2))
    model.train(was_training)
    return np.concatenate(bits)
