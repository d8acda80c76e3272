"""Makes families/ beside this file: make_families.py [NAME...], all without a name.

Small models with random weights, of every kind of attention in both blocks, and what they predict by the quadratic form in
float64. All that is random comes from numpy's generator with the seeds below.
"""

import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from models.training import expected  # noqa: E402
from models.training.config import ModelConfig  # noqa: E402
from models.training.export import tensors_of  # noqa: E402
from models.training.files import safetensors  # noqa: E402
from models.training.files.directory import write_model  # noqa: E402
from models.training.model import Model  # noqa: E402

KINDS = {
    "vq": dict(model_type="transformer_vq", n_code=11, block_len=16, mem_len=20),
    "vq_toeplitz": dict(model_type="transformer_vq", n_code=11, block_len=16, mem_len=20, position_bias="toeplitz"),
    "vq_rerope": dict(model_type="transformer_vq", n_code=11, block_len=16, mem_len=20, position_bias="rerope", pe_lam=300.0),
    "softmax": dict(model_type="softmax_transformer", mem_len=24),
    "softmax_toeplitz": dict(model_type="softmax_transformer", mem_len=24, position_bias="toeplitz"),
    "linear": dict(model_type="linear_transformer", pe_abs=True),
    "soft": dict(model_type="soft_codebook", pe_abs=True, n_code=11, sigma=0.6),
    "performer": dict(model_type="performer", pe_abs=True, n_feature=13),
    "encoder": dict(model_type="vq_encoder", pe_abs=True, n_code=11),
}
IN_TWO_FORMS = ("vq_toeplitz", "vq_rerope", "softmax_toeplitz", "soft", "performer", "encoder")
# Widths that fill no vector register; chunks of prompts that end within a page of 256 positions, and that do not.
SHAPE = dict(d_model=26, d_k=10, d_v=14, n_layer=2)
IDS = dict(vocab_size=61, tokenizer={"type": "ids"})
FORMS = {
    "gated_single": dict(vocab_size=259, pad_token_id=0, eos_token_id=1, unk_token_id=2, tokenizer={"type": "bytes"}),
    "gated_multi_query": dict(**IDS, n_head=4, n_kv_head=1, tie_word_embeddings=True, output_norm=True, logit_scale=0.6,
                              prefill_chunk=48),
    "standard_multi_head": dict(**IDS, block="standard", d_ff=42, n_head=3, tie_word_embeddings=True, output_norm=True,
                                logit_scale=0.6),
    "standard_grouped": dict(**IDS, block="standard", d_ff=42, n_head=4, n_kv_head=2, pe_abs=True, prefill_chunk=48),
}
TOKENS = {"text": 72, "long": 640, "constant": 24, "short": 1}
LAST_ROWS = 8  # of `long`
# Two codes of a key are never closer than this in squared distance: far above float32's rounding, so that no
# implementation can take the other one. 1e-4 of what is typical.
CLEAREST = 1e-4
# Likewise the two best tokens of the greedy continuation: ten times what float32 may do to a log-probability.
CLEAREST_TOKENS = 1e-3
PROMPTS, PROMPT, CONTINUATION = 12, 60, 24
TRIES = 50


def filled(config: ModelConfig, random) -> Model:
    """Weights at the scale of a trained model's, everything that begins at zero or one away from it."""
    model = Model(config).double().eval()
    with torch.no_grad():
        for layer in model.layers:
            if hasattr(layer, "features"):
                layer.features.copy_(torch.from_numpy(random.standard_normal(tuple(layer.features.shape))))
        for name, parameter in model.named_parameters():
            noise = torch.from_numpy(random.standard_normal(tuple(parameter.shape)))
            if name == "embedding.weight":
                parameter.copy_(0.3 * noise)  # what layers add outweighs the token itself
            elif parameter.dim() == 2 and name.split(".")[-1] == "weight":
                parameter.copy_(noise * parameter.shape[1] ** -0.5)
            elif name.endswith("norm.weight"):
                parameter.copy_(1 + 0.2 * noise)
            else:  # u, w, biases, the scale of absolute positions
                parameter.copy_(0.5 * noise)
        model.load_state_dict({name: rounded(value) for name, value in model.state_dict().items()})
        for number, layer in enumerate(model.layers):
            if hasattr(layer, "codebook"):
                place_codes(model, number, random)
    return model


def rounded(value: torch.Tensor) -> torch.Tensor:
    """As the file will hold it."""
    return value.float().to(value.dtype)


def place_codes(model: Model, number: int, random) -> None:
    """Puts the codes of a layer onto keys that it makes of random tokens."""
    codebook, config = model.layers[number].codebook, model.config
    ids = random.permutation(config.vocab_size)[None, :60]  # each once: one token has one key in the first layer
    keys = model(torch.from_numpy(ids)).seen[number][0][0]  # [G, T, K]
    for group in range(config.n_kv_head):
        picks = torch.from_numpy(random.choice(keys.shape[1], config.n_code, replace=False))
        count = rounded(torch.from_numpy(random.uniform(0.5, 20, config.n_code)))
        codebook.count[group] = count
        codebook.sum[group] = rounded(keys[group, picks] * count[:, None])


def sequences(model: Model, random) -> dict:
    vocab = model.config.vocab_size
    ids = {name: random.integers(0, vocab, count) for name, count in TOKENS.items()}
    ids["constant"][:] = ids["constant"][0]
    if not model.causal:
        return vectors(model, ids)
    tensors = {}
    for name in ("text", "constant", "short"):
        rows = expected.log_probabilities(model, ids[name])
        tensors.update({f"{name}.tokens": ids[name].astype(np.int32), f"{name}.logprobs": rows.astype(np.float32)})
    tensors.update(expected.sequence(model, "long", ids["long"], LAST_ROWS))
    return {**tensors, **most_varied(greedy(model, random.integers(0, vocab, PROMPT)) for _ in range(PROMPTS))}


@torch.no_grad()
def vectors(model: Model, ids: dict) -> dict:
    """What an encoder makes of sequences: NAME.vectors [T, D]."""
    model.train()  # the quadratic form
    tensors = {}
    for name, sequence in ids.items():
        encoded = model.encode(torch.from_numpy(sequence)[None])[0].numpy()
        tensors.update({f"{name}.tokens": sequence.astype(np.int32), f"{name}.vectors": encoded.astype(np.float32)})
    return tensors


def greedy(model: Model, prompt) -> dict:
    """The continuation of a prompt; nothing if a choice in it is not clear."""
    tokens, chosen = list(prompt), []
    while len(chosen) < CONTINUATION:
        row = expected.log_probabilities(model, np.array(tokens))[-1]
        second, first = np.argsort(row)[-2:]
        if row[first] - row[second] < CLEAREST_TOKENS:
            return {}
        tokens.append(first)
        chosen.append(row[first])
    return {"greedy.prompt_tokens": prompt.astype(np.int32), "greedy.tokens": np.array(tokens[PROMPT:], np.int32),
            "greedy.logprobs": np.array(chosen, np.float32)}


def most_varied(continuations) -> dict:
    return max(continuations, key=lambda c: len(set(c["greedy.tokens"].tolist())) if c else 0)


@torch.no_grad()
def closest_codes(model: Model, tensors: dict) -> float:
    """The smallest difference of a key's squared distances to its nearest two codes; infinite without codes."""
    fed = [value for name, value in tensors.items() if name.endswith(".tokens") and not name.startswith("greedy")]
    if model.causal:
        fed.append(np.concatenate([tensors["greedy.prompt_tokens"], tensors["greedy.tokens"]]))
    smallest = np.inf
    for ids in fed:
        seen = model(torch.from_numpy(ids.astype(np.int64))[None]).seen
        for layer, what in zip(model.layers, seen):
            if hasattr(layer, "codebook") and model.config.model_type != "soft_codebook":
                codes = layer.codebook.codebook()  # [G, S, K]
                distances = (what[0][0][:, :, None] - codes[:, None]).square().sum(-1).sort(-1).values
                smallest = min(smallest, float((distances[..., 1] - distances[..., 0]).min()))
    return smallest


def make(kind: str, form: str) -> None:
    for seed in range(TRIES):
        random = np.random.default_rng([seed, *f"{kind}_{form}".encode()])
        model = filled(ModelConfig(**{**SHAPE, **KINDS[kind], **FORMS[form]}), random)
        tensors = sequences(model, random)
        clear = not model.causal or "greedy.tokens" in tensors
        margin = closest_codes(model, tensors) if clear else 0
        if margin > CLEAREST:
            break
    else:
        raise RuntimeError(f"{kind}_{form}: none of {TRIES} seeds gives clear choices")
    out = HERE / "families" / f"{kind}_{form}"
    write_model(out, model.config, tensors_of(model))
    safetensors.save(out / "expected.safetensors", tensors)
    print(f"{out.name}: seed {seed}, codes {margin:.1e} apart", flush=True)


def main():
    torch.set_num_threads(1)
    names = [(kind, form) for kind in KINDS for form in FORMS
             if kind not in IN_TWO_FORMS or form in ("gated_multi_query", "standard_grouped")]
    for kind, form in names:
        if len(sys.argv) == 1 or f"{kind}_{form}" in sys.argv[1:]:
            make(kind, form)


if __name__ == "__main__":
    main()
