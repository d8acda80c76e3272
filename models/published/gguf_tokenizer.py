"""The tokenizer of a GGUF file (byte-level BPE, kind `gpt2`) as Hugging Face's tokenizer.json and tokenizer_config.json."""

from models.published.gguf_fields import Fields
from models.published.gguf_file import GgufError

PREFIX = "tokenizer.ggml."
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # types of tokens
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
# What cuts a text before merges, by the name that llama.cpp has for it.
PRE_TOKENIZERS = {
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]},
}
ENDS = ("eos", "eot", "eom")  # of a text, of a turn, of a message
TEMPLATE = "tokenizer.chat_template"
# Ids that a use of the model may want, and a repetition of the rest in another form.
HARMLESS = {PREFIX + name for name in (
    "scores", "seperator_token_id", "cls_token_id", "mask_token_id", "fim_pre_token_id", "fim_suf_token_id",
    "fim_mid_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id")} | {"tokenizer.huggingface.json"}


class Tokenizer:
    def __init__(self, fields: Fields):
        if PREFIX + "model" not in fields.values:
            raise GgufError(f"lacks the field {PREFIX}model: it has no tokenizer")
        fields.must_be(PREFIX + "model", "gpt2")
        self.pre = pre_tokenizer(fields)
        for flag in ("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix"):
            fields.must_be(PREFIX + flag, False, False)
        self.tokens, self.types = fields.list_of(PREFIX + "tokens", str), fields.list_of(PREFIX + "token_type", int)
        self.vocabulary = vocabulary(self.tokens, self.types)
        self.merges = merges(fields.list_of(PREFIX + "merges", str), self.vocabulary)
        self.ids = special_ids(fields, len(self.tokens))
        self.templates = templates(fields)
        fields.refuse_others("tokenizer.", HARMLESS)

    def tokenizer_json(self) -> dict:
        added = [{"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                  "special": kind == CONTROL}
                 for number, (token, kind) in enumerate(zip(self.tokens, self.types)) if kind != NORMAL]
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                 "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                 "vocab": self.vocabulary, "merges": self.merges}
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                "pre_tokenizer": self.pre, "post_processor": None, "decoder": {**BYTE_LEVEL, "add_prefix_space": True},
                "model": model}

    def tokenizer_config(self, context: int) -> dict:
        config = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "add_bos_token": False,
                  "clean_up_tokenization_spaces": False, "model_max_length": context}
        for name, number in self.special("bos", "eos", "pad", "unk").items():
            config[f"{name}_token"] = self.tokens[number]
        if list(self.templates) == ["default"]:
            config["chat_template"] = self.templates["default"]
        elif self.templates:
            config["chat_template"] = [{"name": name, "template": text} for name, text in self.templates.items()]
        return config

    def special_config(self) -> dict:
        """What config.json and generation_config.json say of ids; those that end a text are a list if there are several."""
        ends = list(dict.fromkeys(self.special(*ENDS).values()))
        config = {f"{name}_token_id": number for name, number in self.special("bos", "eos", "pad").items()}
        return {**config, "eos_token_id": ends[0] if len(ends) == 1 else ends}

    def special(self, *names: str) -> dict:
        return {name: self.ids[name] for name in names if name in self.ids}


def pre_tokenizer(fields: Fields) -> dict:
    name = fields.text(PREFIX + "pre")
    if name not in PRE_TOKENIZERS:
        raise GgufError(f"{PREFIX}pre is {name!r}; the pre-tokenizers known here: {', '.join(PRE_TOKENIZERS)}")
    return PRE_TOKENIZERS[name]


def vocabulary(tokens: list, types: list) -> dict:
    if not tokens or len(tokens) != len(types):
        raise GgufError(f"{PREFIX}tokens has {len(tokens)} and {PREFIX}token_type {len(types)}; both must have one for each id")
    for number, kind in enumerate(types):
        if kind not in (NORMAL, CONTROL, USER_DEFINED):
            raise GgufError(f"{PREFIX}token_type says {kind} of token {number}; known are {NORMAL} (normal), {CONTROL} (control) "
                            f"and {USER_DEFINED} (defined by a user)")
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) < len(tokens):
        number = next(number for number, token in enumerate(tokens) if ids[token] != number)
        raise GgufError(f"{PREFIX}tokens has {tokens[number]!r} twice, as {number} and {ids[tokens[number]]}")
    return ids


def merges(lines: list, ids: dict) -> list:
    pairs = [line.split(" ") for line in lines]
    for number, pair in enumerate(pairs):
        if len(pair) != 2 or pair[0] not in ids or pair[1] not in ids or "".join(pair) not in ids:
            raise GgufError(f"{PREFIX}merges, string {number}: {lines[number][:60]!r} must be two tokens, a space between, that "
                            "make a third")
    return pairs


def special_ids(fields: Fields, size: int) -> dict:
    """By their short names. The id that ends a text must be there."""
    found = {}
    names = {"bos": "bos", "eos": "eos", "eot": "eot", "eom": "eom", "pad": "padding", "unk": "unknown"}
    for name, theirs in names.items():
        field = f"{PREFIX}{theirs}_token_id"
        if field not in fields.values and name != "eos":
            continue
        found[name] = fields.take(field, (int,), "the id of a token")
        if not 0 <= found[name] < size:
            raise GgufError(f"{field} is {found[name]}, must be from 0 to {size - 1}")
    return found


def templates(fields: Fields) -> dict:
    """Chat templates by their names."""
    found = {}
    if TEMPLATE in fields.values:
        found["default"] = fields.text(TEMPLATE)
    for field in fields.values:
        if field.startswith(TEMPLATE + "."):
            found[field[len(TEMPLATE) + 1:]] = fields.text(field)
    if TEMPLATE + "s" in fields.values:
        fields.list_of(TEMPLATE + "s", str)  # their names once more
    return found
