"""Gives a published softmax model a state that does not grow, without training it.

    scripts/convert-to-vq SOURCE OUT [--text FILE...] [--wide-heads auto|N] [--wide-ring N] [--grow] [--codes 512] [--ring 512]
                           [--distill-tokens N]

SOURCE is a directory in Hugging Face's form of a llama, mistral, qwen2 or qwen3. Finds codes (find_codes.py) and measures what it
costs to code each kv head (head_costs.py). The heads that cost most get a ring as long as the trained context or --wide-ring, or
with --grow pages of all their keys. Writes OUT with a report. --distill-tokens then fits scores from end to end (distill.py).
A conversion that was stopped is resumed by the same call: what it has so far lies beside OUT, in a folder that is removed when
OUT is written. The same call always makes the same bytes.

Without --text the texts of models/conversion/calibration_texts are read: novels, code and Markdown. The last --cost-tokens of
each text are not used to find codes: costs are measured on them, and on a passage that is repeated. What the conversion costs by
position is measured on the texts of --report-text (report.py). --no-report leaves this out; it takes as long as measuring costs.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import List

import numpy as np
import torch

from models.conversion import distill, head_choice, served
from models.conversion import report as by_position
from models.conversion.codes_file import save_codes
from models.conversion.config import Conversion
from models.conversion.directory import load_model
from models.conversion.find_codes import (SEEDS, Parts, Wanted, add_options, check_source, find_codes, generator, read_texts,
                                          settings_of, wanted_of, write_whole)
from models.conversion.head_costs import Costs, Measure, Text
from models.conversion.model import Model
from models.conversion.texts import AGAIN, BEGINNING, TextError, names_of
from models.conversion.write_directory import SourceError, write_directory
from models.training.files import safetensors
from models.training.progress import Progress

TEXTS = pathlib.Path(__file__).parent / "calibration_texts"
PLOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "bench" / "plot_conversion.py"
REPEATED, BETWEEN = 700, 900  # tokens of the repeated passage, and of the text between its two readings


def split(paths: list, texts: List[torch.Tensor], cost_tokens: int, wanted: Wanted) -> tuple:
    """-> (the texts on which codes are found, the texts on which costs are measured)"""
    if not wanted.ring < cost_tokens <= wanted.context:
        raise TextError(f"--cost-tokens is {cost_tokens}, must be above the ring, which is {wanted.ring}, and at most the trained "
                        f"context, {wanted.context}")
    least = 2 * wanted.ring + cost_tokens
    for path, text in zip(paths, texts):
        if len(text) < least:
            raise TextError(f"{path} has {len(text)} tokens, must have at least {least}: two rings and --cost-tokens")
    return [text[:len(text) - cost_tokens] for text in texts], [text[-cost_tokens:] for text in texts]


def cost_texts(names: List[str], texts: List[torch.Tensor], wanted: Wanted) -> List[Text]:
    """The texts on which costs are measured, scored behind the ring, and a repeated passage, scored in its second reading. None
    is longer than the trained context."""
    share = min(1.0, wanted.context / (2 * REPEATED + BETWEEN))
    repeated = int(share * REPEATED)
    passage, other = texts[0][:repeated], texts[-1] if len(texts) > 1 else texts[0][repeated:]
    between = other[:int(share * BETWEEN)]
    again = torch.cat([passage, between, passage])
    return [*(Text(name, text, slice(wanted.ring, None)) for name, text in zip(names, texts)),
            Text(AGAIN, again, slice(len(passage) + len(between) + BEGINNING, None))]


def measure_costs(model: Model, texts: List[Text], folder: pathlib.Path, progress: Progress) -> Costs:
    """Writes the costs to a file after each layer, so that a conversion that was stopped can be resumed."""
    told = folder / "costs.json"
    known = json.loads(told.read_text(encoding="utf-8")) if told.exists() else []
    measured = Measure(model, texts)
    for number, more in measured.layers(len(known)):
        known.append([more[number, head] for head in range(model.config.kv_heads)])
        write_whole(told, json.dumps(known))
        progress.show((number + 1) / model.config.layers, "costs of heads", {})
    return Costs(measured.base, {(layer, head): cost for layer, costs in enumerate(known) for head, cost in enumerate(costs)})


def report_of_costs(costs: Costs, chosen: list, wanted: Wanted, grow: bool, wide_ring: int) -> str:
    kind = "keep all their keys" if grow else f"keep a ring of {wide_ring} positions"

    def row(name: str, nats: dict, wide: str = "") -> str:
        return f"| {name} | {' | '.join(f'{nats[text]:.4f}' for text in costs.base)} | {wide} |"

    lines = ["# Report of the conversion", "",
             f"{len(chosen)} of {len(costs.more)} key/value heads {kind}; the others a ring of {wanted.ring}. Beyond their rings, "
             f"heads meet {wanted.codes} codes each.", "", "## What heads cost", "",
             "With one head coded and all others exact: nats a token more than the original's, the dearest first. The last row adds up "
             "what the heads cost that are not wide; a cost below zero counts as zero.", "",
             f"| layer.head | {' | '.join(costs.base)} | wide |", f"|---|{'---:|' * len(costs.base)}---|",
             row("the original's nats", costs.base)]
    lines += [row(f"{layer}.{head}", costs.more[layer, head], "yes" if (layer, head) in chosen else "")
              for layer, head in head_choice.order(costs)[:max(24, len(chosen))]]
    lines.append(row("all that are not wide", head_choice.estimate(costs, set(chosen))))
    return "\n".join(lines) + "\n"


def texts_of_report(arguments) -> List[by_position.Passage]:
    """The texts of the report. They are checked before the hours of work begin."""
    served.programs()
    return by_position.passages(arguments.source, arguments.report_text or by_position.shipped_texts(), arguments.report_tokens)


def report_by_position(source: pathlib.Path, model: pathlib.Path, texts: List[by_position.Passage], progress: Progress) -> str:
    """-> the report as Markdown. Also writes its pictures into the directory."""
    found = by_position.summary(texts, by_position.compare(source, model, texts, progress.note))
    (model / "report.json").write_text(json.dumps(found), encoding="utf-8")
    for what in ("bits", "bytes"):
        subprocess.run([sys.executable, PLOT, what, model / "report.json", model / f"report-{what}.svg"], check=True)
    return f"\n{by_position.markdown(found)}\n![](report-bits.svg)\n\n![](report-bytes.svg)\n"


def convert(arguments) -> None:
    if arguments.out.exists() or arguments.out.is_symlink():
        raise SourceError(f"{arguments.out}: is there already; name another directory, or remove it first")
    wanted, progress = wanted_of(arguments), Progress(sys.stderr)
    wide_ring = arguments.wide_ring or wanted.context
    check_source(arguments.source, wanted, None if arguments.grow else wide_ring)
    paths = arguments.text or sorted(TEXTS.glob("*.txt"))
    names = names_of(paths)
    longest = min(arguments.tokens, wanted.context) + arguments.cost_tokens
    for_codes, for_costs = split(paths, read_texts(arguments.source, paths, longest, wanted), arguments.cost_tokens, wanted)
    report_texts = [] if arguments.no_report else texts_of_report(arguments)
    parts = Parts(arguments.out.with_name(f".{arguments.out.name}.parts"),
                  settings_of([*for_codes, *for_costs], wanted, arguments.source, names))
    for_cost = cost_texts(names, for_costs, wanted)
    costs = find_codes_and_costs(arguments.source, for_codes, for_cost, wanted, parts, progress)
    chosen = head_choice.choose(costs, arguments.wide_heads)
    conversion = Conversion(codes=wanted.codes, context=wanted.context, ring=wanted.ring,
                            wide={} if arguments.grow else {head: wide_ring for head in chosen},
                            grow=frozenset(chosen if arguments.grow else ()))
    told = report_of_costs(costs, chosen, wanted, arguments.grow, wide_ring)
    codes = parts.folder / "codes.safetensors"
    if arguments.distill_tokens:
        codes, gaps = distill_codes(arguments.source, conversion, for_codes, for_cost, arguments.distill_tokens, wanted, parts, progress)
        told += gaps
    model = parts.folder / "model"
    shutil.rmtree(model, ignore_errors=True)
    write_directory(arguments.source, codes, model, conversion.ring, conversion.wide, conversion.grow, conversion.context)
    if report_texts:
        told += report_by_position(arguments.source, model, report_texts, progress)
    (model / "report.md").write_text(told, encoding="utf-8")
    os.rename(model, arguments.out)
    parts.remove()
    progress.note(f"{arguments.out}: {len(chosen)} of {len(costs.more)} heads are wide; report.md says what that costs")


def find_codes_and_costs(source: pathlib.Path, for_codes: List[torch.Tensor], for_costs: List[Text], wanted: Wanted, parts: Parts,
                         progress: Progress) -> Costs:
    """Writes codes.safetensors. The model is freed on return: memory may not suffice for it and for a model that is served."""
    model = load_model(source, dtype=torch.float32)
    tensors = find_codes(model, for_codes, wanted, parts, progress)
    save_codes(parts.folder / "codes.safetensors", tensors)
    model.convert(Conversion(codes=wanted.codes, context=wanted.context, ring=wanted.ring, wide={}, grow=frozenset()), tensors)
    return measure_costs(model, for_costs, parts.folder, progress)


def distill_codes(source: pathlib.Path, conversion: Conversion, texts: List[torch.Tensor], held_out: List[Text], tokens: int,
                  wanted: Wanted, parts: Parts, progress: Progress) -> tuple:
    """-> (the file of codes, the report's section about it)"""
    codes = safetensors.load(parts.folder / "codes.safetensors")
    original = load_model(source, dtype=torch.float32)
    converted = distill.trainable_copy(original, conversion, codes)
    before = distill.gaps(original, converted, held_out)
    steps = distill.pieces(texts, tokens, wanted.ring, generator(wanted.seed, SEEDS - 1, 0))
    settings = {"tokens": tokens, "conversion": conversion.to_json()}
    found = distill.distill(original, converted, steps, parts.folder, settings, progress)
    after = distill.gaps(original, converted, held_out)
    path = parts.folder / "distilled.safetensors"
    save_codes(path, {**{name: values.astype(np.float32) for name, values in codes.items()}, **found})
    return path, report_of_distillation(sum(map(len, (piece for step in steps for piece in step))), before, after)


def report_of_distillation(tokens: int, before: dict, after: dict) -> str:
    lines = ["", "## Distillation", "",
             f"Of {tokens:,} tokens, towards what the original predicts. Of the texts that costs are measured on, nats a token more than "
             "the original's; and the divergence from what it predicts. Where the first falls and the second does not, the model has "
             "adapted to a kind of text.", "", "| text | nats before | after | divergence before | after |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {name} | {gap.nats:.4f} | {after[name].nats:.4f} | {gap.divergence:.4f} | {after[name].divergence:.4f} |"
              for name, gap in before.items()]
    return "\n".join(lines) + "\n"


def count(text: str):
    if text == "auto":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"is {text!r}, must be auto or a number of heads")
    return int(text)


def tokens(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"is {text!r}, must be a number of tokens")
    return int(text)


def main():
    parser = argparse.ArgumentParser(prog="convert-to-vq", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, nargs="+", metavar="FILE")
    parser.add_argument("--cost-tokens", type=int, default=1536, help="of each text, for costs (default: %(default)s)")
    parser.add_argument("--wide-heads", type=count, default=None, metavar="auto|N", help="how many (default: auto, at most a sixth)")
    parser.add_argument("--wide-ring", type=int, help="of those (default: the trained context)")
    parser.add_argument("--grow", action="store_true", help="those keep all their keys in place of a ring")
    parser.add_argument("--distill-tokens", type=tokens, default=0, help="to fit scores from end to end on (default: %(default)s)")
    parser.add_argument("--report-text", type=pathlib.Path, nargs="+", metavar="FILE")
    parser.add_argument("--report-tokens", type=int, default=by_position.TOKENS, help="of each (default: %(default)s)")
    parser.add_argument("--no-report", action="store_true", help="only of what heads cost")
    add_options(parser)
    try:
        convert(parser.parse_args())
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"convert-to-vq: {error}")
    except KeyboardInterrupt:
        print("\nconvert-to-vq: stopped; the same call goes on where it was", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
