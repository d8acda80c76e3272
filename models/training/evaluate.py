"""Bits per byte of a model on text files, the whole context carried from the first token to the last.

    python3 -m models.training.evaluate MODEL_DIR FILE... [--no-accumulator] [--tokens N]
"""

import argparse
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

SEGMENT = 4096  # tokens a call; any multiple of block_len gives the same numbers


@torch.no_grad()
def token_bits(model, ids: np.ndarray, use_accumulator: bool = True, segment: int = SEGMENT) -> np.ndarray:
    """Bits of each of ids[1:] given all before it."""
    was_training = model.training
    model.eval()
    segment = max(1, segment // model.config.block_len) * model.config.block_len
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


def by_position(bits: np.ndarray, bounds=(0, 256, 1024, 4096, 16384, 65536, 1 << 40)):
    """Mean bits per token within ranges of position: [(first, last, bits)]."""
    ranges = [(low, min(high, len(bits))) for low, high in zip(bounds, bounds[1:]) if low < len(bits)]
    return [(low, high, float(bits[low:high].mean())) for low, high in ranges]


def main():
    from models.training.data import Pieces
    from models.training.export import load_model

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--no-accumulator", action="store_true", help="see only positions within reach")
    parser.add_argument("--tokens", type=int, default=None, help="stop after so many tokens of each file")
    arguments = parser.parse_args()
    model = load_model(arguments.model_dir)
    pieces = Pieces(arguments.model_dir / model.config.tokenizer["file"])
    for file in arguments.files:
        ids = np.concatenate([[pieces.end], pieces.encode(file.read_bytes().decode("utf-8"))])[:arguments.tokens]
        size = len(pieces.decode(ids).encode())
        bits = token_bits(model, ids, not arguments.no_accumulator)
        print(f"{file.name}: {bits.sum() / size:.4f} bits per byte, {len(bits)} tokens, {size} bytes")
        for low, high, mean in by_position(bits):
            print(f"  positions {low:>6} to {high:>6}: {mean:.4f} bits per token")


if __name__ == "__main__":
    main()
