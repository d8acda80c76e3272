"""A directory from a model and texts, in one command."""

import json
import re
import shutil

import numpy as np
import pytest
import torch

from conftest import SHAPE, random_model
from models.conversion import convert as converter
from models.conversion import head_costs
from models.conversion.config import load_config
from models.conversion.directory import load_model
from models.conversion.find_codes import Wanted
from models.training.files import safetensors

CONTEXT, RING, CODES = 256, 64, 12


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A directory without a tokenizer, and two texts of ids."""
    monkeypatch.setattr(converter, "REPEATED", 90)
    monkeypatch.setattr(converter, "BETWEEN", 20)
    directory = tmp_path / "source"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({**SHAPE, "max_position_embeddings": CONTEXT}))
    model = random_model(conversion=None)
    safetensors.save(directory / "model.safetensors", {name: value.float().numpy() for name, value in model.state_dict().items()})
    random = np.random.default_rng(0)
    for name, length in (("code", 300), ("prose", 280)):
        (tmp_path / name).write_text(" ".join(map(str, random.integers(0, SHAPE["vocab_size"], length))))
    return directory


def run(monkeypatch, source, out, *options):
    base = source.parent
    arguments = [source, out, "--text", base / "code", base / "prose", "--ring", RING, "--codes", CODES, "--fit-steps", 4,
                 "--tokens", 160, "--cost-tokens", 100, "--no-report", *options]
    monkeypatch.setattr("sys.argv", ["convert-to-vq", *map(str, arguments)])
    converter.main()
    return out


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_dearest_heads_get_wide_rings(tmp_path, source, monkeypatch):
    out = run(monkeypatch, source, tmp_path / "out", "--wide-heads", 1, "--wide-ring", 128)
    conversion = load_config(out).conversion
    (head, ring), = conversion.wide.items()
    assert ring == 128 and conversion.ring == RING and conversion.context == CONTEXT and conversion.codes == CODES
    told = (out / "report.md").read_text()
    rows = [line for line in told.splitlines() if line.endswith("| yes |")]
    assert len(rows) == 1 and rows[0].startswith(f"| {head[0]}.{head[1]} |")
    assert "| layer.head | code | prose | a passage again | wide |" in told
    with torch.no_grad():
        assert load_model(out)(torch.arange(200) % SHAPE["vocab_size"]).hidden.isfinite().all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code", "out", "prose", "source"]


def test_heads_may_grow_instead(tmp_path, source, monkeypatch):
    conversion = load_config(run(monkeypatch, source, tmp_path / "out", "--wide-heads", 2, "--grow")).conversion
    assert len(conversion.grow) == 2 and not conversion.wide


def test_distillation_changes_what_codes_score(tmp_path, source, monkeypatch):
    plain = run(monkeypatch, source, tmp_path / "plain", "--wide-heads", 1)
    out = run(monkeypatch, source, tmp_path / "out", "--wide-heads", 1, "--distill-tokens", 300)
    before, after = (safetensors.load(directory / "conversion.safetensors") for directory in (plain, out))
    changed = {name.rsplit(".", 1)[1] for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {"score", "map", "bias"}
    told = (out / "report.md").read_text()
    assert "## Distillation" in told and "## Distillation" not in (plain / "report.md").read_text()
    tokens, = re.findall(r"^Of (\d+) tokens, towards", told, re.M)
    assert 300 <= int(tokens) < 300 + 2 * 160
    gaps = [line for line in told[told.index("## Distillation"):].splitlines() if re.match(r"\| (code|prose|a passage again) \|", line)]
    assert len(gaps) == 3
    assert files(run(monkeypatch, source, tmp_path / "again", "--wide-heads", 1, "--distill-tokens", 300)) == files(out)


def test_goes_on_where_it_was_stopped_and_makes_the_same_bytes(tmp_path, source, monkeypatch):
    whole = run(monkeypatch, source, tmp_path / "whole", "--wide-heads", 1)
    nats, calls = head_costs.nats, []

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) == 11:  # after the base and a layer of two heads, of three texts
            raise KeyboardInterrupt
        return nats(*arguments)

    monkeypatch.setattr(head_costs, "nats", stopped)
    with pytest.raises(SystemExit, match="130"):
        run(monkeypatch, source, tmp_path / "out", "--wide-heads", 1)
    assert not (tmp_path / "out").exists()
    assert len(json.loads((tmp_path / ".out.parts" / "costs.json").read_text())) == 1
    monkeypatch.setattr(head_costs, "nats", nats)
    assert files(run(monkeypatch, source, tmp_path / "out", "--wide-heads", 1)) == files(whole)


@pytest.mark.parametrize("options, message", [
    (("--cost-tokens", 160), "prose has 280 tokens, must have at least 288"),
    (("--cost-tokens", 64), "--cost-tokens is 64, must be above the ring, which is 64"),
    (("--cost-tokens", 300), "--cost-tokens is 300, must be above the ring, which is 64, and at most the trained context, 256"),
    (("--ring", 100), "the ring is 100, must be"),
    (("--wide-ring", 100), "conversion has a ring of 100, must be a multiple of 64"),
    (("--context", 200), "conversion.trained_context is 200, must be a multiple of prefill_chunk"),
    (("--codes", 400), "the texts have 318 tokens beside their first ones, must have at least one a code, 400"),
])
def test_says_what_is_wrong(tmp_path, source, monkeypatch, options, message):
    with pytest.raises(SystemExit, match=message):
        run(monkeypatch, source, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_leaves_a_directory_that_is_there(tmp_path, source, monkeypatch):
    (tmp_path / "out").mkdir()
    with pytest.raises(SystemExit, match="out: is there already"):
        run(monkeypatch, source, tmp_path / "out")


def test_what_was_found_for_other_weights_is_not_taken(tmp_path, source, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as measuring:
        measuring.setattr(head_costs, "nats", stopped)
        with pytest.raises(SystemExit, match="130"):
            run(monkeypatch, source, tmp_path / "out", "--wide-heads", 1)
    model = random_model(conversion=None)  # other ones
    safetensors.save(source / "model.safetensors", {name: value.float().numpy() for name, value in model.state_dict().items()})
    assert files(run(monkeypatch, source, tmp_path / "out", "--wide-heads", 1)) == \
           files(run(monkeypatch, source, tmp_path / "whole", "--wide-heads", 1))


def test_texts_have_names_of_their_own(tmp_path, source, monkeypatch):
    (tmp_path / "more").mkdir()
    shutil.copy(tmp_path / "code", tmp_path / "more" / "code")
    with pytest.raises(SystemExit, match="code: another text is called 'code', too"):
        run(monkeypatch, source, tmp_path / "out", "--text", tmp_path / "code", tmp_path / "more" / "code")


@pytest.mark.parametrize("number", ["-1", "few"])
def test_a_number_of_heads_is_one(tmp_path, source, monkeypatch, capsys, number):
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, source, tmp_path / "out", f"--wide-heads={number}")
    assert f"is '{number}', must be auto or a number of heads" in capsys.readouterr().err


def test_a_passage_again_fits_into_the_trained_context():
    wanted = Wanted(codes=8, ring=64, context=460, fit_steps=1, seed=0)  # a fifth of two passages and what is between
    one, two = torch.arange(1000), torch.arange(1000, 2000)
    again = converter.cost_texts(["one", "two"], [one, two], wanted)[-1]
    assert again.tokens.tolist() == [*range(140), *range(1000, 1180), *range(140)] and again.scored.start == 330
    alone = converter.cost_texts(["one"], [one], wanted)[-1]
    assert alone.tokens.tolist() == [*range(320), *range(140)]
