"""The import of an RWKV-7 in its native form, and what it refuses."""

import json
import os
import subprocess
import sys
import zlib

import numpy as np
import pytest
import torch_save
from conftest import ROOT

from models.published import weight_files
from models.published.import_rwkv import import_rwkv
from models.published.tensor_pickle import TorchFileError, unpickled
from models.training.files import safetensors

GOLDEN = ROOT / "tests" / "golden"
NATIVE = GOLDEN / "rwkv7_native"
VOCABULARY = GOLDEN / "hugging_face" / "rwkv7_pieces" / "rwkv_vocab_v20230424.txt"
HIDDEN, INNER, IDS, LAYERS = 128, 96, 300, 3


def native(dtype=np.float32) -> dict:
    """The tensors of a tiny model with random weights, as the training code of RWKV-7 names them."""
    row, square = (1, 1, HIDDEN), (HIDDEN, HIDDEN)
    shapes = {"emb.weight": (IDS, HIDDEN), "blocks.0.ln0.weight": (HIDDEN,), "blocks.0.ln0.bias": (HIDDEN,)}
    for layer in range(LAYERS):
        block = {f"ln{norm}.{part}": (HIDDEN,) for norm in (1, 2) for part in ("weight", "bias")}
        block |= {f"att.x_{kind}": row for kind in "rwkvag"}
        for kind, rank in {"w": 8, "a": 6, "v": 5, "g": 12}.items():
            block |= {f"att.{kind}1": (HIDDEN, rank), f"att.{kind}2": (rank, HIDDEN)} | ({} if kind == "g" else {f"att.{kind}0": row})
        block |= {"att.k_k": row, "att.k_a": row, "att.r_k": (2, 64), "att.ln_x.weight": (HIDDEN,), "att.ln_x.bias": (HIDDEN,)}
        block |= {f"att.{name}.weight": square for name in ("receptance", "key", "value", "output")}
        block |= {"ffn.x_k": row, "ffn.key.weight": (INNER, HIDDEN), "ffn.value.weight": (HIDDEN, INNER)}
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in block.items()}
    shapes |= {"ln_out.weight": (HIDDEN,), "ln_out.bias": (HIDDEN,), "head.weight": (IDS, HIDDEN)}
    random = np.random.default_rng(0)
    if dtype == np.uint16:  # bits of bfloat16 that are finite
        return {name: random.integers(0x3C00, 0x4000, shape, np.uint16) for name, shape in shapes.items()}
    return {name: random.standard_normal(shape, np.float32).astype(dtype) for name, shape in shapes.items()}


def header(path) -> dict:
    data = path.read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])


def test_names_shapes_and_numbers(tmp_path):
    """By the equations: a projection's weight is [out, in], and w0 + tanh(x w1) w2 is a LoRA with a bias."""
    theirs = native()
    import_rwkv(torch_save.save(tmp_path / "model.pth", theirs), tmp_path / "out")
    ours = safetensors.load(tmp_path / "out" / "model.safetensors")
    assert len(ours) == len(theirs) - 3  # without v0, v1, v2 of the first layer
    x = np.random.default_rng(1).standard_normal(HIDDEN, np.float32)
    for layer in range(LAYERS):
        attn, att = f"model.layers.{layer}.attn.", f"blocks.{layer}.att."
        for kind in "wagv"[:3 if layer == 0 else 4]:
            lora, bias = f"{attn}{kind}_lora.lora.", 0 if kind == "g" else ours[f"{attn}{kind}_lora.lora.2.bias"]
            wanted = (0 if kind == "g" else theirs[f"{att}{kind}0"][0, 0]) + np.tanh(x @ theirs[f"{att}{kind}1"]) @ theirs[f"{att}{kind}2"]
            assert np.allclose(ours[f"{lora}2.weight"] @ np.tanh(ours[f"{lora}0.weight"] @ x) + bias, wanted, atol=1e-4)
        for name, source in {"r": "receptance", "k": "key", "v": "value", "o": "output"}.items():
            assert np.array_equal(ours[f"{attn}{name}_proj.weight"], theirs[f"{att}{source}.weight"])
        for name in ("k_k", "k_a", "r_k", *(f"x_{kind}" for kind in "rwkvag")):
            assert np.array_equal(ours[attn + name].ravel(), theirs[att + name].ravel())
        for part in ("weight", "bias"):
            for name, source in {"attn_norm": "ln1", "ffn_norm": "ln2", "attn.g_norm": "att.ln_x"}.items():
                assert np.array_equal(ours[f"model.layers.{layer}.{name}.{part}"], theirs[f"blocks.{layer}.{source}.{part}"])
        for name in ("ffn.key.weight", "ffn.value.weight"):
            assert np.array_equal(ours[f"model.layers.{layer}.{name}"], theirs[f"blocks.{layer}.{name}"])
        assert np.array_equal(ours[f"model.layers.{layer}.ffn.x_k"], theirs[f"blocks.{layer}.ffn.x_k"][0, 0])
    for name, source in {"model.embeddings.weight": "emb.weight", "lm_head.weight": "head.weight", "model.norm.bias": "ln_out.bias",
                         "model.norm.weight": "ln_out.weight", "model.layers.0.pre_norm.weight": "blocks.0.ln0.weight"}.items():
        assert np.array_equal(ours[name], theirs[source])


def test_both_golden_forms_have_the_same_tensors(tmp_path):
    import_rwkv(NATIVE / "model.pth", tmp_path / "out")
    wanted = json.loads((NATIVE / "tensors.json").read_text())
    found = header(tmp_path / "out" / "model.safetensors")
    sums = found.pop("__metadata__")
    assert found.keys() == wanted.keys() and len(wanted) == 69
    for name, entry in found.items():
        assert entry["dtype"] == "BF16" and {"shape": entry["shape"], "crc32": sums[f"crc32.{name}"]} == wanted[name], name


def test_the_pickle_that_pytorch_wrote(tmp_path):
    """With other numbers in its storages."""
    data = (NATIVE / "data.pkl").read_bytes()
    keys = {name: tensor.arguments[0].arguments[2] for name, tensor in unpickled(data).items()}
    shapes = {name: tensor.arguments[2] for name, tensor in unpickled(data).items()}
    numbers = {name: np.random.default_rng(int(keys[name])).standard_normal(shape, np.float32) for name, shape in shapes.items()}
    torch_save.write(tmp_path / "model.pth", data, {keys[name]: values for name, values in numbers.items()})
    import_rwkv(tmp_path / "model.pth", tmp_path / "out")
    found = safetensors.load(tmp_path / "out" / "model.safetensors")
    assert np.array_equal(found["model.layers.1.attn.v_lora.lora.2.weight"], numbers["blocks.1.att.v2"].T)
    assert np.array_equal(found["lm_head.weight"], numbers["head.weight"])


def test_config(tmp_path):
    import_rwkv(torch_save.save(tmp_path / "model.pth", native()), tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["config.json", "model.safetensors"]
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {
        "architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "head_dim": 64,
        "intermediate_size": INNER, "hidden_ratio": 0.75, "decay_low_rank_dim": 8, "a_low_rank_dim": 6, "v_low_rank_dim": 5,
        "gate_low_rank_dim": 12, "norm_first": True, "norm_bias": True, "norm_eps": 1e-5, "hidden_act": "sqrelu",
        "value_dim": [HIDDEN] * LAYERS, "vocab_size": IDS, "attn": None, "tie_word_embeddings": False, "bos_token_id": 0,
        "eos_token_id": 0, "torch_dtype": "float32"}


@pytest.mark.parametrize("dtype, label, name", [(np.float32, "F32", "float32"), (np.float16, "F16", "float16"), (np.uint16, "BF16", "bfloat16")])
def test_weights_keep_their_type_and_bits(tmp_path, dtype, label, name):
    theirs = native(dtype)
    import_rwkv(torch_save.save(tmp_path / "model.pth", theirs), tmp_path / "out")
    found = header(tmp_path / "out" / "model.safetensors")
    sums = found.pop("__metadata__")
    assert {entry["dtype"] for entry in found.values()} == {label}
    assert sums["crc32.model.layers.2.attn.w_lora.lora.0.weight"] == f"{zlib.crc32(theirs['blocks.2.att.w1'].T.tobytes()):08x}"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["torch_dtype"] == name


def test_a_first_layer_without_what_it_does_not_use(tmp_path):
    theirs = native()
    import_rwkv(torch_save.save(tmp_path / "model.pth", theirs), tmp_path / "with")
    for name in ("v0", "v1", "v2"):
        del theirs[f"blocks.0.att.{name}"]
    import_rwkv(torch_save.save(tmp_path / "model.pth", theirs), tmp_path / "without")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes()


def test_large_weights_become_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_files.write_weights, "__defaults__", (200_000,))
    import_rwkv(torch_save.save(tmp_path / "model.pth", native()), tmp_path / "out")
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 3
    file = tmp_path / "out" / index["weight_map"]["lm_head.weight"]
    assert np.array_equal(safetensors.load(file)["lm_head.weight"], native()["head.weight"])


def refused(tmp_path, words, tensors, **options):
    path = torch_save.save(tmp_path / "model.pth", tensors)
    with pytest.raises(TorchFileError) as error:
        import_rwkv(path, tmp_path / "out", **options)
    assert words in str(error.value), str(error.value)
    assert os.listdir(tmp_path) == ["model.pth"]
    return str(error.value)


@pytest.mark.parametrize("name, shape, words", [
    ("blocks.1.att.receptance.weight", None, "lacks the tensor blocks.1.att.receptance.weight, of shape [128, 128] by its other tensors"),
    ("blocks.0.ln0.bias", None, "lacks the tensor blocks.0.ln0.bias, of shape [128]"),
    ("head.weight", None, "lacks the tensor head.weight, of shape [300, 128]"),
    ("emb.weight", None, "lacks the tensor emb.weight, which an RWKV-7 in its native form has; other versions are not imported"),
    ("blocks.0.att.w1", None, "lacks the tensor blocks.0.att.w1, which an RWKV-7"),
    ("blocks.1.att.v1", None, "lacks the tensor blocks.1.att.v1, which an RWKV-7"),
    ("blocks.2.att.v0", None, "lacks the tensor blocks.2.att.v0, of shape [1, 1, 128]"),
    ("blocks.0.ffn.key.weight", None, "lacks the tensor blocks.0.ffn.key.weight"),
    ("blocks.7.ln1.weight", (128,), "lacks the tensor blocks.3.ln1.weight, of shape [128]"),
    ("blocks.0.ffn.enn.weight", (2, 2), "has the tensor blocks.0.ffn.enn.weight, which has no place in an RWKV-7 (1 such)"),
    ("blocks.1.ln0.weight", (128,), "has the tensor blocks.1.ln0.weight, which has no place"),
    ("blocks.1.att.r_k", (4, 32), "tensor blocks.1.att.r_k has the shape [4, 32], by its other tensors it would be [2, 64]"),
    ("blocks.2.att.w2", (128, 8), "tensor blocks.2.att.w2 has the shape [128, 8], by its other tensors it would be [8, 128]"),
    ("blocks.2.att.x_g", (128,), "tensor blocks.2.att.x_g has the shape [128], by its other tensors it would be [1, 1, 128]"),
    ("blocks.1.ffn.value.weight", (96, 128), "tensor blocks.1.ffn.value.weight has the shape [96, 128], by its other tensors it would be [128, 96]"),
    ("emb.weight", (300, 100), "tensor emb.weight has rows of 100 numbers, must have a multiple of 64"),
    ("emb.weight", (300,), "tensor emb.weight has the shape [300], must have two dimensions"),
    ("head.weight", (301, 128), "tensor head.weight has the shape [301, 128], by its other tensors it would be [300, 128]"),
])
def test_tensors_that_are_refused(tmp_path, name, shape, words):
    tensors = native()
    tensors.pop(name, None)
    if shape:
        tensors[name] = np.zeros(shape, np.float32)
    assert refused(tmp_path, words, tensors).startswith(f"{tmp_path / 'model.pth'}: ")


def test_another_type_of_numbers(tmp_path):
    tensors = native()
    tensors["ln_out.bias"] = tensors["ln_out.bias"].astype(np.float64)
    refused(tmp_path, "tensor ln_out.bias has a torch.DoubleStorage, must have one of torch.FloatStorage, torch.HalfStorage", tensors)


def test_damage_that_is_found_late_leaves_nothing(tmp_path):
    """By a tensor's checksum, when config.json is written already."""
    tensors, path = native(), tmp_path / "model.pth"
    data = bytearray(torch_save.save(path, tensors).read_bytes())
    data[data.index(tensors["head.weight"].tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(TorchFileError, match="model.pth: tensor head.weight cannot be read, the file is cut off or damaged"):
        import_rwkv(path, tmp_path / "out")
    assert os.listdir(tmp_path) == ["model.pth"]


def test_the_vocabulary_is_copied(tmp_path):
    """Under the name that the server looks for, whatever its own."""
    tensors = native() | {name: np.zeros((1024, HIDDEN), np.float32) for name in ("emb.weight", "head.weight")}
    given = tmp_path / "world.txt"
    given.write_bytes(VOCABULARY.read_bytes())
    import_rwkv(torch_save.save(tmp_path / "model.pth", tensors), tmp_path / "out", given)
    assert (tmp_path / "out" / "rwkv_vocab_v20230424.txt").read_bytes() == VOCABULARY.read_bytes()


@pytest.mark.parametrize("content, words", [
    (b"", "is empty or has more than"),
    (b"1 'a' 1\n{\"model\": {}}\n", "line 2 is not an id, a literal and a length, as RWKV's vocabulary has them"),
    (b"299 'a' 1\r\n300 'b' 1\r\n", "line 2 has the id 300, but the model has 300 ids: it was trained with another vocabulary"),
])
def test_vocabularies_that_are_refused(tmp_path, content, words):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "world.txt").write_bytes(content)
    assert refused(folder, words, native(), vocabulary=tmp_path / "world.txt").startswith(f"{tmp_path / 'world.txt'}: ")


def command(*arguments):
    return subprocess.run([ROOT / "scripts" / "import-rwkv", *arguments], capture_output=True, text=True,
                          env={**os.environ, "TVQ_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)})


def test_the_command(tmp_path):
    path, out = torch_save.save(tmp_path / "model.pth", native()), tmp_path / "folder" / "out"
    done = command(path, out)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (f"{path} -> {out}\nIt has no tokenizer: the model is served with token ids only. "
                           "To serve text, put rwkv_vocab_v20230424.txt into it.\n")
    assert os.listdir(tmp_path / "folder") == ["out"]
    again = command(path, out)
    assert again.returncode == 1 and again.stderr.startswith(f"import-rwkv: {out}: is there already")
    missing = command(tmp_path / "none", tmp_path / "new")
    assert missing.returncode == 1 and f"No such file or directory: '{tmp_path / 'none'}'" in missing.stderr
    other = command(NATIVE / "data.pkl", tmp_path / "new")
    assert other.returncode == 1 and "data.pkl: is not a zip archive" in other.stderr
    assert not (tmp_path / "new").exists()
    (tmp_path / "world.txt").write_text("1 'a' 1\n")
    done = command(path, tmp_path / "text", "--vocabulary", tmp_path / "world.txt")
    assert done.stdout == f"{path} -> {tmp_path / 'text'}\n"


def test_nothing_is_left_where_writing_fails(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(safetensors, "save", full)
    with pytest.raises(OSError):
        import_rwkv(torch_save.save(tmp_path / "model.pth", native()), tmp_path / "out")
    assert os.listdir(tmp_path) == ["model.pth"]
