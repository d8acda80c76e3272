"""Makes a Transformer-VQ of a trained softmax Transformer, without training from scratch.

    python3 -m models.training.convert text MODEL_DIR OUT_DIR --data FOLDER --tokenizer FILE.model --codes 64 128 256

The two kinds differ in one thing: the Transformer-VQ replaces each key by the nearest codeword. So the keys of each layer
and kv head are clustered by k-means, layer by layer: the keys of a layer are computed with the keys of earlier layers already
replaced by codewords. Then all weights are trained for a while. OUT_DIR gets a model directory `codes-N` for each size of
codebook, and report.json with the measure of the task before, after k-means and after fine-tuning, and for comparison that of
the softmax model after the same fine-tuning.

All else is the same in both: heads, gates, `pe_abs`, and the positional bias, relative or Toeplitz, with its reach
(`mem_len`). Beyond the reach a score depends on the key alone, and only therefore can the past be summed by code. So a
softmax model whose bias reaches over the whole context cannot be converted: train it with the reach that the VQ model is to
have. The shorter it is, the smaller is the state. `block_len` changes no result.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import time

import torch

from models.training.config import ModelConfig
from models.training.export import load_model, tensors_of
from models.training.files.directory import write_model
from models.training.model import Model
from models.training.train import TASKS, Trainer, add_step_options, add_task_options
from models.training.units.kmeans import kmeans

BLOCK_LEN = 64  # if the softmax model has none


def vq_config(config: ModelConfig, n_code: int) -> ModelConfig:
    if config.model_type != "softmax_transformer":
        raise ValueError(f"only a softmax_transformer becomes a transformer_vq by its keys, not a {config.model_type}")
    return dataclasses.replace(config, model_type="transformer_vq", n_code=n_code, block_len=config.block_len or BLOCK_LEN)


@torch.no_grad()
def collect_keys(model: Model, number: int, batches) -> torch.Tensor:
    """The keys that layer `number` computes for rows of tokens, [G, N, K]."""
    found = [model(tokens.to(model.lm_head.bias.device)).seen[number][0] for tokens in batches]  # [B, G, T, K]
    return torch.cat([keys.float().transpose(0, 1).flatten(1, 2) for keys in found], 1)


@torch.no_grad()
def quantize_keys(softmax: Model, n_code: int, batches, batch_tokens: float, rounds: int, seed: int):
    """-> (the VQ model; per layer the mean squared distance of a key to its code, divided by that of a key to the mean key)

    batches: token rows [B, T]. The count of a code is set to the number of tokens that it will have in a batch of `batch_tokens`.
    """
    model = Model(vq_config(softmax.config, n_code)).to(softmax.lm_head.bias.device).eval()
    keys = model.load_state_dict(softmax.state_dict(), strict=False)
    if keys.unexpected_keys or not all(".codebook." in name for name in keys.missing_keys):
        raise ValueError(f"a softmax model lacks codebooks alone, this one {keys}")
    random, remainders = torch.Generator().manual_seed(seed), []
    for number, layer in enumerate(model.layers):
        keys, remaining = collect_keys(model, number, batches), 0.0
        for group, of_group in enumerate(keys):
            clusters = kmeans(of_group, n_code, rounds, random)
            counts = clusters.sizes * (batch_tokens / len(of_group))
            layer.codebook.count[group] = counts
            layer.codebook.sum[group] = clusters.centres * counts.clamp(min=0.01)[:, None]
            spread = (of_group - of_group.mean(0)).square().sum(-1).mean()
            remaining += clusters.distance / float(spread) / len(keys)
        remainders.append(remaining)
    return model, remainders


def sample(task, seed: int, tokens: int):
    """-> (batches of training data with about `tokens` tokens together, the mean number of tokens in a batch)"""
    source, batches = task.source(len(task.stages) - 1, seed), []
    while sum(batch.numel() for batch in batches) < tokens:
        batches.append(source.next().tokens[:, :-1])
    return batches, sum(batch.numel() for batch in batches) / len(batches)


class KeepWeights:
    """A task that does not prepare the model: its weights are trained already."""

    def __init__(self, task):
        self.task = task

    def __getattr__(self, name):
        return getattr(self.task, name)

    def prepare(self, model):
        pass


def fine_tune(model: Model, task, options) -> Model:
    trainer = Trainer(model.config, KeepWeights(task), options)
    trainer.model.load_state_dict(model.state_dict())
    while trainer.fraction() < 1:
        trainer.step()
    trainer.read()
    return trainer.model.eval()


def convert(softmax: Model, task, n_code: int, options):
    """-> (the model after fine-tuning, a row of the report)"""
    began = time.monotonic()
    batches, batch_tokens = sample(task, options.seed, options.key_tokens)
    model, remainders = quantize_keys(softmax, n_code, batches, batch_tokens, options.rounds, options.seed)
    row = {"codes": n_code, "unit": task.unit, "remaining_variance": remainders, "after_kmeans": task.validate(model),
           "kmeans_seconds": time.monotonic() - began}
    if options.minutes or options.steps:
        began = time.monotonic()
        model = fine_tune(model, task, options)
        row.update(after_tuning=task.validate(model), tuning_seconds=time.monotonic() - began)
    return model, row


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_task_options(p)
    p.add_argument("model_dir", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--codes", type=int, nargs="+", default=[64, 128, 256], help="sizes of codebook to try")
    p.add_argument("--key-tokens", type=int, default=32768, help="tokens whose keys are clustered")
    p.add_argument("--rounds", type=int, default=20, help="of k-means")
    add_step_options(p)
    p.set_defaults(steps=500, muon_rate=0.004, adam_rate=4e-4, warmup=20, cooldown_from=0.0)
    return p


def main():
    options = parser().parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    softmax = load_model(options.model_dir).to(options.device)
    task = TASKS[options.task](options)
    report = {"before": task.validate(softmax), "unit": task.unit, "steps": options.steps, "sizes": []}
    print(f"softmax: {report['before']:.4f} {task.unit}", flush=True)
    if options.minutes or options.steps:
        report["before_tuned"] = task.validate(fine_tune(softmax, task, options))
        print(f"softmax, after the same fine-tuning: {report['before_tuned']:.4f}", flush=True)
    for n_code in options.codes:
        model, row = convert(softmax, task, n_code, options)
        report["sizes"].append(row)
        directory = options.out / f"codes-{n_code}"
        write_model(directory, model.config, tensors_of(model))
        for name in (model.config.tokenizer.get("file"), "generation_config.json"):
            if name and (options.model_dir / name).exists():
                shutil.copyfile(options.model_dir / name, directory / name)
        (options.out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
        tuned = f", after fine-tuning {row['after_tuning']:.4f}" if "after_tuning" in row else ""
        print(f"{n_code} codes: after k-means {row['after_kmeans']:.4f}{tuned} {task.unit}", flush=True)


if __name__ == "__main__":
    main()
