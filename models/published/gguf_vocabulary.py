"""The tokens of a GGUF file with their types, and the special tokens that begin and end texts."""

from models.published.gguf_fields import Fields
from models.published.gguf_file import GgufError

PREFIX = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of tokens
NAMES = {NORMAL: "normal", UNKNOWN: "unknown", CONTROL: "control", USER_DEFINED: "defined by a user", UNUSED: "unused", BYTE: "byte"}
ENDS = ("eos", "eot", "eom")  # the ends of a text, of a turn, of a message
# Tokens that end a turn or a message if the file has no field for it, as llama.cpp finds them.
ENDS_BY_TEXT = {"eot": ("<|eot_id|>", "<|im_end|>"), "eom": ("<|eom_id|>",)}


class Vocabulary:
    """`known`: the types of tokens that this kind of tokenizer may have."""

    def __init__(self, fields: Fields, known: tuple, usual_ids: dict):
        self.tokens, self.types = fields.list_of(PREFIX + "tokens", str), fields.list_of(PREFIX + "token_type", int)
        if not self.tokens or len(self.tokens) != len(self.types):
            raise GgufError(f"{PREFIX}tokens has {len(self.tokens)} and {PREFIX}token_type {len(self.types)}; both must have one for "
                            "each id")
        for number, kind in enumerate(self.types):
            if kind not in known:
                raise GgufError(f"{PREFIX}token_type says {kind} of token {number}; known are "
                                f"{', '.join(f'{one} ({NAMES[one]})' for one in known)}")
        self.ids = self.ids_of_used()
        self.special = special_ids(fields, len(self.tokens), usual_ids)
        self.ends = self.all_ends()

    def ids_of_used(self) -> dict:
        """Ids by token, without tokens that only fill up the embedding's rows; in older files their type is "user defined"."""
        used = {number: token for number, (token, kind) in enumerate(zip(self.tokens, self.types))
                if kind != UNUSED and not (kind == USER_DEFINED and token == f"[PAD{number}]")}
        ids = {token: number for number, token in used.items()}
        if len(ids) < len(used):
            number = next(number for number, token in used.items() if ids[token] != number)
            raise GgufError(f"{PREFIX}tokens has {self.tokens[number]!r} twice, as {number} and {ids[self.tokens[number]]}")
        return ids

    def of_type(self, *kinds: int) -> dict:
        return {token: number for token, number in self.ids.items() if self.types[number] in kinds}

    def added_tokens(self) -> list:
        """The added tokens, which a text may spell. The unknown token is special, too, as in transformers."""
        return [{"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                 "special": self.types[number] != USER_DEFINED}
                for token, number in self.of_type(CONTROL, USER_DEFINED, UNKNOWN).items()]

    def all_ends(self) -> list:
        """The ids that end an answer, in the order of ENDS."""
        by_text = {name: self.ids[text] for name, texts in ENDS_BY_TEXT.items() for text in texts
                   if text in self.ids and self.types[self.ids[text]] == CONTROL}
        found = {**by_text, **self.special}
        return list(dict.fromkeys(found[name] for name in ENDS if name in found))


def special_ids(fields: Fields, size: int, usual: dict) -> dict:
    """The ids of special tokens by their short names. The id that ends a text must be there."""
    found = {}
    names = {"bos": "bos", "eos": "eos", "eot": "eot", "eom": "eom", "pad": "padding", "unk": "unknown"}
    for name, theirs in names.items():
        field = f"{PREFIX}{theirs}_token_id"
        if field not in fields.values and name not in usual and name != "eos":
            continue
        found[name] = fields.take(field, (int,), "the id of a token", usual.get(name))
        if not 0 <= found[name] < size:
            raise GgufError(f"{field} is {found[name]}, must be from 0 to {size - 1}")
    return found
