"""Tokenizers of both kinds as tokenizer.json. That the ids of texts are right is for tests/e2e/test_import_gguf.py to say."""

import pytest
import tiny_gguf
from tiny_gguf import made, read, refused

from models.published.gguf_file import GgufError
from models.published.gguf_pre_tokenizers import PRE_TOKENIZERS
from models.published.import_gguf import import_gguf

PREFIX = "tokenizer.ggml."
WORDS = ["▁", "a", "b", "▁a", "ab", "▁ab", "abab", "aba"]
SCORES = {"ab": -1.0, "▁ab": -3.0, "abab": -4.0, "aba": -3.0, "▁a": -2.0}


def pieces(fields, change=lambda tokens, types, scores: None):
    """Puts a tokenizer of SentencePiece's kind in the place of the other, without what has a usual value."""
    tokens, types = ["<unk>", "<s>", "</s>", *WORDS], [2, 3, 3] + [1] * len(WORDS)
    tokens += [f"[PAD{number}]" for number in range(len(tokens), tiny_gguf.VOCABULARY)]
    types += [5] * (len(tokens) - len(types))
    scores = [SCORES.get(token, 0.0) for token in tokens]
    change(tokens, types, scores)
    for name in [name for name in fields if name.startswith(PREFIX)]:
        del fields[name]
    fields.update({PREFIX + "model": ("add_string", "llama"), PREFIX + "tokens": ("add_array", tokens),
                   PREFIX + "token_type": ("add_array", types), PREFIX + "scores": ("add_array", scores)})


def imported(tmp_path, change, **options):
    """-> (tokenizer.json, tokenizer_config.json, generation_config.json)"""
    import_gguf(made(tmp_path, change), tmp_path / "out", **options)
    return tuple(read(tmp_path / "out" / name) for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"))


def test_pieces_as_transformers_has_them(tmp_path):
    tokenizer, config, generation = imported(tmp_path, lambda fields, _: pieces(fields))
    assert tokenizer["normalizer"]["normalizers"] == [{"type": "Prepend", "prepend": "▁"},
                                                      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    assert [step["type"] for step in tokenizer["decoder"]["decoders"]] == ["Replace", "ByteFallback", "Fuse", "Strip"]
    assert tokenizer["pre_tokenizer"] is None and tokenizer["model"]["unk_token"] == "<unk>" and tokenizer["model"]["fuse_unk"]
    assert tokenizer["post_processor"]["single"] == [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                     {"Sequence": {"id": "A", "type_id": 0}}]
    assert tokenizer["post_processor"]["special_tokens"] == {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
    assert [(token["content"], token["special"]) for token in tokenizer["added_tokens"]] == [
        ("<unk>", True), ("<s>", True), ("</s>", True)]
    assert (config["bos_token"], config["eos_token"], config["unk_token"]) == ("<s>", "</s>", "<unk>")
    assert config["add_bos_token"] and not config["add_eos_token"] and config["add_prefix_space"]
    assert generation == {"bos_token_id": 1, "eos_token_id": 2}


def test_merges_are_all_pairs_by_score(tmp_path):
    """Of one score those with the longest left piece come first."""
    tokenizer, _, _ = imported(tmp_path, lambda fields, _: pieces(fields))
    assert tokenizer["model"]["merges"] == [["a", "b"], ["▁", "a"], ["▁a", "b"], ["ab", "a"], ["▁", "ab"], ["aba", "b"], ["ab", "ab"]]


def test_special_pieces_are_no_part_of_merges(tmp_path):
    def change(tokens, types, scores):
        tokens[11:14], types[11:14], scores[11:14] = ["<a>", "ba", "bab"], [4, 3, 5], [0.0, -1.0, -1.0]
    tokenizer, _, _ = imported(tmp_path, lambda fields, _: pieces(fields, change))
    assert len(tokenizer["model"]["merges"]) == 7
    assert "bab" not in tokenizer["model"]["vocab"] and tokenizer["model"]["vocab"]["ba"] == 12
    assert [(token["content"], token["special"]) for token in tokenizer["added_tokens"][3:]] == [("<a>", False), ("ba", True)]


def test_a_space_before_a_text_only_where_the_file_has_it(tmp_path):
    def change(fields, _):
        pieces(fields)
        fields[PREFIX + "add_space_prefix"] = ("add_bool", False)
        fields[PREFIX + "add_bos_token"] = ("add_bool", False)
        fields[PREFIX + "add_eos_token"] = ("add_bool", True)
    tokenizer, config, _ = imported(tmp_path, change)
    assert [step["type"] for step in tokenizer["normalizer"]["normalizers"]] == ["Replace"]
    assert [step["type"] for step in tokenizer["decoder"]["decoders"]] == ["Replace", "ByteFallback", "Fuse"]
    assert tokenizer["post_processor"]["single"][1] == {"SpecialToken": {"id": "</s>", "type_id": 0}}
    assert (config["add_prefix_space"], config["add_bos_token"], config["add_eos_token"]) == (False, False, True)


@pytest.mark.parametrize("count, words", [
    (256, None), (255, "tokenizer.ggml.token_type says of 255 tokens that they are bytes; must be <0x00> to <0xFF>, or none")])
def test_bytes_are_all_there_or_none(tmp_path, count, words):
    def change(tokens, types, _):
        for byte in range(count):
            tokens[tiny_gguf.VOCABULARY - 1 - byte], types[tiny_gguf.VOCABULARY - 1 - byte] = f"<0x{byte:02X}>", 6
        tokens[3:8], types[3:8] = WORDS[:5], [1] * 5
    if words:
        refused(tmp_path, words, lambda fields, _: pieces(fields, change))
    else:
        tokenizer, _, _ = imported(tmp_path, lambda fields, _: pieces(fields, change))
        assert tokenizer["model"]["byte_fallback"] is True


def test_a_piece_that_is_too_long_is_refused(tmp_path):
    def change(tokens, types, _):
        tokens[20], types[20] = 1025 * "a", 1
    refused(tmp_path, "tokenizer.ggml.tokens, string 20: has 1025 characters, must have 1024 at most", lambda fields, _: pieces(fields, change))


@pytest.mark.parametrize("scores, words", [
    ([-1000.0] * 264, "tokenizer.ggml.scores has -1000.0 for all pieces, so that their order is not known"),
    ([0.0] * 263, "tokenizer.ggml.scores must have a finite number for each of 264 tokens"),
    ([float("nan")] * 264, "tokenizer.ggml.scores must have a finite number for each of 264 tokens"),
    ([1] * 264, "tokenizer.ggml.scores must be a list of numbers"),
])
def test_scores_that_are_refused(tmp_path, scores, words):
    def change(fields, _):
        pieces(fields)
        fields[PREFIX + "scores"] = ("add_array", scores)
    refused(tmp_path, words, change)


@pytest.mark.parametrize("name, field, words", [
    ("remove_extra_whitespaces", ("add_bool", True), "tokenizer.ggml.remove_extra_whitespaces is True; only False"),
    ("precompiled_charsmap", ("add_array", [1]), "tokenizer.ggml.precompiled_charsmap (a list of 1), whose meaning is not known"),
    ("pre", ("add_string", "qwen2"), "tokenizer.ggml.pre is 'qwen2'; only 'default' can be imported"),
    ("unknown_token_id", ("add_uint32", 200), "tokenizer.ggml.unknown_token_id names '[PAD200]', which is unused by its type"),
    ("bos_token_id", ("add_uint32", 264), "tokenizer.ggml.bos_token_id is 264, must be from 0 to 263"),
    ("bos_token_id", ("add_uint32", 200), "texts begin with a token (tokenizer.ggml.add_bos_token), but tokenizer.ggml.bos_token_id"),
])
def test_fields_of_pieces_that_are_refused(tmp_path, name, field, words):
    def change(fields, _):
        pieces(fields)
        fields[PREFIX + name] = field
    refused(tmp_path, words, change)


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pre_tokenizers_by_name(tmp_path, name):
    def change(fields, _):
        fields[PREFIX + "pre"] = ("add_string", name)
        del fields[PREFIX + "add_bos_token"]
    tokenizer, config, _ = imported(tmp_path, change)
    newest = name in ("llama-bpe", "llama3", "llama-v3", "tekken")
    assert tokenizer["model"]["ignore_merges"] is newest and config["add_bos_token"] is newest
    assert (tokenizer["post_processor"] is not None) is newest
    assert tokenizer["normalizer"] == ({"type": "NFC"} if name == "qwen2" else None)
    steps = tokenizer["pre_tokenizer"].get("pretokenizers", [tokenizer["pre_tokenizer"]])
    assert steps[-1]["type"] == "ByteLevel"
    # The library's own regex cuts only where no other does.
    assert steps[-1]["use_regex"] == (not any(step["type"] == "Split" for step in steps))


def test_a_pre_tokenizer_that_the_file_does_not_name(tmp_path):
    def change(fields, _):
        del fields[PREFIX + "pre"]
    tokenizer, _, _ = imported(tmp_path, change, pre_tokenizer="qwen2")
    assert tokenizer["normalizer"] == {"type": "NFC"}


def test_a_pre_tokenizer_where_there_is_none(tmp_path):
    path = made(tmp_path, lambda fields, _: pieces(fields))
    with pytest.raises(GgufError, match="--pre-tokenizer is qwen2, but tokenizer.ggml.model is 'llama', which has none"):
        import_gguf(path, tmp_path / "out", pre_tokenizer="qwen2")


def test_rows_without_a_token(tmp_path):
    """Newer files say that they are unused, older ones that a user has defined them."""
    def change(fields, _):
        tokens, types = list(tiny_gguf.TOKENS), list(tiny_gguf.TYPES)
        tokens[250], types[250] = "[PAD250]", 5
        tokens[251], types[251] = "[PAD251]", 4
        fields[PREFIX + "tokens"], fields[PREFIX + "token_type"] = ("add_array", tokens), ("add_array", types)
        fields[PREFIX + "padding_token_id"] = ("add_uint32", 250)
    tokenizer, config, generation = imported(tmp_path, change)
    assert not {"[PAD250]", "[PAD251]"} & set(tokenizer["model"]["vocab"])
    assert [token["id"] for token in tokenizer["added_tokens"]] == [0, 1, 2, 263]
    assert "pad_token" not in config and "pad_token_id" not in generation
    assert read(tmp_path / "out" / "config.json")["vocab_size"] == 264


@pytest.mark.parametrize("text, ends", [("<|eot_id|>", [2, 0]), ("<|eom_id|>", [2, 0]), ("<|im_end|>", [2, 0]), ("<s>", 2)])
def test_what_ends_a_turn_is_found_by_its_text(tmp_path, text, ends):
    def change(fields, _):
        fields[PREFIX + "tokens"] = ("add_array", [text, "<|im_start|>", "</s>", *tiny_gguf.TOKENS[3:]])
    _, _, generation = imported(tmp_path, change)
    assert generation["eos_token_id"] == ends


def test_only_a_control_token_ends_a_turn_by_its_text(tmp_path):
    def change(fields, _):
        fields[PREFIX + "tokens"] = ("add_array", [*tiny_gguf.TOKENS[:-1], "<|eot_id|>"])
    _, _, generation = imported(tmp_path, change)
    assert generation["eos_token_id"] == 2
