"""Makes hugging_face/converted_* beside this file: make_conversion.py [NAME...], all without a name.

Small models with random weights whose whole state stays constant (models/conversion), and what they predict by the quadratic
form in float64. All that is random comes from numpy's generator with the seeds below.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from models.conversion import expected  # noqa: E402
from models.conversion.config import Config, read_config  # noqa: E402
from models.conversion.directory import load_model  # noqa: E402
from models.conversion.model import Model  # noqa: E402
from models.conversion.write_directory import write_directory  # noqa: E402
from models.training.files import safetensors  # noqa: E402

BYTES_AND_END = 257
# Rings of one length and of two in a layer, as long as the trained context, and no multiple of a chunk; one to three query heads
# read a kv head.
MODELS = {
    "converted_llama": dict(
        fields=dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=BYTES_AND_END, hidden_size=32,
                    intermediate_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
                    tie_word_embeddings=True, rope_theta=10000.0, eos_token_id=BYTES_AND_END - 1, prefill_chunk=64),
        codes=12, context=256, ring=64, wide={(1, 0): 128, (1, 1): 128, (2, 1): 128}),
    "converted_qwen3": dict(
        fields=dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"], vocab_size=61, hidden_size=30, intermediate_size=42,
                    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=24, attention_bias=True,
                    tie_word_embeddings=False, prefill_chunk=96,
                    rope_parameters={"rope_type": "default", "rope_theta": 50000.0, "partial_rotary_factor": 0.5}),
        codes=11, context=192, ring=64, wide={(1, 0): 192, (1, 1): 128}),
    "converted_grow": dict(
        fields=dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], vocab_size=BYTES_AND_END, hidden_size=32,
                    intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
                    tie_word_embeddings=True, eos_token_id=BYTES_AND_END - 1, prefill_chunk=64, rope_theta=10000.0,
                    rope_scaling={"rope_type": "linear", "factor": 2.0}),
        codes=9, context=128, ring=64, wide={(1, 1): 128}, grow={(0, 1), (1, 0)}),
}
COMMON = dict(hidden_act="silu", max_position_embeddings=100000, rms_norm_eps=1e-5, torch_dtype="float32")
TEXT, LAST_ROWS = 700, 16
PROMPTS, PROMPT, CONTINUATION = 6, 150, 120  # past rings and trained contexts while it decodes
KEYS = 500  # that codewords are chosen from
# Two codes of a key are never closer than this in squared distance: far above float32's rounding, so that no implementation can
# take the other one. Likewise the two best tokens of the continuation.
CLEAREST, CLEAREST_TOKENS = 1e-4, 1e-3
TRIES = 50


def fill(model: Model, random) -> None:
    """Weights at the scale of a trained model's, everything that begins at zero or one away from it."""
    for name, parameter in model.named_parameters():
        noise = torch.from_numpy(random.standard_normal(tuple(parameter.shape)))
        if "norm" in name:
            value = 1 + 0.2 * noise
        elif "embed_tokens" in name or parameter.dim() == 1:
            value = 0.5 * noise
        else:
            sharper = 2 if "q_proj" in name else 1  # attention that is not to every key alike
            value = sharper * noise * parameter.shape[-1] ** -0.5
        parameter.copy_(rounded(value))


def rounded(value: torch.Tensor) -> torch.Tensor:
    """As the file will hold it."""
    return value.float().to(value.dtype)


@torch.no_grad()
def codes_near_keys(model: Model, count: int, random) -> dict:
    """Codewords among the keys that the softmax model makes of random tokens, and all that a codes file has."""
    config, tensors = model.config, {}

    def near(shape, center, deviation):
        return (center + deviation * random.standard_normal(shape)).astype(np.float32)

    for number, keys in enumerate(keys_of(model, random.integers(0, config.vocab, KEYS))):
        picks = np.stack([own[random.choice(KEYS, count, replace=False)] for own in keys])  # [G, S, K]
        square = (config.head_dim, config.head_dim)
        layer = {"assign": near(picks.shape, picks, 0.3), "score": near(picks.shape, picks, 0.3),
                 "metric": near((config.kv_heads, *square), np.eye(config.head_dim), 0.1),
                 "map": near((config.heads, *square), np.eye(config.head_dim), 0.1), "bias": near(config.heads, 0, 0.3)}
        tensors.update({f"layers.{number}.{name}": values for name, values in layer.items()})
    return tensors


def keys_of(model: Model, tokens: np.ndarray) -> list:
    """Of each layer, before rotation: [G, T, K]"""
    found = []

    def look(attention, inputs):
        found.append(np.stack([heads.keys.numpy() for heads in attention.heads(inputs[0])]))

    hooks = [layer.self_attn.register_forward_pre_hook(look) for layer in model.model.layers]
    model(torch.from_numpy(tokens))
    for hook in hooks:
        hook.remove()
    return found


def write_source(folder: pathlib.Path, fields: dict, model: Model) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**fields, **COMMON}, indent=2) + "\n")
    safetensors.save(folder / "model.safetensors", {name: value.float().numpy() for name, value in model.state_dict().items()},
                     {"format": "pt"})
    if fields["vocab_size"] == BYTES_AND_END:
        (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer(), indent=2) + "\n")


def byte_tokenizer() -> dict:
    """A token for each byte, spelled as GPT-2 does, and one that ends a text."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + n) for n, byte in enumerate(others)}}
    end = {"id": 256, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
           "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "vocab": {spelled[byte]: byte for byte in range(256)}, "merges": []}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}


def sequences(model: Model, random) -> dict:
    """Nothing if no continuation is clear."""
    prompts = [random.integers(0, model.config.vocab, PROMPT) for _ in range(PROMPTS)]
    found = [expected.continuation(model, prompt, CONTINUATION, CLEAREST_TOKENS)[0] for prompt in prompts]
    varied = max(found, key=lambda tensors: len(set(tensors["greedy.tokens"].tolist())) if tensors else 0)
    if not varied:
        return {}
    text = random.integers(0, model.config.vocab, TEXT)
    return {**expected.sequence(model, "text", text, LAST_ROWS), **expected.short(model, int(text[1])), **varied}


@torch.no_grad()
def closest_codes(model: Model, tensors: dict) -> float:
    """The smallest difference of a key's squared distances to its nearest two codewords."""
    smallest = np.inf
    for ids in (tensors["text.tokens"], np.concatenate([tensors["greedy.prompt_tokens"], tensors["greedy.tokens"]])):
        keys = keys_of(model, ids.astype(np.int64))
        for layer, head in model.config.heads_by_ring():
            codebook = model.model.layers[layer].self_attn.conversion
            apart = (torch.from_numpy(keys[layer][head, 1:, None]) - codebook.assign[head]) @ codebook.metric[head]
            nearest = apart.square().sum(-1).sort(-1).values
            smallest = min(smallest, float((nearest[:, 1] - nearest[:, 0]).min()))
    return smallest


def plain(fields: dict) -> Config:
    return read_config({**fields, **COMMON})


@torch.no_grad()
def make(name: str, fields: dict, codes: int, context: int, ring: int, wide: dict, grow=frozenset()) -> None:
    for seed in range(TRIES):
        random = np.random.default_rng([seed, *name.encode()])
        source = Model(plain(fields)).double().eval()
        fill(source, random)
        with tempfile.TemporaryDirectory() as folder:
            made, found = pathlib.Path(folder) / name, pathlib.Path(folder) / "codes.safetensors"
            write_source(pathlib.Path(folder) / "source", fields, source)
            safetensors.save(found, codes_near_keys(source, codes, random))
            write_directory(pathlib.Path(folder) / "source", found, made, ring, wide, grow, context)
            model = load_model(made)
            tensors = sequences(model, random)
            margin = closest_codes(model, tensors) if tensors else 0
            if margin > CLEAREST:
                safetensors.save(made / "expected.safetensors", tensors)
                put(made, HERE / "hugging_face" / name)
                print(f"{name}: seed {seed}, codes {margin:.1e} apart, "
                      f"{[len(set(column)) for column in tensors['text.codes'].T.tolist()]} of them in use", flush=True)
                return
    raise RuntimeError(f"{name}: none of {TRIES} seeds gives clear choices")


def put(made: pathlib.Path, place: pathlib.Path) -> None:
    place.mkdir(exist_ok=True)
    for file in made.iterdir():
        (place / file.name).write_bytes(file.read_bytes())


def main():
    torch.set_num_threads(1)
    for name, what in MODELS.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, **what)


if __name__ == "__main__":
    main()
