"""Samples text: python3 -m models.training.generate MODEL_DIR --prompt TEXT [--tokens N] [--temperature T] [--top-p P]

A simple, slow sampler to look at a model while it trains; the server is fast.
"""

import argparse
import pathlib

import torch

from models.training.data.tokenizer import load_tokenizer
from models.training.export import load_model


@torch.no_grad()
def generate(model, prompt, count: int, temperature: float = 1.0, top_p: float = 1.0, seed: int = 0) -> list:
    """-> the `count` token ids after the prompt. The state is kept at multiples of the granule; later tokens are run again."""
    random = torch.Generator().manual_seed(seed)
    length = model.granule
    tokens, state, done = list(prompt), model.initial_state(1), 0
    while len(tokens) < len(prompt) + count:
        whole = len(tokens) // length * length
        if whole > done:
            output = model(torch.tensor([tokens[done:whole]]), state)
            state, done = output.state, whole
        if len(tokens) > done:
            output = model(torch.tensor([tokens[done:]]), state)
        tokens.append(int(sample(output.logits[0, -1].float(), temperature, top_p, random)))
    return tokens[len(prompt):]


def sample(logits, temperature: float, top_p: float, random) -> torch.Tensor:
    """Draws a token from each row of logits: [..., vocab] -> [...]."""
    if temperature == 0:
        return logits.argmax(-1)
    chances, order = (logits / temperature).softmax(-1).sort(descending=True)
    chances = chances * (chances.cumsum(-1) - chances < top_p)
    picked = torch.multinomial(chances.reshape(-1, chances.shape[-1]), 1, generator=random)
    return order.gather(-1, picked.reshape(*chances.shape[:-1], 1))[..., 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("--prompt", default="")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    model = load_model(arguments.model_dir)
    if not model.causal:
        parser.error(f"{arguments.model_dir}: a {model.config.model_type} predicts no next token")
    pieces = load_tokenizer(arguments.model_dir, model.config)
    prompt = [pieces.end] + pieces.encode(arguments.prompt).tolist()
    ids = generate(model, prompt, arguments.tokens, arguments.temperature, arguments.top_p, arguments.seed)
    print(arguments.prompt + pieces.decode(ids))


if __name__ == "__main__":
    main()
