"""The trainer makes models of the public families by its options, trains them on text, and exports them."""

import gzip
import types

import numpy as np
import pytest

from conftest import PUBLIC, ROOT
from models.training.data.text import Bytes, Text
from models.training.export import load_model, tensors_of
from models.training.families import load_config
from models.training.files import checkpoint
from models.training.files.directory import write_model
from models.training.token_bits import token_bits
from models.training.train import Trainer, config_of, main, parser

every_family = pytest.mark.parametrize("family", PUBLIC)


def config_by_options(*options):
    task = types.SimpleNamespace(config_fields=Bytes().config_fields)
    return config_of(parser().parse_args(["text", "--data", "d", "--out", "o", *options]), task)


SMALL = ("--d-model", "32", "--n-layer", "2", "--n-head", "4", "--d-k", "8", "--d-v", "16", "--attention-every", "2")


def test_options_make_the_families():
    rwkv7 = config_by_options("--model-type", "rwkv7", "--d-model", "1024")
    assert (rwkv7.head_dim, rwkv7.intermediate_size, rwkv7.decay_low_rank_dim, rwkv7.gate_low_rank_dim) == (64, 4096, 64, 160)
    mamba2 = config_by_options("--model-type", "mamba2", *SMALL)
    assert (mamba2.num_heads, mamba2.head_dim, mamba2.state_size, mamba2.n_groups, mamba2.expand) == (4, 16, 8, 1, 2)
    qwen = config_by_options("--model-type", "qwen3_5_text", *SMALL, "--n-kv-head", "2")
    assert qwen.layer_types == ["linear_attention", "full_attention"] and qwen.linear_num_key_heads == 2
    none = config_by_options("--model-type", "qwen3_5_text", "--attention-every", "0")
    assert none.layer_types == ["linear_attention"] * 6
    assert {config.tokenizer["type"] for config in (rwkv7, mamba2, qwen)} == {"bytes"}
    assert (rwkv7.vocab_size, rwkv7.eos_token_id, rwkv7.others["pad_token_id"]) == (259, 1, 0)


def test_tasks_that_set_the_bias_of_the_logits_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["train", "couplets", "--model-type", "rwkv7", "--data", "pairs", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        main()
    assert "couplets sets the bias of the logits, which a rwkv7 lacks" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def trainer(family: str, **options):
    """Of the bundled prose."""
    pieces = Bytes()
    prose = gzip.decompress((ROOT / "tests/data/novels/pride-and-prejudice.txt.gz").read_bytes()).decode()[10_000:40_000]
    document = np.concatenate([[pieces.end], pieces.encode(prose)]).astype(pieces.dtype)
    task = Text(pieces, [document], [document[:500]], [(0.0, 2, 80, 0.5)], 2, 400)
    defaults = dict(device="cpu", seed=1, muon_rate=0.02, adam_rate=4e-3, weight_decay=0.1, minutes=0, steps=24, warmup=3,
                    cooldown_from=0.4, commitment=1e-4, dropout=0.0, bfloat16=False, compile=False, graph=False)
    return Trainer(config_by_options("--model-type", family, *SMALL), task, types.SimpleNamespace(**{**defaults, **options}))


def losses(run, count):
    return [run.step()["loss"] for _ in range(count)]


@every_family
def test_training_on_prose_lowers_the_loss_and_is_exported(tmp_path, family):
    run = trainer(family)
    first = run.task.validate(run.model)
    seen = losses(run, 24)
    assert seen[0] == pytest.approx(np.log(259), rel=0.2)
    assert np.mean(seen[-3:]) < 0.85 * seen[0]
    assert run.task.validate(run.model) < 0.85 * first
    write_model(tmp_path, run.model.config, tensors_of(run.model))
    assert load_config(tmp_path) == run.model.config
    ids = run.task.validation[0]
    # One float32 function with equal weights.
    assert np.array_equal(token_bits(load_model(tmp_path), ids), token_bits(run.model, ids))


@every_family
def test_bfloat16_autocast_trains_every_family(family):
    seen = losses(trainer(family, bfloat16=True), 12)
    assert np.mean(seen[-3:]) < 0.95 * seen[0]


@every_family
def test_a_resumed_run_is_the_uninterrupted_run(tmp_path, family):
    whole = losses(trainer(family, dropout=0.1), 8)
    first = trainer(family, dropout=0.1)
    start = losses(first, 4)
    checkpoint.save(tmp_path / "checkpoint.pt", first.state_dict())
    second = trainer(family, dropout=0.1)
    second.load_state_dict(checkpoint.load(tmp_path / "checkpoint.pt"))
    assert start + losses(second, 4) == whole


@every_family
def test_projections_are_stepped_by_muon(family):
    run = trainer(family)
    muon = {id(parameter) for parameter in run.optimizers[0].param_groups[0]["params"]}
    by_muon = {name.split(".", 3)[3] for name, p in run.model.named_parameters() if id(p) in muon}
    assert by_muon >= {"rwkv7": {"attn.r_proj.weight", "attn.w_lora.lora.0.weight", "ffn.key.weight"},
                       "mamba2": {"mixer.in_proj.weight", "mixer.out_proj.weight"},
                       "qwen3_5_text": {"linear_attn.in_proj_qkv.weight", "self_attn.q_proj.weight", "mlp.up_proj.weight"}}[family]
    assert not any("norm" in name or "conv1d" in name or name.endswith("bias") for name in by_muon)
