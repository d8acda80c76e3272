"""What models that were trained on the copy or the recall task remember, side by side, as Markdown and as JSON.

    python3 -m models.training.memory_report copy|recall RUN... [--farthest N] [--pairs N ...] [--json FILE]

Every RUN is a folder of models.training.train, named by its folder. Prints how the share of right answers rose over the
training, and of recall how it falls with the distance, also beyond those of the training, and with the number of pairs.
"""

import argparse
import json
import pathlib

from models.training import checkpoint
from models.training.config import ModelConfig
from models.training.memory_tasks import Recall
from models.training.model import Model

PAIRS_DISTANCE = 100  # tokens of noise where the number of pairs differs


def load(run: pathlib.Path) -> Model:
    saved = checkpoint.load(run / "best.pt")
    model = Model(ModelConfig.from_json(saved["config"]))
    model.load_state_dict(saved["model"])
    return model.eval()


def validations(run: pathlib.Path) -> dict:
    """step -> share of right answers; of a step that was done twice, the later one"""
    lines = (run / "validations.jsonl").read_text().splitlines()
    return {entry["step"]: 1 - entry["value"] for entry in map(json.loads, lines)}


def report_of(run: pathlib.Path, task: str, farthest: int, pairs) -> dict:
    model, asked = load(run), Recall(0)
    found = {"name": run.name, "kind": model.config.model_type, "codes": model.config.n_code, "by_step": validations(run),
             "parameters": sum(parameter.numel() for parameter in model.parameters())}
    if task == "recall":
        found["by_distance"] = {distance: 1 - wrong for distance, wrong in asked.by_distance(model, farthest).items()}
        found["by_pairs"] = {count: 1 - asked.wrong_at(model, PAIRS_DISTANCE, count) for count in pairs}
    return found


def table(first: str, runs, part: str) -> str:
    """A row a run, a column a key of its `part`; a share that is missing stays empty."""
    columns = sorted({column for run in runs for column in run[part]})
    lines = [f"| {first} | " + " | ".join(f"{column:,}" for column in columns) + " |", "|---|" + "---:|" * len(columns)]
    for run in runs:
        shares = run[part]
        lines.append(f"| {run['name']} | " + " | ".join(f"{100 * shares[c]:.1f}%" if c in shares else "" for c in columns) + " |")
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
        print("\n" + table(f"{Recall(0).pairs} pairs, right at distance", runs, "by_distance"))
        print("\n" + table(f"right at distance {PAIRS_DISTANCE}, pairs", runs, "by_pairs"))


if __name__ == "__main__":
    main()
