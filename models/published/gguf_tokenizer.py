"""The tokenizer of a GGUF file as Hugging Face's tokenizer.json and tokenizer_config.json."""

from models.published.gguf_byte_level import ByteLevel
from models.published.gguf_fields import Fields
from models.published.gguf_file import GgufError
from models.published.gguf_pieces import Pieces
from models.published.gguf_vocabulary import PREFIX

KINDS = {"gpt2": ByteLevel, "llama": Pieces}
TEMPLATE = "tokenizer.chat_template"
# Fields that are not needed: ids for special uses of the model, and a copy of the rest in another form.
HARMLESS = {PREFIX + name for name in (
    "seperator_token_id", "cls_token_id", "mask_token_id", "fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id",
    "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id", "prefix_token_id", "suffix_token_id", "middle_token_id")} | {
        "tokenizer.huggingface.json"}


class Tokenizer:
    """`pre_tokenizer`: the name of the pre-tokenizer if the file does not name it, or names it in another way."""

    def __init__(self, fields: Fields, pre_tokenizer: str = None):
        if PREFIX + "model" not in fields.values:
            raise GgufError(f"lacks the field {PREFIX}model: it has no tokenizer")
        self.kind = KINDS[fields.one_of(PREFIX + "model", KINDS)](fields, pre_tokenizer)
        self.vocabulary = self.kind.vocabulary
        fields.must_be(PREFIX + "add_sep_token", False, False)
        self.adds_begin = fields.flag(PREFIX + "add_bos_token", self.kind.adds_begin)
        self.adds_end = fields.flag(PREFIX + "add_eos_token", False)
        if self.adds_begin and not self.has("bos"):
            raise GgufError(f"texts begin with a token ({PREFIX}add_bos_token), but {PREFIX}bos_token_id names none")
        self.templates = templates(fields)
        fields.refuse_others("tokenizer.", HARMLESS)

    def has(self, name: str) -> bool:
        """Whether there is a special token of this short name, and a text can spell it."""
        number = self.vocabulary.special.get(name)
        return number is not None and self.vocabulary.ids.get(self.vocabulary.tokens[number]) == number

    def named(self, *names: str) -> dict:
        return {name: self.vocabulary.special[name] for name in names if self.has(name)}

    def tokenizer_json(self) -> dict:
        """The content of tokenizer.json, in the order that `tokenizers` writes: its bytes are part of a model's fingerprint."""
        kind = self.kind
        model = {"type": "BPE", "dropout": None, "unk_token": kind.unknown, "continuing_subword_prefix": None,
                 "end_of_word_suffix": None, "fuse_unk": kind.unknown is not None, "byte_fallback": kind.falls_back,
                 "ignore_merges": kind.ignores_merges, "vocab": self.vocabulary.ids, "merges": kind.merges}
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": self.vocabulary.added_tokens(),
                "normalizer": kind.normalizer(), "pre_tokenizer": kind.pre_tokenizer(), "post_processor": self.post_processor(),
                "decoder": kind.decoder(), "model": model}

    def post_processor(self) -> dict:
        """The section that puts special tokens before and behind a text; None if there are none."""
        before, behind = ["bos"] if self.adds_begin else [], ["eos"] if self.adds_end else []
        if not before and not behind:
            return None
        tokens = {name: self.vocabulary.tokens[number] for name, number in self.named("bos", "eos").items()}
        wrapped = {sequence: [*({"SpecialToken": {"id": tokens[name], "type_id": kind}} for name in before),
                              {"Sequence": {"id": sequence, "type_id": kind}},
                              *({"SpecialToken": {"id": tokens[name], "type_id": kind}} for name in behind)]
                   for kind, sequence in enumerate("AB")}
        return {"type": "TemplateProcessing", "single": wrapped["A"], "pair": wrapped["A"] + wrapped["B"],
                "special_tokens": {tokens[name]: {"id": tokens[name], "ids": [self.vocabulary.special[name]], "tokens": [tokens[name]]}
                                   for name in before + behind}}

    def tokenizer_config(self, context: int) -> dict:
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": self.kind.adds_prefix,
                  "add_bos_token": self.adds_begin, "add_eos_token": self.adds_end, "clean_up_tokenization_spaces": False,
                  "model_max_length": context}
        for name, number in self.named("bos", "eos", "pad", "unk").items():
            config[f"{name}_token"] = self.vocabulary.tokens[number]
        if list(self.templates) == ["default"]:
            config["chat_template"] = self.templates["default"]
        elif self.templates:
            config["chat_template"] = [{"name": name, "template": text} for name, text in self.templates.items()]
        return config

    def special_config(self) -> dict:
        """The ids of special tokens for config.json and generation_config.json; several that end a text are a list."""
        ends = self.vocabulary.ends
        config = {f"{name}_token_id": number for name, number in self.named("bos", "eos", "pad").items()}
        return {**config, "eos_token_id": ends[0] if len(ends) == 1 else ends}


def templates(fields: Fields) -> dict:
    """Chat templates by their names."""
    found = {}
    if TEMPLATE in fields.values:
        found["default"] = fields.text(TEMPLATE)
    for field in fields.values:
        if field.startswith(TEMPLATE + "."):
            found[field[len(TEMPLATE) + 1:]] = fields.text(field)
    if TEMPLATE + "s" in fields.values:
        fields.list_of(TEMPLATE + "s", str)  # the names again, not needed
    return found
