"""Finds the codes of a softmax model, without training it. write_directory makes a converted directory of them.

    python3 -m models.conversion.find_codes SOURCE CODES.safetensors --text FILE... [--tokens 8192] [--codes 512] [--ring 512]

It works layer by layer on what the model sees of the texts: codewords by k-means (codewords.py), then scores by a fit of the
layer's attention (layer_fit.py). A call that was stopped is resumed at its layer by the same call: what was found so far lies
beside CODES, in a folder that is removed at the end. The same call always makes the same bytes.

TEXT is tokenized by the built programs (served.py). For a directory without a tokenizer it holds ids, separated by spaces.
"""

import argparse
import fcntl
import hashlib
import json
import pathlib
import shutil
import sys
from typing import List, NamedTuple

import torch

from models.conversion import codewords, cores, layer_fit
from models.conversion.calibration import Calibration, Seen
from models.conversion.codes_file import NAMES, save_codes
from models.conversion.config import RING_STEP, ConfigError, Conversion, check_conversion, load_config
from models.conversion.directory import load_model
from models.conversion.model import Model
from models.conversion.texts import TextError, read_ids
from models.training.files import safetensors
from models.training.progress import Progress

PARTS_VERSION = 1  # the version of what a folder of parts holds, and of how it is found
SEEDS = 1 << 16  # more than a layer has kv heads


class PartsError(ValueError):
    """The folder of parts cannot be used; the message names it."""


class Wanted(NamedTuple):
    codes: int  # for each kv head
    ring: int
    context: int  # the context that the model was trained with
    fit_steps: int  # for each layer
    seed: int


class Parts:
    """A folder with what is found so far: a file for each layer, and the rows before the next layer. Parts of other settings are
    deleted."""

    def __init__(self, folder: pathlib.Path, settings: dict):
        self.folder, told = folder, folder / "settings.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = open(folder / "lock", "w", encoding="utf-8")
        try:
            fcntl.lockf(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PartsError(f"{folder}: another call is at work there") from None
        if not is_of(told, settings):
            for path in set(folder.iterdir()) - {folder / "lock"}:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            write_whole(told, json.dumps(settings))

    def remove(self) -> None:
        (self.folder / "settings.json").unlink()  # first: if the rest fails, what is left belongs to no settings
        shutil.rmtree(self.folder)

    def layers(self) -> int:
        """How many layers are found, counted from the first."""
        return max((int(path.stem.split("-")[1]) + 1 for path in self.folder.glob("rows-*.safetensors")), default=0)

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


def is_of(told: pathlib.Path, settings: dict) -> bool:
    try:
        return json.loads(told.read_text(encoding="utf-8")) == settings
    except (FileNotFoundError, ValueError):
        return False


def write_whole(path: pathlib.Path, text: str) -> None:
    """Writes the file completely or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.rename(path)


def settings_of(texts: List[torch.Tensor], wanted: Wanted, source: pathlib.Path, names: List[str] = ()) -> dict:
    """The settings to which a folder of parts belongs: texts, what was asked for, and the files of the model."""
    files = {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in sorted(source.glob("*.safetensors"))}
    config = hashlib.sha256((source / "config.json").read_bytes()).hexdigest()
    return {"version": PARTS_VERSION, "ids": [hashlib.sha256(text.numpy().tobytes()).hexdigest() for text in texts],
            "names": list(names), **wanted._asdict(), "source": str(source.absolute()), "files": files, "config": config}


def find_codes(model: Model, texts: List[torch.Tensor], wanted: Wanted, parts: Parts, progress: Progress) -> dict:
    """-> tensors by the names of a codes file. `model` is in float32 and not converted; each of `texts` has at least two rings.

    TextError if the texts have fewer tokens than there are codes.
    """
    tokens = sum(map(len, texts)) - len(texts)
    if tokens < wanted.codes:
        raise TextError(f"the texts have {tokens} tokens beside their first ones, must have at least one a code, {wanted.codes}")
    first = parts.layers()
    if first:
        progress.note(f"{first} layers are there already")
    calibration = Calibration(model, texts, wanted.context, first, parts.rows(first))
    for seen in calibration:
        tensors, fitted = find_layer(model, seen, calibration.positions, wanted)
        calibration.advance()
        parts.keep(seen.number, tensors, calibration.rows)
        progress.note(f"layer {seen.number}: error {fitted.before:.4f} -> {fitted.after:.4f}")
        progress.show((seen.number + 1) / model.config.layers, "layers", {})
    return parts.all(model.config.layers)


def find_layer(model: Model, seen: Seen, positions: list, wanted: Wanted) -> tuple:
    """-> (tensors by name, the fit)"""
    def words_of(head: int) -> codewords.Words:
        own = [text[head] for text in seen.texts]
        return codewords.find(own, positions, wanted.ring, wanted.codes, generator(wanted.seed, seen.number, head))

    words = cores.each(words_of, range(model.config.kv_heads))
    o_proj = model.model.layers[seen.number].self_attn.o_proj.weight.detach()
    fitted = layer_fit.fit(seen.texts, positions, words, o_proj, wanted.ring, wanted.fit_steps,
                           generator(wanted.seed, seen.number, SEEDS - 1))
    values = {"assign": torch.stack([word.assign for word in words]), "metric": torch.stack([word.metric for word in words]),
              **fitted.scores._asdict()}
    return {f"layers.{seen.number}.{name}": values[name].numpy() for name in NAMES}, fitted


def generator(seed: int, layer: int, number: int) -> torch.Generator:
    """A random generator for each layer, so that a resumed call draws the same numbers."""
    return torch.Generator().manual_seed((seed * SEEDS + layer) * SEEDS + number)


def context_of(source: pathlib.Path, given: int = None) -> int:
    context = given or json.loads((source / "config.json").read_text(encoding="utf-8")).get("max_position_embeddings")
    if context is None:
        raise ConfigError(f"{source / 'config.json'} has no max_position_embeddings: --context must say what the model was "
                          "trained with")
    return context


def check_source(source: pathlib.Path, wanted: Wanted, wide_ring: int = None) -> None:
    """ConfigError if the model cannot be converted in this way."""
    if wanted.ring % RING_STEP or not 0 < wanted.ring < wanted.context:
        raise ConfigError(f"the ring is {wanted.ring}, must be a multiple of {RING_STEP} below {wanted.context}")
    config = load_config(source)
    if config.conversion:
        raise ConfigError(f"{source}: is a converted directory, must be the model that it was made of")
    wide = {} if wide_ring is None else {(0, 0): wide_ring}
    check_conversion(Conversion(wanted.codes, wanted.context, wanted.ring, wide, grow=frozenset()), config)


def read_texts(source: pathlib.Path, paths: list, longest: int, wanted: Wanted) -> List[torch.Tensor]:
    texts = []
    for path, ids in zip(paths, read_ids(source, paths)):
        ids = ids[:longest]
        if len(ids) < 2 * wanted.ring:
            raise TextError(f"{path} has {len(ids)} tokens, must have at least {2 * wanted.ring}, twice as many as the ring")
        texts.append(torch.from_numpy(ids))
    return texts


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokens", type=int, default=8192, help="of each text at most (default: %(default)s)")
    parser.add_argument("--context", type=int, help="tokens that the model was trained with (default: as its config.json says)")
    parser.add_argument("--codes", type=int, default=512, help="of each kv head (default: %(default)s)")
    parser.add_argument("--ring", type=int, default=512, help="recent keys that stay exact (default: %(default)s)")
    parser.add_argument("--fit-steps", type=int, default=200, help="of each layer (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)


def wanted_of(arguments) -> Wanted:
    return Wanted(arguments.codes, arguments.ring, context_of(arguments.source, arguments.context), arguments.fit_steps,
                  arguments.seed)


def run(arguments) -> None:
    wanted = wanted_of(arguments)
    check_source(arguments.source, wanted)
    texts = read_texts(arguments.source, arguments.text, min(arguments.tokens, wanted.context), wanted)
    parts = Parts(arguments.out.with_name(arguments.out.name + ".parts"), settings_of(texts, wanted, arguments.source))
    model = load_model(arguments.source, dtype=torch.float32)
    save_codes(arguments.out, find_codes(model, texts, wanted, parts, Progress(sys.stderr)))
    parts.remove()


def main():
    parser = argparse.ArgumentParser(prog="find_codes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, nargs="+", required=True, metavar="FILE")
    add_options(parser)
    try:
        run(parser.parse_args())
    except (ValueError, OSError) as error:
        sys.exit(f"find_codes: {error}")


if __name__ == "__main__":
    main()
