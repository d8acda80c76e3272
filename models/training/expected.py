"""Expected log-probabilities of a model directory, for tvq-verify: python3 -m models.training.expected MODEL_DIR TEXT OUT

Computed in float64 by the quadratic form. OUT (safetensors) gets `text` (the first 640 tokens of the file TEXT, after the
end-of-sequence id), `random` (uniform ids) and `greedy` (a continuation), named as tests/golden/README.md describes.
"""

import argparse
import pathlib

import numpy as np
import torch

from models.training import safetensors
from models.training.data import Pieces
from models.training.export import load_model

TOKENS = {"text": 640, "random": 200}
LAST_ROWS = 64  # whole rows kept of each sequence
PROMPT, CONTINUATION = 120, 100
GREEDY_TRIES = 12  # places in the text tried as prompts, for the continuation with the clearest choices


@torch.no_grad()
def log_probabilities(model, ids: np.ndarray) -> np.ndarray:
    return model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].log_softmax(-1).numpy()


def sequence(model, name: str, ids: np.ndarray) -> dict:
    rows = log_probabilities(model, ids)
    return {f"{name}.tokens": ids.astype(np.int32),
            f"{name}.target_logprobs": rows[np.arange(len(ids) - 1), ids[1:]].astype(np.float32),
            f"{name}.last_logprobs": rows[-LAST_ROWS:].astype(np.float32)}


def greedy(model, ids: np.ndarray) -> tuple:
    """-> (tensors of the continuation whose two best candidates are furthest apart, that distance)"""
    best = ({}, -1.0)
    for begin in range(0, len(ids) - PROMPT, max(1, (len(ids) - PROMPT) // GREEDY_TRIES)):
        prompt, gap = ids[begin:begin + PROMPT], np.inf
        tokens, chosen = list(prompt), []
        while len(chosen) < CONTINUATION and gap > best[1]:
            row = log_probabilities(model, np.array(tokens))[-1]
            second, first = np.argsort(row)[-2:]
            gap = min(gap, row[first] - row[second])
            tokens.append(first)
            chosen.append(row[first])
        if gap > best[1]:
            best = ({"greedy.prompt_tokens": prompt.astype(np.int32),
                     "greedy.tokens": np.array(tokens[PROMPT:], np.int32),
                     "greedy.logprobs": np.array(chosen, np.float32)}, gap)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    model = load_model(arguments.model_dir).double()
    pieces = Pieces(arguments.model_dir / model.config.tokenizer["file"])
    ids = np.concatenate([[pieces.end], pieces.encode(arguments.text.read_bytes().decode("utf-8"))]).astype(np.int64)
    noise = np.random.default_rng(0).integers(0, model.config.vocab_size, TOKENS["random"])
    tensors, gap = greedy(model, ids[:20000])
    tensors.update(sequence(model, "text", ids[:TOKENS["text"]]))
    tensors.update(sequence(model, "random", noise))
    safetensors.save(arguments.out, tensors)
    print(f"{arguments.out}: the two best candidates of the greedy continuation are at least {gap:.4f} apart")


if __name__ == "__main__":
    main()
