"""The training loop on a tiny model: it learns, and a resumed run is the uninterrupted run."""

import types

import numpy as np
import pytest
import torch

from conftest import BLOCKS, KINDS
from models.training.config import ModelConfig
from models.training.data.text import Streams
from models.training.files import checkpoint
from models.training.train import Trainer, config_of, parse_stage, parser

NEWLINE, END = 3, 1


def documents():
    """A text with a pattern: each token is mostly its predecessor plus one."""
    random = np.random.default_rng(0)
    steps = random.choice([1, 2], size=4000, p=[0.9, 0.1])
    return [(4 + np.cumsum(steps) % 20).astype(np.uint16)]


class Passages:
    """A task like Text, of ids."""

    def __init__(self, shapes):
        self.shapes, self.stages = shapes, tuple(begin for begin, *_ in shapes)

    def source(self, stage, seed):
        _, batch, length, restart = self.shapes[stage]
        return Streams(documents(), batch, length, 2, restart, END, NEWLINE, seed)

    def prepare(self, model):
        pass


def trainer(stages=((0.0, 4, 32, 1.0), (0.5, 2, 64, 0.25)), kind="transformer_vq", block="gated", **options):
    config = ModelConfig(vocab_size=24, d_model=16, d_k=8, d_v=16, n_layer=2, tie_word_embeddings=True,
                         output_norm=True, logit_scale=0.25, eos_token_id=END, pe_abs=kind == "linear_transformer",
                         model_type=kind, **KINDS[kind], **BLOCKS[block])
    defaults = dict(device="cpu", seed=1, muon_rate=0.02, adam_rate=4e-3, weight_decay=0.1, minutes=0, steps=24,
                    warmup=3, cooldown_from=0.4, commitment=1e-4, dropout=0.0, bfloat16=False, compile=False, graph=False)
    return Trainer(config, Passages(stages), types.SimpleNamespace(**{**defaults, **options}))


def losses(run, count):
    return [run.step()["loss"] for _ in range(count)]


@pytest.mark.parametrize("before", [5, 12, 18])  # in the first stage, between the stages, with carried contexts
def test_resumed_run_equals_uninterrupted_run(tmp_path, before):
    whole = losses(trainer(dropout=0.1), 24)
    first = trainer(dropout=0.1)
    start = losses(first, before)
    checkpoint.save(tmp_path / "checkpoint.pt", first.state_dict())
    torch.manual_seed(99)
    second = trainer(seed=1, dropout=0.1)
    second.load_state_dict(checkpoint.load(tmp_path / "checkpoint.pt"))
    assert start + losses(second, 24 - before) == whole


def test_training_lowers_the_loss():
    run = trainer(steps=80, stages=[(0.0, 4, 32, 0.5)])
    seen = losses(run, 80)
    assert np.mean(seen[-10:]) < 0.5 * np.mean(seen[:3])
    assert run.fraction() == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", BLOCKS)
def test_bfloat16_autocast_trains_every_kind(kind, block):
    run = trainer(steps=40, bfloat16=True, stages=[(0.0, 4, 32, 0.5)], kind=kind, block=block)
    seen = losses(run, 40)
    assert np.mean(seen[-5:]) < 0.7 * np.mean(seen[:3])


@pytest.mark.parametrize("kind", ["softmax_transformer", "linear_transformer", "soft_codebook", "performer"])
def test_other_kinds_resume_with_what_they_carry(tmp_path, kind):
    stages = [(0.0, 2, 32, 0.3)]
    whole = losses(trainer(stages, kind), 12)
    first = trainer(stages, kind)
    start = losses(first, 6)
    checkpoint.save(tmp_path / "checkpoint.pt", first.state_dict())
    second = trainer(stages, kind)
    second.load_state_dict(checkpoint.load(tmp_path / "checkpoint.pt"))
    assert start + losses(second, 6) == whole


def test_options_of_other_kinds_are_left_out():
    task = types.SimpleNamespace(config_fields=lambda: dict(vocab_size=24))

    def config(*options):
        return config_of(parser().parse_args(["text", "--data", "d", "--out", "o", *options]), task)

    assert (config().n_code, config().block_len, config().mem_len) == (128, 64, 64)
    assert config("--mem-len", "16", "--n-head", "2", "--n-kv-head", "1").mem_len == 16
    linear = config("--model-type", "linear_transformer", "--block", "standard")
    assert (linear.n_code, linear.block_len, linear.mem_len, linear.d_ff) == (None, 64, None, 1024)
    softmax = config("--model-type", "softmax_transformer")
    assert (softmax.n_code, softmax.block_len, softmax.mem_len, softmax.d_ff) == (None, 64, 64, None)


def test_time_budget_survives_a_resume():
    run = trainer(minutes=10)
    run.step()
    saved = run.state_dict()
    saved["seconds"] = 300.0
    resumed = trainer(minutes=10)
    resumed.load_state_dict(saved)
    assert resumed.fraction() == 0.5


def test_a_crash_while_saving_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"steps": 1})

    class Unsavable:
        def __reduce__(self):
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        checkpoint.save(path, {"steps": Unsavable()})
    assert checkpoint.load(path) == {"steps": 1}


def test_checkpoint_is_small():
    """Carried contexts must not drag whole segments along."""
    run = trainer(stages=[(0.0, 1, 256, 0.0)])
    losses(run, 2)
    for context in run.contexts.values():
        for layer in context.layers:
            for tensor in layer:
                assert tensor.untyped_storage().nbytes() == tensor.nelement() * tensor.element_size() if hasattr(
                    tensor, "untyped_storage") else tensor.storage().size() == tensor.nelement()


def test_stages():
    assert parse_stage("0.3:2x4096:0.25") == (0.3, 2, 4096, 0.25)
    assert parse_stage("0:4x1024") == (0.0, 4, 1024, 1.0)
