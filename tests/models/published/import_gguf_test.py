"""The import of a tiny GGUF file, and what it refuses: other models, and files that are cut, damaged or hostile."""

import json
import os
import random
import struct
import subprocess
import sys

import gguf
import numpy as np
import pytest
import tiny_gguf
from conftest import ROOT
from tiny_gguf import made, read, refused

from models.published.gguf_file import GgufError
from models.published.import_gguf import import_gguf
from models.training.files import safetensors

Q8_0, Q4_1, BF16, F16 = (gguf.GGMLQuantizationType[name] for name in ("Q8_0", "Q4_1", "BF16", "F16"))


def test_files_in_hugging_faces_form(tmp_path):
    import_gguf(made(tmp_path), tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["config.json", "generation_config.json", "model.safetensors",
                                                    "tokenizer.json", "tokenizer_config.json"]
    config = read(tmp_path / "out" / "config.json")
    assert config["model_type"] == "llama" and config["torch_dtype"] == "bfloat16" and config["tie_word_embeddings"]
    assert (config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]) == (32, 64, 2)
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]) == (4, 2, 8)
    assert (config["rms_norm_eps"], config["rope_theta"], config["max_position_embeddings"]) == (1e-5, 100000.0, 128)
    assert (config["vocab_size"], config["bos_token_id"], config["eos_token_id"]) == (264, 1, 2)
    assert read(tmp_path / "out" / "generation_config.json") == {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def test_tokenizer_and_template(tmp_path):
    import_gguf(made(tmp_path), tmp_path / "out")
    tokenizer = read(tmp_path / "out" / "tokenizer.json")
    assert [(token["id"], token["content"], token["special"]) for token in tokenizer["added_tokens"]] == [
        (0, "<|endoftext|>", True), (1, "<|im_start|>", True), (2, "<|im_end|>", True), (263, "<tool>", False)]
    assert tokenizer["pre_tokenizer"]["pretokenizers"][0] == {"type": "Digits", "individual_digits": True}
    assert tokenizer["model"]["vocab"]["Ġab"] == 262 and tokenizer["model"]["merges"][1] == ["ab", "c"]
    # Bytes that are part of the fingerprint which the sessions of SmolLM2 name.
    assert list(tokenizer) == ["version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                               "decoder", "model"]
    assert list(tokenizer["model"]) == ["type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                                        "byte_fallback", "ignore_merges", "vocab", "merges"]
    config = read(tmp_path / "out" / "tokenizer_config.json")
    assert config["chat_template"] == "{{ messages[0].content }}<|im_end|>"
    assert (config["bos_token"], config["eos_token"], config["unk_token"]) == ("<|im_start|>", "<|im_end|>", "<|endoftext|>")


def test_several_ends_and_templates(tmp_path):
    def change(fields, _):
        fields["tokenizer.ggml.eot_token_id"] = ("add_uint32", 0)
        fields["tokenizer.ggml.eom_token_id"] = ("add_uint32", 2)
        fields["tokenizer.chat_template.tool_use"] = ("add_string", "tools")
    import_gguf(made(tmp_path, change), tmp_path / "out")
    assert read(tmp_path / "out" / "generation_config.json")["eos_token_id"] == [2, 0]
    assert read(tmp_path / "out" / "tokenizer_config.json")["chat_template"] == [
        {"name": "default", "template": "{{ messages[0].content }}<|im_end|>"}, {"name": "tool_use", "template": "tools"}]


def test_rows_of_queries_and_keys_are_turned_back(tmp_path):
    written = tiny_gguf.tensors(tied=False)
    import_gguf(made(tmp_path, tied=False), tmp_path / "out", "float32")
    tensors = safetensors.load(tmp_path / "out" / "model.safetensors")
    assert len(tensors) == len(written) == 2 * 9 + 3
    for name, heads in (("q", tiny_gguf.HEADS), ("k", tiny_gguf.KV_HEADS)):
        theirs, ours = written[f"blk.1.attn_{name}.weight"], tensors[f"model.layers.1.self_attn.{name}_proj.weight"]
        for head in range(heads):
            for i in range(tiny_gguf.HEAD // 2):  # the pair i is rows 2i and 2i + 1 there, i and i + 4 here
                first, second = theirs[head * 8 + 2 * i], theirs[head * 8 + 2 * i + 1]
                assert (ours[head * 8 + i] == first).all() and (ours[head * 8 + i + 4] == second).all()
    for theirs, ours in {"blk.0.attn_v": "model.layers.0.self_attn.v_proj", "blk.0.attn_output": "model.layers.0.self_attn.o_proj",
                         "blk.1.ffn_down": "model.layers.1.mlp.down_proj", "blk.1.ffn_norm":
                         "model.layers.1.post_attention_layernorm", "output": "lm_head", "output_norm": "model.norm",
                         "token_embd": "model.embed_tokens"}.items():
        assert (tensors[ours + ".weight"] == written[theirs + ".weight"]).all()
    assert read(tmp_path / "out" / "config.json")["tie_word_embeddings"] is False


@pytest.mark.parametrize("kind", [Q8_0, Q4_1, BF16, F16])
def test_tensor_types_as_the_package_reads_them(tmp_path, kind):
    written, name = tiny_gguf.tensors(), "blk.0.ffn_up.weight"
    wanted = gguf.dequantize(gguf.quantize(written[name], kind), kind)
    import_gguf(made(tmp_path, types={name: kind}), tmp_path / "out", "float32")
    tensors = safetensors.load(tmp_path / "out" / "model.safetensors")
    assert (tensors["model.layers.0.mlp.up_proj.weight"] == wanted).all()
    assert abs(wanted - written[name]).max() < 0.3


@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_types_that_the_package_reads_and_does_not_write(tmp_path, kind):
    """From bytes below 0x7C, with which a block's float16 scales are finite wherever they lie."""
    kind, inner, name = gguf.GGMLQuantizationType[kind], 256, "blk.0.ffn_down.weight"
    raw = np.random.default_rng(0).integers(0, 0x7C, (tiny_gguf.WIDTH, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8)

    def change(fields, tensors):
        fields["llama.feed_forward_length"] = ("add_uint32", inner)
        for layer in range(tiny_gguf.LAYERS):
            for other, shape in {"gate": (inner, tiny_gguf.WIDTH), "up": (inner, tiny_gguf.WIDTH), "down": (tiny_gguf.WIDTH, inner)}.items():
                tensors[f"blk.{layer}.ffn_{other}.weight"] = np.zeros(shape, np.float32)
        tensors[name] = raw
    import_gguf(made(tmp_path, change, types={name: kind}), tmp_path / "out", "float32")
    found = safetensors.load(tmp_path / "out" / "model.safetensors")["model.layers.0.mlp.down_proj.weight"]
    assert np.array_equal(found, gguf.dequantize(raw, kind)) and len(np.unique(found)) > 1000


def test_bfloat16_is_rounded_to_nearest_even(tmp_path):
    def change(_, tensors):  # halfway between two: to the even one
        tensors["output_norm.weight"][:4] = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -(1 + 2**-8)]
    import_gguf(made(tmp_path, change), tmp_path / "out")
    norm = safetensors.load(tmp_path / "out" / "model.safetensors")["model.norm.weight"]
    assert norm[:4].tolist() == [1, 1 + 2**-6, 1 + 2**-7, -1]
    header = (tmp_path / "out" / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", header[:8])[0]
    assert {entry["dtype"] for name, entry in json.loads(header[8:8 + size]).items() if name != "__metadata__"} == {"BF16"}


@pytest.mark.parametrize("name, field, words", [
    ("tokenizer.ggml.model", ("add_string", "bert"), "tokenizer.ggml.model is 'bert'; known here are gpt2, llama"),
    ("tokenizer.ggml.pre", ("add_string", "falcon"), "tokenizer.ggml.pre is 'falcon'; the pre-tokenizers known here are gpt-2, smollm"),
    ("tokenizer.ggml.pre", None, "tokenizer.ggml.pre is absent; the pre-tokenizers known here are gpt-2, smollm"),
    ("tokenizer.ggml.tokens", None, "lacks the field tokenizer.ggml.tokens"),
    ("tokenizer.ggml.eos_token_id", None, "lacks the field tokenizer.ggml.eos_token_id"),
    ("tokenizer.ggml.eos_token_id", ("add_uint32", 264), "tokenizer.ggml.eos_token_id is 264, must be from 0 to 263"),
    ("tokenizer.ggml.add_space_prefix", ("add_bool", True), "tokenizer.ggml.add_space_prefix is True; only False"),
    ("tokenizer.ggml.add_sep_token", ("add_bool", True), "tokenizer.ggml.add_sep_token is True; only False"),
    ("tokenizer.ggml.normalizer", ("add_string", "x"), "tokenizer.ggml.normalizer ('x'), whose meaning is not known"),
    ("tokenizer.ggml.tokens", ("add_array", ["a"] * 264), "has 'a' twice, as 0 and 263"),
    ("tokenizer.ggml.token_type", ("add_array", [1] * 263), "264 and tokenizer.ggml.token_type 263"),
    ("tokenizer.ggml.token_type", ("add_array", [6] * 264), "tokenizer.ggml.token_type says 6 of token 0"),
    ("tokenizer.ggml.merges", ("add_array", ["a b", "b c"]), "tokenizer.ggml.merges, string 1: 'b c' must be two tokens"),
    ("tokenizer.ggml.merges", ("add_array", ["ab"]), "tokenizer.ggml.merges, string 0: 'ab' must be two tokens"),
    ("tokenizer.chat_template", ("add_uint32", 1), "tokenizer.chat_template is 1, must be a string"),
    ("llama.rope.scaling.type", ("add_string", "yarn"), "llama.rope.scaling.type is 'yarn'; known here are none, linear"),
    ("llama.rope.scaling.factor", ("add_float32", 0.5), "llama.rope.scaling.factor is 0.5, must be at least 1"),
    ("llama.rope.scaling.attn_factor", ("add_float32", 2), "llama.rope.scaling.attn_factor (2.0), whose meaning is not known"),
    ("llama.rope.dimension_count", ("add_uint32", 4), "llama.rope.dimension_count is 4; only 8 can be imported"),
    ("llama.rope.freq_base", ("add_float32", float("nan")), "llama.rope.freq_base is nan, must be finite and above 0"),
    ("llama.expert_count", ("add_uint32", 8), "llama.expert_count is 8; only 0 can be imported"),
    ("llama.attention.causal", ("add_bool", False), "llama.attention.causal is False; only True can be imported"),
    ("llama.logit_scale", ("add_float32", 0.5), "llama.logit_scale (0.5), whose meaning is not known"),
    ("llama.attention.sliding_window", ("add_uint32", 127), "sliding_window is 127, and contexts have up to 128 tokens"),
    ("general.type", ("add_string", "adapter"), "general.type is 'adapter'; only 'model' can be imported"),
    ("llama.attention.head_count", ("add_array", [4, 4]), "llama.attention.head_count is a list of 2, must be a positive"),
    ("llama.attention.head_count", ("add_uint32", 0), "llama.attention.head_count is 0, must be from 1"),
    ("llama.attention.head_count_kv", ("add_uint32", 3), "must be a multiple of head_count_kv, 3"),
    ("llama.attention.head_count", ("add_uint32", 6), "llama.embedding_length is 32, must be a multiple of head_count, 6"),
    ("llama.block_count", ("add_uint32", 2**31 - 1), "has 20 tensors, which are too few for the 2147483647 layers"),
    ("llama.block_count", ("add_uint32", 1), "tensor blk.1.attn_k.weight, which has no place in the model (9 such)"),
    ("llama.embedding_length", None, "lacks the field llama.embedding_length, a positive integer"),
    ("llama.attention.layer_norm_rms_epsilon", None, "lacks the field llama.attention.layer_norm_rms_epsilon"),
    ("llama.vocab_size", ("add_uint32", 300), "llama.vocab_size is 300; only 264 can be imported"),
    ("general.alignment", ("add_uint32", 48), "general.alignment is 48, must be a power of two"),
])
def test_fields_that_are_refused(tmp_path, name, field, words):
    def change(fields, _):
        fields.pop(name, None)
        if field:
            fields[name] = field
    refused(tmp_path, words, change)


@pytest.mark.parametrize("name, value", [
    ("llama.attention.sliding_window", ("add_uint32", 128)), ("llama.attention.sliding_window", ("add_uint32", 0)),
    ("llama.expert_count", ("add_uint32", 0)), ("llama.attention.causal", ("add_bool", True)),
    ("llama.tensor_data_layout", ("add_string", "Meta AI original pth")), ("general.quantization_version", ("add_uint32", 2)),
    ("split.count", ("add_uint16", 0)), ("general.type", ("add_string", "model")),
])
def test_fields_that_change_nothing(tmp_path, name, value):
    import_gguf(made(tmp_path), tmp_path / "without")
    import_gguf(made(tmp_path, lambda fields, _: fields.update({name: value})), tmp_path / "with")
    for file in os.listdir(tmp_path / "without"):
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes()


def test_another_architecture(tmp_path):
    refused(tmp_path, "general.architecture is 'gemma3'; known here are llama, qwen2, qwen3", architecture="gemma3")


@pytest.mark.parametrize("name, values, words", [
    ("blk.1.attn_q.weight", None, "lacks the tensor blk.1.attn_q.weight, of shape [32, 32] by its fields"),
    ("blk.0.attn_k.bias", np.zeros(16, np.float32), "tensor blk.0.attn_k.bias, which has no place in the model (1 such)"),
    ("blk.0.attn_rot_embd.weight", np.ones(4, np.float32), "tensor blk.0.attn_rot_embd.weight, which has no place in the model"),
    ("blk.0.attn_k.weight", np.zeros((32, 32), np.float32), "has the shape [32, 32], by its fields it would be [16, 32]"),
    ("blk.0.attn_k.weight", np.full((16, 32), np.inf, np.float32), "tensor blk.0.attn_k.weight holds values that are not finite"),
    ("blk.0.attn_v.weight", np.full((16, 32), 3.4e38, np.float32), "model.layers.0.self_attn.v_proj.weight holds values beyond bfloat16"),
    ("blk.0.attn_v.weight", np.zeros((16, 32), np.int8), "tensor blk.0.attn_v.weight has the type I8, must be F32, F16, BF16 or one of the quantized"),
])
def test_tensors_that_are_refused(tmp_path, name, values, words):
    def change(_, tensors):
        tensors.pop(name, None)
        if values is not None:
            tensors[name] = values
    refused(tmp_path, words, change)


def test_a_tensor_in_the_place_of_another(tmp_path):
    def change(_, tensors):
        tensors["blk.0.attn_k.bias"] = tensors.pop("blk.0.attn_q.weight")
    refused(tmp_path, "has the tensor blk.0.attn_k.bias, which has no place", change)


def refused_bytes(tmp_path, data, words=""):
    (tmp_path / "model.gguf").write_bytes(data)
    with pytest.raises(GgufError) as error:
        import_gguf(tmp_path / "model.gguf", tmp_path / "out")
    assert words in str(error.value), error.value
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def test_every_truncation_is_refused(tmp_path):
    data = made(tmp_path).read_bytes()
    cuts = sorted({0, 1, 3, 4, 8, 16, 24, len(data) // 2, len(data) - 1, *random.Random(0).sample(range(len(data)), 150)})
    for cut in cuts:
        refused_bytes(tmp_path, data[:cut])
    refused_bytes(tmp_path, data[:-1], "the file ends at byte")
    refused_bytes(tmp_path, b"", "is empty")
    for path in (tmp_path, "/dev/null"):
        with pytest.raises(GgufError, match=f"{path}: is no file"):
            import_gguf(path, tmp_path / "out")


def header(fields=0, tensors=0, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, fields)


def text(value):
    return struct.pack("<Q", len(value)) + value


@pytest.mark.parametrize("data, words", [
    (b"PK\3\4" + bytes(100), "is not a GGUF file"),
    (header(version=1), "has the GGUF version 1"),
    (b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + bytes(100), "in little-endian order"),
    (header(fields=2**63), "the number of fields is 9223372036854775808, which is more than the file of"),
    (header(tensors=2**40), "the number of tensors is 1099511627776, which is more than"),
    (header(fields=1) + struct.pack("<Q", 2**62) + bytes(50), "the name of field 0 would take 4611686018427387904 bytes"),
    (header(fields=1) + text(b"a") + struct.pack("<IIQ", 9, 4, 2**61) + bytes(50), "the length of a is 2305843009213693952"),
    (header(fields=1) + text(b"a") + struct.pack("<IIQ", 9, 8, 2**61) + bytes(50), "the length of a is 2305843009213693952"),
    (header(fields=1) + text(b"a") + struct.pack("<IIQ", 9, 9, 1) + bytes(50), "a is an array of the value type 9"),
    (header(fields=1) + text(b"a") + struct.pack("<I", 13) + bytes(50), "a has the unknown value type 13"),
    (header(fields=1) + text(b"a\n") + bytes(50), "the name of field 0 must be 1 to 65535 printable characters"),
    (header(fields=1) + text(b"\xff") + bytes(50), "the name of field 0 is not UTF-8"),
    (header(fields=2) + 2 * (text(b"a") + struct.pack("<II", 4, 1)) + bytes(50), "has the field a twice"),
    (header(tensors=1) + text(b"t") + struct.pack("<I", 5) + bytes(50), "tensor t has 5 dimensions"),
    (header(tensors=1) + text(b"t") + struct.pack("<IQIQ", 1, 0, 0, 0) + bytes(50), "tensor t has the shape [0]"),
    (header(tensors=1) + text(b"t") + struct.pack("<IQIQ", 1, 33, 2, 0) + bytes(50), "Q4_0 needs rows of a multiple of 32"),
    (header(tensors=1) + text(b"t") + struct.pack("<IQIQ", 1, 32, 99, 0) + bytes(50), "tensor t has the unknown type 99"),
    (header(tensors=1) + text(b"t") + struct.pack("<IQIQ", 1, 4, 0, 1) + bytes(50), "tensor t lies at 1, must be a multiple of 32"),
    (header(tensors=1) + text(b"t") + struct.pack("<IQIQ", 1, 4, 0, 2**62) + bytes(50), "tensor t would take 16 bytes from byte 4611"),
    (header(tensors=1) + text(b"t") + struct.pack("<I4QIQ", 4, *[2**63] * 4, 0, 0) + bytes(50), "tensor t would take"),
    (header(tensors=2) + 2 * (text(b"t") + struct.pack("<IQIQ", 1, 4, 0, 0)) + bytes(80), "has the tensor t twice"),
    (header() + bytes(50), "lacks the field general.architecture, one of llama, qwen2, qwen3"),
])
def test_hostile_files_are_refused(tmp_path, data, words):
    refused_bytes(tmp_path, data, words)


def test_damage_gives_a_model_or_an_error(tmp_path):
    """Any byte of the header may be another one: the import ends by itself, and never by another exception."""
    path = made(tmp_path)
    data, chance = path.read_bytes(), random.Random(1)
    header_size = data.index(b"output_norm.weight")
    for round_number in range(200):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 1, 3))):
            changed[chance.randrange(header_size)] = chance.randrange(256)
        path.write_bytes(changed)
        try:
            import_gguf(path, tmp_path / f"out{round_number}")
        except GgufError:
            assert not (tmp_path / f"out{round_number}").exists()


def command(*arguments, **options):
    return subprocess.run([ROOT / "scripts" / "import-gguf", *arguments], capture_output=True, text=True,
                          env={**os.environ, "TVQ_PYTHON": sys.executable}, **options)


def test_the_command(tmp_path):
    done = command(made(tmp_path), tmp_path / "folder" / "out", "--dtype", "float32")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'model.gguf'} -> {tmp_path / 'folder' / 'out'}\n"), done.stderr
    assert read(tmp_path / "folder" / "out" / "config.json")["torch_dtype"] == "float32"
    assert os.listdir(tmp_path / "folder") == ["out"]
    again = command(tmp_path / "model.gguf", tmp_path / "folder" / "out")
    assert again.returncode == 1 and again.stderr.startswith(f"import-gguf: {tmp_path / 'folder' / 'out'}: is there already")
    missing = command(tmp_path / "none", tmp_path / "new")
    assert missing.returncode == 1 and f"No such file or directory: '{tmp_path / 'none'}'" in missing.stderr
    assert not (tmp_path / "new").exists()


def test_nothing_is_left_where_writing_fails(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(safetensors, "save", full)
    with pytest.raises(OSError):
        import_gguf(made(tmp_path), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]
