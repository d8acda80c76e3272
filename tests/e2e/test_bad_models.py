"""A server refuses to start with a broken model directory, and says what is wrong where."""

import json
import shutil
import struct

import pytest
from server_process import GOLDEN, ROOT, run_server


@pytest.fixture
def model(tmp_path):
    """A copy of a model directory that a test may break."""
    return shutil.copytree(GOLDEN / "bytes_untied", tmp_path / "model",
                           ignore=shutil.ignore_patterns("expected.safetensors"))


def refuses(model, *words):
    done = run_server("--model", f"m={model}")
    assert done.returncode == 1, done.stderr
    assert "listening" not in done.stdout
    for word in words:
        assert word in done.stderr, done.stderr


def header_of(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return size, json.loads(data[8:8 + size])


def test_no_such_directory(tmp_path):
    refuses(tmp_path / "nothing", "nothing")


def test_config_that_is_no_json(model):
    (model / "config.json").write_text('{"model_type": ')
    refuses(model, "config.json")


def test_config_field_out_of_range(model):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"n_code": -4}))
    refuses(model, "config.json", "n_code", "-4")


def test_unknown_family(model):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"model_type": "perceptron"}))
    refuses(model, "config.json", "perceptron")


@pytest.mark.parametrize("fields, tensors", [
    ({"n_layer": 3}, ['"layers.3.codebook.', "..."]),
    ({"position_bias": "rerope"}, ['"layers.0.r_', "..."]),
])
def test_config_of_a_model_that_leaves_weights_without_a_use(model, fields, tensors):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | fields))
    refuses(model, "config.json", "has no use for", *tensors)


def test_chat_template_that_the_tokenizer_cannot_read(tmp_path):
    model = shutil.copytree(ROOT / "models" / "zoo" / "couplets", tmp_path / "model")
    template = {"user": {"prefix": "", "suffix": "\n"}, "assistant": {"prefix": "A: ", "suffix": "\n"}}
    (model / "generation_config.json").write_text(json.dumps({"chat_template": template}))
    refuses(model, "generation_config.json: chat_template.assistant.prefix", '"A" (U+0041)')


@pytest.mark.parametrize("keep", [0, 7, 100, 0.5, 0.999])
def test_truncated_weights(model, keep):
    path = model / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:keep if isinstance(keep, int) else int(len(data) * keep)])
    refuses(model, "model.safetensors")


def test_bit_flipped_in_the_header(model):
    """The size of a tensor no longer fits what the config says."""
    path = model / "model.safetensors"
    data = bytearray(path.read_bytes())
    at = data.index(b"layers.0.q_proj.weight")
    data[at + 7] ^= 1  # layers.1 twice, layers.0 not at all
    path.write_bytes(data)
    refuses(model, "model.safetensors", "q_proj.weight")


def test_offset_out_of_the_file(model):
    path = model / "model.safetensors"
    data = path.read_bytes()
    size, header = header_of(path)
    header["lm_head.weight"]["data_offsets"] = [0, len(data) * 2]
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data[8 + size:])
    refuses(model, "model.safetensors", "lm_head.weight")


def without_checksums(path):
    """Writes the file again as other tools write it."""
    data = path.read_bytes()
    size, header = header_of(path)
    header.pop("__metadata__", None)
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data[8 + size:])


def set_bits(path, tensor, byte, mask):
    """Sets bits in a byte of a tensor; returns where in the file its data begin."""
    data = bytearray(path.read_bytes())
    size, header = header_of(path)
    begin = 8 + size + header[tensor]["data_offsets"][0]
    data[begin + byte] |= mask
    path.write_bytes(data)
    return begin


def test_bit_flipped_in_a_weight(model):
    path, tensor = model / "model.safetensors", "layers.2.q_proj.weight"
    data = path.read_bytes()
    size, header = header_of(path)
    at = 8 + size + header[tensor]["data_offsets"][0]
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
    refuses(model, "model.safetensors", tensor, str(at))


def test_weight_that_is_not_finite_in_a_file_without_checksums(model):
    path, tensor = model / "model.safetensors", "layers.2.q_proj.weight"
    without_checksums(path)
    set_bits(path, tensor, 4 * 5 + 2, 0x80)
    at = set_bits(path, tensor, 4 * 5 + 3, 0x7F)
    refuses(model, "model.safetensors", tensor, f"from byte {at}", "index 5")


def test_missing_tokenizer_file(tmp_path):
    model = shutil.copytree(GOLDEN / "pieces_tied", tmp_path / "model")
    (model / "tokenizer.model").unlink()
    refuses(model, "tokenizer.model")
