"""SentencePiece's BPE, the kind `llama` of GGUF files, as the sections of tokenizer.json that transformers makes of it."""

import math

from models.published.gguf_fields import Fields
from models.published.gguf_file import GgufError
from models.published.gguf_vocabulary import BYTE, CONTROL, NORMAL, PREFIX, UNKNOWN, UNUSED, USER_DEFINED, Vocabulary

SPACE = "▁"
USUAL_IDS = {"unk": 0, "bos": 1, "eos": 2}
LONGEST_PIECE = 1024  # characters; each place within a piece is tried as the border between two other pieces
BYTES = {f"<0x{byte:02X}>" for byte in range(256)}


class Pieces:
    adds_begin, ignores_merges = True, False

    def __init__(self, fields: Fields, pre_tokenizer: str = None):
        if pre_tokenizer:
            raise GgufError(f"--pre-tokenizer is {pre_tokenizer}, but {PREFIX}model is 'llama', which has none")
        fields.must_be(PREFIX + "pre", "default", "default")
        fields.must_be(PREFIX + "remove_extra_whitespaces", False, False)
        self.adds_prefix = fields.flag(PREFIX + "add_space_prefix", True)
        self.vocabulary = Vocabulary(fields, (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE), USUAL_IDS)
        self.unknown = self.vocabulary.tokens[self.vocabulary.special["unk"]]
        if self.unknown not in self.vocabulary.ids:
            raise GgufError(f"{PREFIX}unknown_token_id names {self.unknown!r}, which is unused by its type, must be in use")
        scores = fields.list_of(PREFIX + "scores", float)
        if len(scores) != len(self.vocabulary.tokens) or not all(map(math.isfinite, scores)):
            raise GgufError(f"{PREFIX}scores must have a finite number for each of {len(self.vocabulary.tokens)} tokens")
        self.merges = merges(self.vocabulary.of_type(NORMAL), scores)
        self.falls_back = falls_back(set(self.vocabulary.of_type(BYTE)))

    def normalizer(self) -> dict:
        prefix = [{"type": "Prepend", "prepend": SPACE}] if self.adds_prefix else []
        return {"type": "Sequence", "normalizers": [*prefix, replaced(" ", SPACE)]}

    def pre_tokenizer(self) -> None:
        return None

    def decoder(self) -> dict:
        strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if self.adds_prefix else []
        return {"type": "Sequence", "decoders": [replaced(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]}


def replaced(text: str, by: str) -> dict:
    return {"type": "Replace", "pattern": {"String": text}, "content": by}


def falls_back(found: set) -> bool:
    if found and found != BYTES:
        raise GgufError(f"{PREFIX}token_type says of {len(found)} tokens that they are bytes; must be <0x00> to <0xFF>, or none")
    return bool(found)


def merges(ids: dict, scores: list) -> list:
    """All pairs of pieces that together make a third: by its score, highest first, then by the left piece, longest first."""
    for piece, number in ids.items():
        if len(piece) > LONGEST_PIECE:
            raise GgufError(f"{PREFIX}tokens, string {number}: has {len(piece)} characters, must have {LONGEST_PIECE} at most")
    made = [number for piece, number in ids.items() if len(piece) > 1]
    if len(made) > 1 and len({scores[number] for number in made}) == 1:
        raise GgufError(f"{PREFIX}scores has {scores[made[0]]} for all pieces, so that their order is not known: the file was made "
                        "without the tokenizer.model that has it")
    pairs = [(piece[:at], piece[at:], scores[number]) for piece, number in ids.items() for at in range(1, len(piece))
             if piece[:at] in ids and piece[at:] in ids]
    pairs.sort(key=lambda pair: (-pair[2], -len(pair[0]), -len(pair[1])))
    return [[left, right] for left, right, _ in pairs]
