"""Directories of a model and its codes."""

import json

import numpy as np
import pytest

from models.conversion import write_directory as writer
from models.conversion.codes_file import CodesError, read_codes
from models.conversion.config import ConfigError, load_config
from models.conversion.directory import load_model
from models.conversion.write_directory import SourceError, write_directory
from models.training.files import safetensors
from models.training.files.directory import read_tensors

SHAPES = {"llama_gqa": (3, 2, 6, 16), "qwen3_tied": (2, 2, 4, 32)}  # layers, G, H, K
CODES = 5


def codes_of(name):
    layers, kv_heads, heads, dim = SHAPES[name]
    shapes = {"assign": (kv_heads, CODES, dim), "metric": (kv_heads, dim, dim), "score": (kv_heads, CODES, dim),
              "map": (heads, dim, dim), "bias": (heads,)}
    random = np.random.default_rng(0)
    return {f"layers.{layer}.{tensor}": random.standard_normal(shape).astype(np.float32)
            for layer in range(layers) for tensor, shape in shapes.items()}


@pytest.fixture
def sources(golden):
    return golden / "hugging_face"


def written(tmp_path, source, codes, **options):
    safetensors.save(tmp_path / "codes.safetensors", codes)
    write_directory(source, tmp_path / "codes.safetensors", tmp_path / "out", **{"ring": 64, "wide": {}, **options})
    return tmp_path / "out"


@pytest.mark.parametrize("name", SHAPES)
def test_has_the_models_weights_and_the_codes(tmp_path, sources, name):
    codes = codes_of(name)
    out = written(tmp_path, sources / name, codes)
    tensors = read_tensors(out)
    for tensor, values in read_tensors(sources / name).items():
        assert np.array_equal(tensors.pop(tensor), values), tensor
    for tensor, values in codes.items():
        layer, kind = tensor.rsplit(".", 1)
        assert np.array_equal(tensors.pop(f"model.{layer}.self_attn.conversion.{kind}"), values), tensor
    assert not tensors
    assert load_model(out).config == load_config(out)


def test_heads_with_a_ring_of_their_own_score_by_what_assigns(tmp_path, sources):
    codes = codes_of("llama_gqa")
    out = written(tmp_path, sources / "llama_gqa", codes, wide={(1, 1): 128}, grow={(2, 0)})
    tensors = read_tensors(out)
    for layer, head in ((1, 1), (2, 0)):
        of_layer = {kind: tensors[f"model.layers.{layer}.self_attn.conversion.{kind}"] for kind in ("score", "map", "bias")}
        assert np.array_equal(of_layer["score"][head], codes[f"layers.{layer}.assign"][head])
        assert np.array_equal(of_layer["score"][1 - head], codes[f"layers.{layer}.score"][1 - head])
        own, others = slice(3 * head, 3 * head + 3), slice(3 - 3 * head, 6 - 3 * head)
        assert np.array_equal(of_layer["map"][own], [np.eye(16)] * 3) and not of_layer["bias"][own].any()
        assert np.array_equal(of_layer["map"][others], codes[f"layers.{layer}.map"][others]) and of_layer["bias"][others].all()


def test_says_in_its_config_what_was_asked_for(tmp_path, sources):
    out = written(tmp_path, sources / "llama_gqa", codes_of("llama_gqa"), wide={(1, 1): 128, (0, 0): 8192, (0, 1): 128},
                  grow={(2, 0)})
    fields = json.loads((out / "config.json").read_text())
    assert fields.pop("conversion") == {
        "version": 1, "codes": CODES, "trained_context": 8192, "ring": 64, "grow": [[2, 0]],
        "wide": [{"ring": 128, "heads": [[0, 1], [1, 1]]}, {"ring": 8192, "heads": [[0, 0]]}]}
    assert fields == json.loads((sources / "llama_gqa" / "config.json").read_text())


@pytest.mark.parametrize("links", [True, False])
def test_shares_the_weights_where_it_can(tmp_path, sources, monkeypatch, links):
    def no_link(*_):
        raise OSError("not here")

    copied = tmp_path / "source"  # beside it, in the same file system
    copied.mkdir()
    for file in (sources / "qwen3_tied").iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    if not links:
        monkeypatch.setattr(writer.os, "link", no_link)
    out = written(tmp_path, copied, codes_of("qwen3_tied"))
    weights = out / "model-00001-of-00001.safetensors"
    assert weights.samefile(copied / "model.safetensors") == links
    assert weights.read_bytes() == (copied / "model.safetensors").read_bytes()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (out / name).read_bytes() == (copied / name).read_bytes()
    assert not list(tmp_path.glob(".out*"))


def renamed(codes, old, new):
    return {new if name == old else name: values for name, values in codes.items()}


@pytest.mark.parametrize("change, message", [
    (lambda codes: renamed(codes, "layers.1.map", "layers.1.maps"), "lacks 1 tensors of 3 layers, such as layers.1.map"),
    (lambda codes: {**codes, "layers.3.bias": codes["layers.0.bias"]}, "no use for 1 tensors, such as layers.3.bias"),
    (lambda codes: {**codes, "layers.2.score": codes["layers.2.score"][:, 1:]},
     r"tensor layers.2.score has shape \[2, 4, 16\], must be \[2, 5, 16\]"),
    (lambda codes: {**codes, "layers.0.assign": codes["layers.0.assign"][:, :0]}, r"has shape \[2, 0, 16\].* at least one code"),
    (lambda codes: {**codes, "layers.0.assign": codes["layers.0.bias"]}, r"layers.0.assign has shape \[6\]"),
    (lambda codes: {**codes, "layers.0.bias": codes["layers.0.bias"].astype(np.float64)},
     "layers.0.bias is float64, must be float16 or float32"),
    (lambda codes: {**codes, "layers.1.metric": codes["layers.1.metric"] * np.inf},
     "layers.1.metric has values that are not finite"),
])
def test_refuses_codes_that_do_not_fit(tmp_path, sources, change, message):
    with pytest.raises(CodesError, match=message):
        written(tmp_path, sources / "llama_gqa", change(codes_of("llama_gqa")))
    assert not (tmp_path / "out").exists()


def test_refuses_a_file_of_another_form(tmp_path, sources):
    (tmp_path / "codes.safetensors").write_bytes(b"codes")
    with pytest.raises(CodesError, match="not a safetensors file"):
        read_codes(tmp_path / "codes.safetensors", load_config(sources / "llama_gqa"))


def test_refuses_rings_and_heads_that_the_model_cannot_have(tmp_path, sources):
    for options in ({"ring": 100}, {"wide": {(3, 0): 128}}, {"wide": {(0, 0): 128}, "grow": {(0, 0)}}, {"context": 1000}):
        with pytest.raises(ConfigError):
            written(tmp_path, sources / "llama_gqa", codes_of("llama_gqa"), **options)
    assert not (tmp_path / "out").exists()


def test_refuses_places_that_it_cannot_use(tmp_path, sources):
    out = written(tmp_path, sources / "llama_gqa", codes_of("llama_gqa"))
    with pytest.raises(SourceError, match="out: is there already"):
        written(tmp_path, sources / "llama_gqa", codes_of("llama_gqa"))
    with pytest.raises(SourceError, match="is a converted directory"):
        write_directory(out, tmp_path / "codes.safetensors", tmp_path / "again", 64, {})
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text((sources / "llama_gqa" / "config.json").read_text())
    with pytest.raises(SourceError, match="empty: has neither model.safetensors nor model.safetensors.index.json"):
        write_directory(tmp_path / "empty", tmp_path / "codes.safetensors", tmp_path / "again", 64, {})


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["write_directory", *map(str, arguments)])
    return writer.main()


def test_the_command(tmp_path, sources, monkeypatch, capsys):
    codes = tmp_path / "codes.safetensors"
    safetensors.save(codes, codes_of("llama_gqa"))
    arguments = [sources / "llama_gqa", codes, tmp_path / "out", "--ring", 64]
    assert run(monkeypatch, *arguments, "--wide", "128:0.1,1.0", "--wide", "256:2.1", "--grow", "2.0") == 0
    conversion = load_config(tmp_path / "out").conversion
    assert conversion.wide == {(0, 1): 128, (1, 0): 128, (2, 1): 256} and conversion.grow == {(2, 0)}
    assert run(monkeypatch, *arguments) == 1
    assert "out: is there already" in capsys.readouterr().err
    for wide in ("128", "128:1", "x:1.0", "128:1.0,,1.1"):
        with pytest.raises(SystemExit):
            run(monkeypatch, *arguments, "--wide", wide)
    with pytest.raises(SystemExit):
        run(monkeypatch, *arguments, "--wide", "128:0.1", "--wide", "256:0.1")
