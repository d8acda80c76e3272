"""Measures how well a model predicts: texts, couplets or images, depending on its tokenizer.

    python3 -m models.training.evaluate MODEL_DIR TEXT... [--no-accumulator] [--tokens N]
    python3 -m models.training.evaluate MODEL_DIR PAIRS.tsv.xz [--count N] [--answers N] [--tones Unihan_Readings.txt]
    python3 -m models.training.evaluate MODEL_DIR IMAGES-idx3-ubyte.xz [--count N]

Texts: bits per byte, with the whole context carried from the first token to the last. Couplets: perplexity of the second lines'
characters, and how well sampled answers keep the rules, compared with people's (couplet_rules.py). Images: bits per dimension.
"""

import argparse
import math
import pathlib

import numpy as np

from models.training.data.couplet_rules import read_tones, rules_kept
from models.training.data.couplets import answers, read_pairs, second_lines
from models.training.data.images import image_bits, read_images, sequences_of, shape_of
from models.training.data.tokenizer import load_tokenizer
from models.training.export import load_model
from models.training.token_bits import token_bits


def by_position(bits: np.ndarray, bounds=(0, 256, 1024, 4096, 16384, 65536, 1 << 40)):
    """Mean bits per token within ranges of position: [(first, last, bits)]."""
    ranges = [(low, min(high, len(bits))) for low, high in zip(bounds, bounds[1:]) if low < len(bits)]
    return [(low, high, float(bits[low:high].mean())) for low, high in ranges]


def evaluate_text(model, file, arguments):
    tokenizer = load_tokenizer(arguments.model_dir, model.config)
    ids = np.concatenate([[tokenizer.end], tokenizer.encode(file.read_bytes().decode("utf-8"))])[:arguments.tokens]
    size = len(tokenizer.decode(ids).encode())
    bits = token_bits(model, ids, not arguments.no_accumulator)
    print(f"{file.name}: {bits.sum() / size:.4f} bits per byte, {len(bits)} tokens, {size} bytes")
    for low, high, mean in by_position(bits):
        print(f"  positions {low:>6} to {high:>6}: {mean:.4f} bits per token")


def evaluate_couplets(model, file, arguments):
    characters = load_tokenizer(arguments.model_dir, model.config)
    pairs = read_pairs(file)[:arguments.count]
    found = second_lines(model, characters, pairs)
    print(f"{file.name}: {len(pairs)} couplets, {found['characters']} characters in their second lines")
    print(f"  perplexity of a character {math.exp(found['nats']):.3f}, the ends counted too "
          f"{math.exp(found['nats_with_end']):.3f}")
    asked = pairs[:arguments.answers]
    if asked:
        tones = read_tones(arguments.tones) if arguments.tones else {}
        given = answers(model, characters, [first for first, _ in asked], arguments.temperature, arguments.top_p)
        print(f"  rules kept in {len(asked)} answers (temperature {arguments.temperature}, top_p {arguments.top_p}), "
              "and in people's:")
        ours = rules_kept([(first, answer) for (first, _), answer in zip(asked, given)], tones)
        for rule, value, theirs in zip(ours._fields, ours, rules_kept(asked, tones)):
            if theirs is not None:
                print(f"  {rule.replace('_', ' '):>16} {percent(value)} {percent(theirs)}")


def percent(share) -> str:
    return "     -" if share is None else f"{100 * share:5.1f}%"


def evaluate_images(model, file, arguments):
    tokenizer = model.config.tokenizer
    images = sequences_of(read_images(file, shape_of(tokenizer))[:arguments.count], tokenizer["levels"])
    bits = image_bits(model, images)
    error = bits.std() / math.sqrt(len(bits))
    print(f"{file.name}: {bits.mean():.4f} bits per dimension, standard error {error:.4f}, {len(bits)} images")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--no-accumulator", action="store_true", help="text: see only positions within reach")
    parser.add_argument("--tokens", type=int, default=None, help="text: stop after so many tokens of each file")
    parser.add_argument("--count", type=int, default=None, help="couplets, images: the first so many of each file")
    parser.add_argument("--answers", type=int, default=0, help="couplets: sample answers to so many first lines")
    parser.add_argument("--tones", type=pathlib.Path,
                        help="couplets: Unicode's Unihan_Readings.txt, also as .bz2, for the rules of tones")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-p", type=float, default=0.9)
    arguments = parser.parse_args()
    model = load_model(arguments.model_dir)
    if not model.causal:
        parser.error(f"{arguments.model_dir}: a {model.config.model_type} predicts no next token")
    kinds = {"characters": evaluate_couplets, "pixels": evaluate_images}
    for file in arguments.files:
        kinds.get(model.config.tokenizer["type"], evaluate_text)(model, file, arguments)


if __name__ == "__main__":
    main()
