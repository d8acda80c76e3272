"""The importer on both on-disk forms, and on files that are cut, changed or do not fit their config."""

import json
import random
import shutil
import subprocess

import msgpack
import numpy as np
import pytest

from conftest import ROOT
from models.training.files import safetensors
from models.training.files.flax_checkpoint import CheckpointError, find_checkpoint, load_checkpoint
from models.training.import_reference import import_reference


@pytest.fixture
def heads(golden, tmp_path):
    """A copy of the single-file checkpoint that a test may change."""
    return shutil.copytree(golden / "checkpoints" / "heads_unequal", tmp_path / "heads")


def array(values) -> msgpack.ExtType:
    values = np.asarray(values)
    return msgpack.ExtType(1, msgpack.packb((list(values.shape), values.dtype.name, values.tobytes())))


def rewrite(folder, change):
    """Applies change(params, config) to a checkpoint, whose arrays it sees as numpy arrays."""
    file = find_checkpoint(folder)
    params = load_checkpoint(file)["params"]
    config = json.loads((folder / "reference_config.json").read_text())
    change(params, config)
    (folder / "reference_config.json").write_text(json.dumps(config))
    pack = lambda value: array(value) if isinstance(value, np.ndarray) else value
    tree = lambda value: {k: tree(v) for k, v in value.items()} if isinstance(value, dict) else pack(value)
    file.write_bytes(msgpack.packb({"params": tree(params), "step": 1}))


@pytest.mark.parametrize("name", ["bytes_untied", "heads_unequal"])
def test_both_forms_give_the_golden_model(golden, tmp_path, name):
    import_reference(golden / "checkpoints" / name, tmp_path / "out")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "out" / file).read_bytes() == (golden / name / file).read_bytes()


def test_the_command(golden, tmp_path):
    command = [ROOT / "scripts" / "import-reference", golden / "checkpoints" / "heads_unequal", tmp_path / "out"]
    assert subprocess.run(command, capture_output=True).returncode == 0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["n_layer"] == 2 and config["tokenizer"] == {"type": "bytes"} and config["eos_token_id"] == 1
    failed = subprocess.run([command[0], tmp_path, tmp_path / "other"], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.startswith("import-reference: ") and "checkpoint_N" in failed.stderr
    assert not (tmp_path / "other").exists()


def test_takes_the_latest_step_and_another_config(heads, tmp_path):
    (heads / "checkpoint_99").write_bytes(b"older")
    (heads / "checkpoint_1000.orbax-checkpoint-tmp-5").mkdir()
    (heads / "reference_config.json").rename(tmp_path / "config.json")
    assert import_reference(heads, tmp_path / "out", tmp_path / "config.json").name == "checkpoint_200"


def test_kernels_are_turned_and_split(heads, tmp_path):
    params = load_checkpoint(find_checkpoint(heads))["params"]["transformer_layers_0"]["scanned_attn2"]
    import_reference(heads, tmp_path / "out")
    tensors = safetensors.load(tmp_path / "out" / "model.safetensors")
    kernel = params["kvg_proj"]["kernel"]  # [48, 2 * 16 + 2 * 32 + 2 * 32]
    assert (tensors["layers.1.k_proj.weight"] == kernel[:, :32].T).all()
    assert (tensors["layers.1.v_proj.weight"] == kernel[:, 32:96].T).all()
    assert (tensors["layers.1.g_proj.weight"] == kernel[:, 96:].T).all()
    assert (tensors["layers.1.w"] == params["v"].reshape(2, 16)).all()


def test_bfloat16_and_chunked_arrays(heads, tmp_path):
    state = msgpack.unpackb(find_checkpoint(heads).read_bytes(), strict_map_key=False)
    embedding = load_checkpoint(find_checkpoint(heads))["params"]["token_embedder"]["embs"]
    flat = embedding.reshape(-1)
    state["params"]["token_embedder"]["embs"] = {
        "__msgpack_chunked_array__": True, "shape": {"0": 259, "1": 48},
        "chunks": {"0": array(flat[:5000]), "1": array(flat[5000:])}}
    bias = np.arange(259, dtype=np.float32)
    bits = safetensors.BFloat16.rounded(bias).bits
    state["params"]["out_proj"]["bias"] = msgpack.ExtType(1, msgpack.packb(([259], "bfloat16", bits.tobytes())))
    find_checkpoint(heads).write_bytes(msgpack.packb(state))
    import_reference(heads, tmp_path / "out")
    tensors = safetensors.load(tmp_path / "out" / "model.safetensors")
    assert (tensors["embedding.weight"] == embedding).all()
    assert (np.abs(tensors["lm_head.bias"] - bias) <= bias * 2.0 ** -8).all()  # 8 significant bits


def drop_key_projection(params, config):
    del params["transformer_layers_0"]["scanned_attn1"]["q_proj"]


def extra_layer(params, config):
    params["transformer_layers_1"] = params["transformer_layers_0"]


def not_finite(params, config):
    codes = params["transformer_layers_0"]["scanned_attn1"]["quantizer"]
    codes["c_sum"] = codes["c_sum"] * np.float32(np.nan)


def integers(params, config):
    params["out_ln"]["g"] = np.ones(48, np.int32)


def elsewhere(params, config):
    params["out_ln"]["g"] = "PLACEHOLDER://out_ln.g"


def option(name, value):
    def change(params, config):
        config[name] = value
    return change


@pytest.mark.parametrize("change, message", [
    (drop_key_projection, r"lacks the parameter transformer_layers_0/scanned_attn1/q_proj/kernel, of shape \[48, 32\]"),
    (extra_layer, r"transformer_layers_1/\S+ has no place in the model"),
    (not_finite, r"scanned_attn1/quantizer/c_sum holds values that are not finite"),
    (integers, r"out_ln/g is not an array of floating-point numbers"),
    (elsewhere, r"out_ln/g lies in files of its own"),
    (option("d_k", 8), r"kvg_proj/kernel has the shape \[48, 160\], by the config it would be \[48, 144\]"),
    (option("n_layer", 2), r"lacks the parameter transformer_layers_1/"),
    (option("e_tie", 1), r"out_proj/\S+ has no place"),
    (option("pe_abs", 1), r"lacks the parameter position_embedder/scale"),
    (option("agg_cache", 0), r"reference_config.json: agg_cache is 0"),
    (option("n_head", "two"), r"n_head must be a positive integer, not 'two'"),
    (option("e_scale", "big"), r"e_scale must be a number"),
    (option("e_preln", None), r"e_preln must be 0 or 1"),
])
def test_what_does_not_fit_is_named(heads, tmp_path, change, message):
    rewrite(heads, change)
    with pytest.raises(CheckpointError, match=message):
        import_reference(heads, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("vocabulary, tokenizer, expected", [
    (259, None, {"type": "bytes"}), (16, None, {"type": "ids"}), (259, "ids", {"type": "ids"})])
def test_tokenizer_of_a_vocabulary(heads, tmp_path, vocabulary, tokenizer, expected):
    def change(params, config):
        config["n_vocab"] = vocabulary
        params["token_embedder"] = {"embs": np.zeros((vocabulary, 48), np.float32)}
        params["out_proj"] = {"kernel": np.zeros((48, vocabulary), np.float32), "bias": np.zeros(vocabulary, np.float32)}

    rewrite(heads, change)
    import_reference(heads, tmp_path / "out", tokenizer=tokenizer)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tokenizer"] == expected


@pytest.mark.parametrize("choice, message", [
    (dict(pixels="28,28,1"), "H,W,C,LEVELS"), (dict(pixels="28,28,1,16"), "16 levels do not fit"),
    (dict(tokenizer="no/such.model"), "no/such.model: No such file")])
def test_tokenizers_that_do_not_fit(heads, tmp_path, choice, message):
    with pytest.raises(CheckpointError, match=message):
        import_reference(heads, tmp_path / "out", **choice)


def test_a_sentencepiece_model_too_large_for_the_vocabulary(golden, heads, tmp_path):
    with pytest.raises(CheckpointError, match="has 1000 pieces, the model's vocabulary is 259"):
        import_reference(heads, tmp_path / "out", tokenizer=golden / "pieces_tied" / "tokenizer.model")


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.7, 0.999])
def test_truncated_files_name_the_file(heads, part):
    file = find_checkpoint(heads)
    raw = file.read_bytes()
    file.write_bytes(raw[:int(part * len(raw))])
    with pytest.raises(CheckpointError, match="checkpoint_200: not a whole msgpack"):
        load_checkpoint(file)


def test_mutated_files_are_imported_or_refused_with_a_message(heads, tmp_path):
    """Bytes of the structure, not of the values: those lie in the first and last thousands and around names."""
    raw = find_checkpoint(heads).read_bytes()
    params = raw.rindex(b"params")  # the optimizer's state before it is skipped
    source = random.Random(3)
    for _ in range(60):
        damaged = bytearray(raw)
        for _ in range(source.choice([1, 1, 4])):
            near = source.choice([0, params, params + 20, raw.rindex(b"kvg_proj"), raw.rindex(b"c_count"), raw.rindex(b"step")])
            damaged[min(near + source.randrange(60), len(raw) - 1)] = source.randrange(256)
        (heads / "checkpoint_200").write_bytes(bytes(damaged))
        try:
            import_reference(heads, tmp_path / "out")
        except CheckpointError as error:
            assert "checkpoint_200" in str(error)
