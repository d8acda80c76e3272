"""Codes of a directory, found layer by layer."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

from conftest import SHAPE, random_model
from models.conversion import find_codes as finder
from models.conversion.codes_file import read_codes
from models.conversion.config import load_config
from models.conversion.directory import load_model
from models.conversion.write_directory import write_directory
from models.training.files import safetensors

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONTEXT, RING, CODES = 256, 64, 12


@pytest.fixture
def source(tmp_path):
    """A directory without a tokenizer, and two texts of ids."""
    directory = tmp_path / "source"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({**SHAPE, "max_position_embeddings": CONTEXT}))
    model = random_model(conversion=None)
    safetensors.save(directory / "model.safetensors", {name: value.float().numpy() for name, value in model.state_dict().items()})
    random = np.random.default_rng(0)
    for name, length in (("a", 300), ("b", 200)):
        (tmp_path / name).write_text(" ".join(map(str, random.integers(0, SHAPE["vocab_size"], length))))
    return directory


def run(monkeypatch, source, out, *options):
    base = source.parent
    arguments = [source, out, "--text", base / "a", base / "b", "--ring", RING, "--codes", CODES, "--fit-steps", 5, *options]
    monkeypatch.setattr("sys.argv", ["find_codes", *map(str, arguments)])
    finder.main()


def test_a_converted_directory_is_made_of_them(tmp_path, source, monkeypatch):
    run(monkeypatch, source, tmp_path / "codes")
    layers = read_codes(tmp_path / "codes", load_config(source))
    assert len(layers) == SHAPE["num_hidden_layers"] and layers[0]["assign"].shape[1] == CODES
    write_directory(source, tmp_path / "codes", tmp_path / "out", RING, {})
    with torch.no_grad():
        output = load_model(tmp_path / "out")(torch.arange(200) % SHAPE["vocab_size"])
    assert output.hidden.isfinite().all()
    assert all(len(codes[1:].unique()) > 3 for layer in output.codes for codes in layer)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "codes", "out", "source"]


def test_goes_on_where_it_was_stopped_and_makes_the_same_bytes(tmp_path, source, monkeypatch, capsys):
    run(monkeypatch, source, tmp_path / "whole")
    find_layer = finder.find_layer

    def stopped(model, seen, *rest):
        if seen.number == 1:
            raise KeyboardInterrupt
        return find_layer(model, seen, *rest)

    monkeypatch.setattr(finder, "find_layer", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, source, tmp_path / "codes")
    assert not (tmp_path / "codes").exists()
    monkeypatch.setattr(finder, "find_layer", find_layer)
    run(monkeypatch, source, tmp_path / "codes")
    assert "1 layers are there already" in capsys.readouterr().err
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "whole").read_bytes()


def test_what_other_settings_found_is_not_used(tmp_path, source, monkeypatch, capsys):
    parts = finder.Parts(tmp_path / "codes.parts", {"codes": 7})
    parts.keep(0, {"layers.0.bias": np.zeros(6, np.float32)}, [torch.zeros(300, 24)])
    assert parts.layers() == 1
    run(monkeypatch, source, tmp_path / "codes")
    assert "there already" not in capsys.readouterr().err
    run(monkeypatch, source, tmp_path / "again")
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "again").read_bytes()


def test_parts_without_whole_settings_are_nobodys(tmp_path):
    settings = {"codes": 7}
    finder.Parts(tmp_path / "parts", settings).keep(0, {}, [torch.zeros(1)])
    assert finder.Parts(tmp_path / "parts", settings).layers() == 1
    (tmp_path / "parts" / "settings.json").write_text("")  # of a full disk
    assert finder.Parts(tmp_path / "parts", settings).layers() == 0


def test_two_calls_do_not_share_parts(tmp_path):
    settings = {"codes": 7}
    parts = finder.Parts(tmp_path / "parts", settings)
    parts.keep(0, {}, [torch.zeros(1)])
    code = f"import pathlib; from models.conversion import find_codes; find_codes.Parts(pathlib.Path({str(parts.folder)!r}), {{}})"
    other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "parts: another call is at work there" in other.stderr and parts.layers() == 1


@pytest.mark.parametrize("options, message", [
    (("--ring", 100), "the ring is 100, must be a multiple of 64 below 256"),
    (("--ring", 256), "the ring is 256, must be"),
    (("--tokens", 100), "a has 100 tokens, must have at least 128"),
    (("--codes", 1000), "the texts have 454 tokens beside their first ones, must have at least one a code, 1000"),
])
def test_says_what_is_wrong(tmp_path, source, monkeypatch, options, message):
    with pytest.raises(SystemExit, match=message):
        run(monkeypatch, source, tmp_path / "codes", *options)
    assert not (tmp_path / "codes").exists()
