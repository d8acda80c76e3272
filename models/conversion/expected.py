"""Expected log-probabilities and codes of a converted directory, for tvq-verify.

    python3 -m models.conversion.expected DIR TEXT OUT [--tokens 1024] [--state bfloat16]

Computed in float64 by the quadratic form. OUT (safetensors) gets `text` (the first tokens of TEXT), `short` (one token) and
`greedy` (a continuation), in the form of models/verify/expected.h. Each sequence also has NAME.codes int32 [T, heads]; those of
`greedy` are of prompt and continuation together. Only heads with codes count, ordered by layer, then by the length of their ring,
then by number.

TEXT is tokenized by the built programs (served.py). For a directory without a tokenizer it holds ids, separated by spaces.
"""

import argparse
import pathlib

import numpy as np
import torch

from models.conversion.config import Config
from models.conversion.directory import load_model
from models.conversion.model import Model
from models.conversion.texts import read_ids
from models.training.files import safetensors

STATES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ROWS = 512  # rows of logits at a time
PROMPT, CONTINUATION = 120, 60
GREEDY_TRIES = 8  # how many places in the text are tried as prompts, to find the continuation with the clearest choices


def columns(config: Config, codes: list) -> np.ndarray:
    """codes by layer, [G, T] each -> int32 [T, heads]"""
    return np.stack([codes[layer][head].numpy() for layer, head in config.heads_by_ring()], 1).astype(np.int32)


@torch.no_grad()
def sequence(model: Model, name: str, ids: np.ndarray, last_rows: int) -> dict:
    """The tensors of a sequence: log-probabilities of each next token, the last `last_rows` rows whole, and codes."""
    hidden, codes = model(torch.from_numpy(ids))
    targets, last = [], []
    for begin in range(0, len(ids), ROWS):
        rows = model.logits(hidden[begin:begin + ROWS]).log_softmax(-1)
        following = torch.from_numpy(ids[begin + 1:begin + 1 + ROWS])
        targets.append(rows[torch.arange(len(following)), following])
        last.append(rows[max(0, len(ids) - last_rows - begin):].float())
    return {f"{name}.tokens": ids.astype(np.int32), f"{name}.codes": columns(model.config, codes),
            f"{name}.target_logprobs": torch.cat(targets).float().numpy(), f"{name}.last_logprobs": torch.cat(last).numpy()}


@torch.no_grad()
def short(model: Model, token: int) -> dict:
    hidden, codes = model(torch.tensor([token]))
    return {"short.tokens": np.array([token], np.int32), "short.codes": columns(model.config, codes),
            "short.logprobs": model.logits(hidden).log_softmax(-1).float().numpy()}


@torch.no_grad()
def continuation(model: Model, prompt: np.ndarray, count: int, least_gap: float) -> tuple:
    """-> (tensors of `greedy`, the smallest gap of its two best candidates); ({}, gap) as soon as the gap is below least_gap"""
    tokens, chosen, gap = list(prompt), [], np.inf
    for _ in range(count):
        row = model.logits(model(torch.tensor(tokens)).hidden[-1]).log_softmax(-1)
        best = row.topk(2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        if gap < least_gap:
            return {}, gap
        tokens.append(int(best.indices[0]))
        chosen.append(float(best.values[0]))
    codes = columns(model.config, model(torch.tensor(tokens)).codes)
    return {"greedy.prompt_tokens": np.array(prompt, np.int32), "greedy.tokens": np.array(tokens[len(prompt):], np.int32),
            "greedy.logprobs": np.array(chosen, np.float32), "greedy.codes": codes}, gap


def clearest(model: Model, ids: np.ndarray) -> tuple:
    """-> (tensors of the continuation whose two best candidates stay furthest apart, their smallest gap)"""
    best = ({}, 0.0)
    for begin in range(0, max(1, len(ids) - PROMPT), max(1, (len(ids) - PROMPT) // GREEDY_TRIES)):
        found = continuation(model, ids[begin:begin + PROMPT], CONTINUATION, best[1])
        best = found if found[0] else best
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=1024, help="of `text` (default: %(default)s)")
    parser.add_argument("--last-rows", type=int, default=64, help="whole rows kept of `text` (default: %(default)s)")
    parser.add_argument("--state", choices=list(STATES), default="float32", help="what the state keeps keys and values as")
    arguments = parser.parse_args()
    model = load_model(arguments.model_dir, STATES[arguments.state])
    if not model.config.heads_by_ring():
        parser.error(f"{arguments.model_dir}: no head of the model has codes")
    ids = read_ids(arguments.model_dir, [arguments.text])[0][:arguments.tokens]
    greedy, gap = clearest(model, ids)
    tensors = {**sequence(model, "text", ids, arguments.last_rows), **short(model, int(ids[0])), **greedy}
    safetensors.save(arguments.out, tensors)
    print(f"{arguments.out}: the two best candidates of the greedy continuation are at least {gap:.4f} apart")


if __name__ == "__main__":
    main()
