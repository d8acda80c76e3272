"""Finds the codes of a softmax model, without training it: what write_directory makes a converted directory of.

    python3 -m models.conversion.find_codes SOURCE CODES.safetensors --text FILE... [--tokens 8192] [--codes 512] [--ring 256]

Layer by layer, of what the model sees of the texts: codewords by k-means (codewords.py), then scores by a fit of the layer's
attention (layer_fit.py). One that was stopped goes on with the layer at which it was: what it has lies beside CODES, in a
folder that is gone when all is there. The same call makes the same bytes again.

TEXT is tokenized by PyPI's `tokenizers`; of a directory without a tokenizer.json it holds ids, separated by spaces.
"""

import argparse
import hashlib
import json
import pathlib
import shutil
import sys

import torch

from models.conversion import codewords, layer_fit
from models.conversion.calibration import Calibration, Seen
from models.conversion.codes_file import NAMES
from models.conversion.config import RING_STEP, ConfigError
from models.conversion.directory import load_model
from models.conversion.texts import read_ids
from models.training.files import safetensors
from models.training.progress import Progress

SEEDS = 1 << 16  # more than a layer has kv heads


class TextError(ValueError):
    """A text cannot be used; the message names it and what would be right."""


class Parts:
    """What is found so far: a file of each layer, and the rows ahead of the next. Of another call's settings: nothing."""

    def __init__(self, folder: pathlib.Path, settings: dict):
        self.folder = folder
        told = folder / "settings.json"
        if told.exists() and json.loads(told.read_text(encoding="utf-8")) != settings:
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        told.write_text(json.dumps(settings), encoding="utf-8")

    def layers(self) -> int:
        """That are found, from the first on, and behind which rows are there."""
        done = [int(path.stem.split("-")[1]) + 1 for path in self.folder.glob("rows-*.safetensors")]
        return max(done, default=0)

    def rows(self, layers: int) -> list:
        if layers == 0:
            return None
        found = safetensors.load(self.folder / f"rows-{layers - 1}.safetensors")
        return [torch.from_numpy(found[f"{number}"]) for number in range(len(found))]

    def keep(self, number: int, tensors: dict, rows: list) -> None:
        safetensors.save(self.folder / f"layer-{number}.safetensors", tensors)
        safetensors.save(self.folder / f"rows-{number}.safetensors", {f"{i}": x.numpy() for i, x in enumerate(rows)})
        (self.folder / f"rows-{number - 1}.safetensors").unlink(missing_ok=True)

    def all(self, layers: int) -> dict:
        return {name: values for number in range(layers)
                for name, values in safetensors.load(self.folder / f"layer-{number}.safetensors").items()}


def find_layer(model, seen: Seen, positions: list, arguments) -> tuple:
    """-> (tensors by name, the fit)"""
    words = []
    for head in range(model.config.kv_heads):
        generator = torch.Generator().manual_seed((arguments.seed * SEEDS + seen.number) * SEEDS + head)
        words.append(codewords.find([text[head] for text in seen.texts], positions, arguments.ring, arguments.codes, generator))
    generator = torch.Generator().manual_seed((arguments.seed * SEEDS + seen.number) * SEEDS + SEEDS - 1)
    o_proj = model.model.layers[seen.number].self_attn.o_proj.weight.detach()
    fitted = layer_fit.fit(seen.texts, positions, words, o_proj, arguments.ring, arguments.fit_steps, generator)
    values = {"assign": torch.stack([word.assign for word in words]), "metric": torch.stack([word.metric for word in words]),
              **fitted.scores._asdict()}
    return {f"layers.{seen.number}.{name}": values[name].numpy() for name in NAMES}, fitted


def find_codes(arguments) -> None:
    with open(arguments.source / "config.json", encoding="utf-8") as file:
        context = arguments.context or json.load(file).get("max_position_embeddings")
    if context is None:
        raise ConfigError(f"{arguments.source / 'config.json'} has no max_position_embeddings: --context must say what the model "
                          "was trained with")
    if arguments.ring % RING_STEP or not 0 < arguments.ring < context:
        raise ConfigError(f"--ring is {arguments.ring}, must be a multiple of {RING_STEP} below {context}")
    model = load_model(arguments.source).float()
    if model.config.conversion:
        raise ConfigError(f"{arguments.source}: is a converted directory, must be the model that it was made of")
    texts = read_texts(arguments, min(arguments.tokens, context))
    settings = {"ids": [hashlib.sha256(text.numpy().tobytes()).hexdigest() for text in texts], "context": context,
                **{name: getattr(arguments, name) for name in ("codes", "ring", "fit_steps", "seed")},
                "source": str(arguments.source.absolute())}
    parts = Parts(arguments.out.with_name(arguments.out.name + ".parts"), settings)
    first, progress = parts.layers(), Progress(sys.stderr)
    if first:
        progress.note(f"{first} layers are there already")
    calibration = Calibration(model, texts, context, first, parts.rows(first))
    for seen in calibration:
        tensors, fitted = find_layer(model, seen, calibration.positions, arguments)
        progress.note(f"layer {seen.number}: error {fitted.before:.4f} -> {fitted.after:.4f}")
        calibration.advance()
        parts.keep(seen.number, tensors, calibration.rows)
        progress.show((seen.number + 1) / model.config.layers, "layers", {})
    safetensors.save(arguments.out, parts.all(model.config.layers))
    shutil.rmtree(parts.folder)


def read_texts(arguments, longest: int) -> list:
    texts = []
    for path in arguments.text:
        ids = read_ids(arguments.source, path.read_text(encoding="utf-8"))[:longest]
        if len(ids) < 2 * arguments.ring:
            raise TextError(f"{path} has {len(ids)} tokens, must have at least {2 * arguments.ring}, twice as many as the ring")
        texts.append(torch.from_numpy(ids))
    if sum(map(len, texts)) - len(texts) < arguments.codes:
        raise TextError(f"the texts have {sum(map(len, texts))} tokens, must have more than there are codes, {arguments.codes}")
    return texts


def main():
    parser = argparse.ArgumentParser(prog="find_codes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--tokens", type=int, default=8192, help="of each text at most (default: %(default)s)")
    parser.add_argument("--context", type=int, help="tokens that the model was trained with (default: as its config.json says)")
    parser.add_argument("--codes", type=int, default=512, help="of each kv head (default: %(default)s)")
    parser.add_argument("--ring", type=int, default=256, help="recent keys that stay exact (default: %(default)s)")
    parser.add_argument("--fit-steps", type=int, default=200, help="of each layer (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        find_codes(arguments)
    except (ValueError, OSError) as error:
        sys.exit(f"find_codes: {error}")


if __name__ == "__main__":
    main()
