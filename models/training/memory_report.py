"""What models that were trained on the copy or the recall task remember, side by side, as Markdown.

    python3 -m models.training.memory_report RUN... [--farthest N] [--pairs N,...]

Every RUN is a folder of models.training.train; all of one task. Prints how the share of wrong answers fell over the
training, and of recall how it rises with the distance, also beyond those of the training, and with the number of pairs.
"""

import argparse
import json
import pathlib

from models.training import checkpoint
from models.training.config import ModelConfig
from models.training.memory_tasks import Recall
from models.training.model import Model


def load(run: pathlib.Path) -> Model:
    saved = checkpoint.load(run / "best.pt")
    model = Model(ModelConfig.from_json(saved["config"]))
    model.load_state_dict(saved["model"])
    return model.eval()


def validations(run: pathlib.Path) -> dict:
    """step -> share of wrong answers; of a step that was done twice, the later one"""
    lines = (run / "validations.jsonl").read_text().splitlines()
    return {entry["step"]: entry["value"] for entry in map(json.loads, lines)}


def table(first: str, columns, rows) -> str:
    """rows: name -> {column: share}; a share that is missing stays empty."""
    lines = [f"| {first} | " + " | ".join(f"{column:,}" for column in columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, shares in rows.items():
        lines.append(f"| {name} | " + " | ".join(f"{100 * shares[c]:.1f}%" if c in shares else "" for c in columns) + " |")
    return "\n".join(lines)


def name_of(run: pathlib.Path, model: Model) -> str:
    return f"{run.name} ({model.config.model_type}, {sum(p.numel() for p in model.parameters()):,} parameters)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--farthest", type=int, default=10_000, help="recall: distance up to which is asked")
    parser.add_argument("--pairs", type=lambda text: [int(n) for n in text.split(",")], default=[16], help="recall")
    parser.add_argument("--recall", action="store_true", help="the runs are of recall: ask by distance, too")
    arguments = parser.parse_args()
    models = {name_of(run, model): (run, model) for run, model in ((run, load(run)) for run in arguments.runs)}
    fell = {name: validations(run) for name, (run, _) in models.items()}
    print(table("wrong after step", sorted({step for shares in fell.values() for step in shares}), fell))
    for pairs in arguments.pairs if arguments.recall else []:
        task = Recall(0, pairs)
        rows = {name: task.by_distance(model, arguments.farthest) for name, (_, model) in models.items()}
        print("\n" + table(f"{pairs} pairs, wrong at distance", task.distances(arguments.farthest), rows))


if __name__ == "__main__":
    main()
