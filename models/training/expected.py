"""Expected log-probabilities of a model directory, for tvq-verify: python3 -m models.training.expected MODEL_DIR FILE OUT

Computed in float64 by the quadratic form. OUT (safetensors) gets `text` (the first tokens of FILE, after the
end-of-sequence id), `random` (uniform ids) and `greedy` (a continuation), named as tests/golden/README.md describes.
FILE is a text. For a tokenizer of characters it holds pairs, and for one of pixels images, which are read one after the other.
"""

import argparse
import pathlib

import numpy as np
import torch

from models.training.data.couplets import read_pairs, sequence as couplet
from models.training.data.images import read_images, sequences_of, shape_of
from models.training.data.tokenizer import load_tokenizer
from models.training.export import load_model
from models.training.files import safetensors

TOKENS = {"text": 640, "random": 200}
PROMPT, CONTINUATION = 120, 100
GREEDY_TRIES = 12  # how many places in the text are tried as prompts, to find the continuation with the clearest choices


@torch.no_grad()
def log_probabilities(model, ids: np.ndarray) -> np.ndarray:
    return model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].log_softmax(-1).numpy()


def read_ids(directory, config, file) -> np.ndarray:
    if config.tokenizer["type"] == "pixels":
        return sequences_of(read_images(file, shape_of(config.tokenizer))[:8], config.tokenizer["levels"]).ravel().astype(np.int64)
    tokenizer = load_tokenizer(directory, config)
    if config.tokenizer["type"] == "characters":
        return np.concatenate([couplet(tokenizer, pair)[:-1] for pair in read_pairs(file)[:100]]).astype(np.int64)
    return np.concatenate([[tokenizer.end], tokenizer.encode(file.read_bytes().decode("utf-8"))]).astype(np.int64)


def sequence(model, name: str, ids: np.ndarray, last_rows: int) -> dict:
    rows = log_probabilities(model, ids)
    return {f"{name}.tokens": ids.astype(np.int32),
            f"{name}.target_logprobs": rows[np.arange(len(ids) - 1), ids[1:]].astype(np.float32),
            f"{name}.last_logprobs": rows[-last_rows:].astype(np.float32)}


def greedy(model, ids: np.ndarray) -> tuple:
    """-> (tensors of the continuation whose two best candidates stay furthest apart, their smallest distance)"""
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
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--last-rows", type=int, default=64, help="whole rows kept of each sequence")
    arguments = parser.parse_args()
    model = load_model(arguments.model_dir).double()
    if not model.causal:
        parser.error(f"{arguments.model_dir}: a {model.config.model_type} predicts no next token")
    ids = read_ids(arguments.model_dir, model.config, arguments.file)
    noise = np.random.default_rng(0).integers(0, model.config.vocab_size, TOKENS["random"])
    tensors, gap = greedy(model, ids[:20000])
    tensors.update(sequence(model, "text", ids[:TOKENS["text"]], arguments.last_rows))
    tensors.update(sequence(model, "random", noise, arguments.last_rows))
    safetensors.save(arguments.out, tensors)
    print(f"{arguments.out}: the two best candidates of the greedy continuation are at least {gap:.4f} apart")


if __name__ == "__main__":
    main()
