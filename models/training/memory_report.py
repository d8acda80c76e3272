"""Compares what models that were trained on the copy or the recall task remember, as Markdown and as JSON.

    python3 -m models.training.memory_report copy|recall RUN... [--farthest N] [--pairs N ...] [--json FILE]

Every RUN is a folder of models.training.train; the report names it by its folder. Prints how the share of right answers rose
during training. For recall it also prints how the share falls with the distance, also beyond distances seen in training, and
with the number of pairs. All runs must have been validated after the same steps, and models for recall must have been trained
with the same numbers of keys, values and noise tokens as are asked for.
"""

import argparse
import json
import pathlib

from models.training.data.memory_tasks import Recall
from models.training.families import build, read_config
from models.training.files import checkpoint

PAIRS_DISTANCE = 100  # tokens of noise in the table by the number of pairs
ASKED = Recall(batch_tokens=0)  # used to ask models, never to make batches


def load(run: pathlib.Path):
    saved = checkpoint.load(run / "best.pt")
    model = build(read_config(saved["config"]))
    model.load_state_dict(saved["model"])
    return model.eval()


def validations(run: pathlib.Path) -> dict:
    """step -> share of right answers; for a step that was done twice, the later value"""
    lines = (run / "validations.jsonl").read_text().splitlines()
    return {entry["step"]: 1 - entry["value"] for entry in map(json.loads, lines)}


def report_of(run: pathlib.Path, task: str, farthest: int, pairs) -> dict:
    model = load(run)
    found = {"name": run.name, "kind": model.config.model_type, "codes": model.config.n_code, "by_step": validations(run),
             "parameters": sum(parameter.numel() for parameter in model.parameters())}
    if task == "recall":
        if model.config.vocab_size != ASKED.vocab_size:
            raise ValueError(f"{run}: has {model.config.vocab_size} tokens, must have the {ASKED.vocab_size} of the recall task: "
                             f"1, {ASKED.keys} keys, {ASKED.values} values and {ASKED.noise} of noise")
        found["by_distance"] = {distance: 1 - wrong for distance, wrong in ASKED.by_distance(model, farthest).items()}
        found["by_pairs"] = {count: 1 - ASKED.wrong_at(model, PAIRS_DISTANCE, count) for count in pairs}
    return found


def table(first: str, runs, part: str) -> str:
    """A row for each run, a column for each key of its `part`. ValueError names a run that lacks a key which others have."""
    columns = sorted({column for run in runs for column in run[part]})
    if not columns:
        raise ValueError(f"no run has a share of what is {first}")
    for run in runs:
        missing = [f"{column:,}" for column in columns if column not in run[part]]
        if missing:
            raise ValueError(f"{run['name']} has no share of what is {first} {', '.join(missing)}, other runs have")
    lines = [f"| {first} | " + " | ".join(f"{column:,}" for column in columns) + " |", "|---|" + "---:|" * len(columns)]
    for run in runs:
        lines.append(f"| {run['name']} | " + " | ".join(f"{100 * run[part][column]:.1f}%" for column in columns) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("copy", "recall"))
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--farthest", type=int, default=10_000, help="recall: distance up to which is asked")
    parser.add_argument("--pairs", type=int, nargs="+", default=[1, 2, 4, 8, 16],
                        help=f"recall: numbers of pairs, asked for {PAIRS_DISTANCE} tokens later")
    parser.add_argument("--json", type=pathlib.Path, help="write all of it here, too")
    arguments = parser.parse_args()
    runs = [report_of(run, arguments.task, arguments.farthest, arguments.pairs) for run in arguments.runs]
    runs.sort(key=lambda run: (run["kind"], run["codes"]))
    if arguments.json:
        arguments.json.write_text(json.dumps({"task": arguments.task, "runs": runs}, indent=2) + "\n")
    print(table("right after step", runs, "by_step"))
    if arguments.task == "recall":
        print("\n" + table(f"{ASKED.pairs} pairs, right at distance", runs, "by_distance"))
        print("\n" + table(f"right at distance {PAIRS_DISTANCE}, pairs", runs, "by_pairs"))


if __name__ == "__main__":
    main()
