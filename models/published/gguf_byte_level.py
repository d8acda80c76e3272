"""Byte-level BPE, the kind `gpt2` of GGUF files, as sections of tokenizer.json."""

from models.published.gguf_fields import Fields, shown
from models.published.gguf_file import GgufError
from models.published.gguf_pre_tokenizers import BYTE_LEVEL, PRE_TOKENIZERS
from models.published.gguf_vocabulary import CONTROL, NORMAL, PREFIX, UNUSED, USER_DEFINED, Vocabulary


class ByteLevel:
    unknown, falls_back, adds_prefix = None, False, False

    def __init__(self, fields: Fields, pre_tokenizer: str = None):
        self.cut = PRE_TOKENIZERS[pre_tokenizer or named_pre_tokenizer(fields)]
        fields.used.add(PREFIX + "pre")
        fields.must_be(PREFIX + "add_space_prefix", False, False)
        self.adds_begin, self.ignores_merges = self.cut.get("adds_begin", False), self.cut.get("ignore_merges", False)
        self.vocabulary = Vocabulary(fields, (NORMAL, CONTROL, USER_DEFINED, UNUSED), {})
        self.merges = merges(fields.list_of(PREFIX + "merges", str), self.vocabulary.ids)
        fields.used.add(PREFIX + "scores")  # zeros in older files

    def normalizer(self) -> dict:
        return self.cut.get("normalizer")

    def pre_tokenizer(self) -> dict:
        return self.cut["pre_tokenizer"]

    def decoder(self) -> dict:
        return {**BYTE_LEVEL, "add_prefix_space": True}


def named_pre_tokenizer(fields: Fields) -> str:
    name = fields.values.get(PREFIX + "pre")
    if type(name) is str and name in PRE_TOKENIZERS:
        return name
    found = "is absent" if name is None else f"is {shown(name)}"
    raise GgufError(f"{PREFIX}pre {found}; the pre-tokenizers known here are {', '.join(PRE_TOKENIZERS)}. If the model's own is one of "
                    "them under another name, --pre-tokenizer NAME says so")


def merges(lines: list, ids: dict) -> list:
    pairs = [line.split(" ") for line in lines]
    for number, pair in enumerate(pairs):
        if len(pair) != 2 or pair[0] not in ids or pair[1] not in ids or "".join(pair) not in ids:
            raise GgufError(f"{PREFIX}merges, string {number}: {lines[number][:60]!r} must be two tokens, a space between, that "
                            "make a third")
    return pairs
