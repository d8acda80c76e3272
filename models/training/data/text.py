"""Text as token ids, by SentencePiece (its command line tools) or as bytes, and streams of segments for training."""

import hashlib
import pathlib
import subprocess

import numpy as np
import torch

from models.training.data.batch import Batch
from models.training.data.sentencepiece_model import read_pieces
from models.training.data.token_ids import id_type
from models.training.token_bits import token_bits

SPACE = "\u2581"  # how SentencePiece spells a space


class Pieces:
    """A SentencePiece model with newline as a piece and no dummy prefix, so that decode(encode(text)) == text."""

    def __init__(self, model_file):
        self.file = str(model_file)
        self.pieces = [piece.text for piece in read_pieces(model_file)]
        self.newline = self.pieces.index("\n")
        self.end = self.pieces.index("</s>")
        self.dtype = id_type(len(self.pieces))

    def encode(self, text: str) -> np.ndarray:
        """The tool reads lines, so lines are encoded one by one and joined by the newline piece."""
        lines = text.split("\n")
        run = subprocess.run(["spm_encode", f"--model={self.file}", "--output_format=id"],
                             input="\n".join(lines + [""]).encode(), check=True, capture_output=True)
        rows = run.stdout.decode().split("\n")
        if len(rows) != len(lines) + 1:
            raise RuntimeError(f"spm_encode answered {len(rows) - 1} lines for {len(lines)}")
        ids = []
        for number, row in enumerate(rows[:-1]):
            if number:
                ids.append(self.newline)
            ids.extend(int(word) for word in row.split())
        return np.array(ids, dtype=self.dtype)

    def decode(self, ids) -> str:
        text = bytearray()
        for token in ids:
            piece = self.pieces[token]
            if len(piece) == 6 and piece.startswith("<0x"):
                text.append(int(piece[3:5], 16))
            elif piece not in ("</s>", "<pad>"):
                text.extend(piece.replace(SPACE, " ").encode())
        return text.decode("utf-8", errors="replace")

    def config_fields(self) -> dict:
        names = self.pieces
        return dict(vocab_size=len(names), unk_token_id=names.index("<unk>"), eos_token_id=self.end,
                    pad_token_id=names.index("<pad>"), tokenizer={"type": "sentencepiece", "file": "tokenizer.model"})


class Bytes:
    """The bytes tokenizer of docs/model-format.md: one id for each byte, after pad, end and unknown."""

    FIRST, SIZE = 3, 259
    end, newline = 1, FIRST + 10
    dtype = id_type(SIZE)
    file = None

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode(), np.uint8).astype(self.dtype) + self.FIRST

    def decode(self, ids) -> str:
        return bytes(int(token) - self.FIRST for token in ids if token >= self.FIRST).decode("utf-8", errors="replace")

    def config_fields(self) -> dict:
        return dict(vocab_size=self.SIZE, unk_token_id=2, eos_token_id=self.end, pad_token_id=0, tokenizer={"type": "bytes"})


def load_documents(folder, pieces, cache) -> list:
    """Token ids of every .txt file of a folder in the order of names, each beginning with the end-of-sequence id."""
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    documents = []
    for file in sorted(pathlib.Path(folder).glob("*.txt")):
        raw = file.read_bytes()
        tokenizer = pathlib.Path(pieces.file).read_bytes() if pieces.file else b""
        key = hashlib.sha256(raw + tokenizer + pieces.dtype.name.encode()).hexdigest()[:16]
        stored = cache / f"{file.stem}.{key}.npy"
        if not stored.exists():
            np.save(stored, np.concatenate([[pieces.end], pieces.encode(raw.decode("utf-8"))]).astype(pieces.dtype))
        documents.append(np.load(stored))
    if not documents:
        raise FileNotFoundError(f"no .txt files in {folder}")
    return documents


class Streams:
    """Segments of random passages. A group of `batch` passages advances together, so that its context can be carried.

    Groups take turns, so successive segments come from different places. Before each segment a group moves to fresh
    random passages with probability `restart`, and always at the end of a document. Half of the fresh passages begin
    after a newline, with the end-of-sequence id in front, so the model also knows how texts begin.
    """

    def __init__(self, documents, batch: int, length: int, groups: int, restart: float, end: int, newline: int, seed: int):
        self.documents, self.batch, self.length, self.restart = documents, batch, length, restart
        self.end, self.newline = end, newline
        sizes = np.array([max(0, len(document) - length - 1) for document in documents], dtype=np.float64)
        if sizes.sum() == 0:
            raise ValueError(f"no document is longer than a segment of {length} tokens")
        self.chances = sizes / sizes.sum()
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.places = [None] * groups  # per group: [(document, offset)] * batch
        self.turn = 0

    def _fresh(self):
        """-> (document, offset, whether the end-of-sequence id stands before it)"""
        number = int(self.random.choice(len(self.documents), p=self.chances))
        document = self.documents[number]
        offset = int(self.random.integers(len(document) - self.length))
        if self.random.random() < 0.5:
            return number, offset, False
        breaks = np.nonzero(document[offset:len(document) - self.length] == self.newline)[0]
        return (number, offset + int(breaks[0]) + 1, True) if len(breaks) else (number, 0, False)

    def next(self) -> Batch:
        """The next batch. Its context is the number of its group."""
        group = self.turn
        self.turn = (self.turn + 1) % len(self.places)
        places = self.places[group]
        fresh = places is None or self.random.random() < self.restart
        fresh = fresh or any(at + self.length + 1 > len(self.documents[number]) for number, at in places)
        rows, after = [], []
        for row in range(self.batch):
            number, offset, with_end = self._fresh() if fresh else (*places[row], False)
            taken = self.documents[number][offset:offset + self.length + 1 - with_end]
            rows.append(np.concatenate([[self.end], taken]) if with_end else taken)
            after.append((number, offset + self.length - with_end))
        self.places[group] = after
        return Batch(torch.from_numpy(np.stack(rows).astype(np.int64)), group, fresh)

    def state_dict(self):
        return {"random": self.random.bit_generator.state, "places": list(self.places), "turn": self.turn}

    def load_state_dict(self, state):
        self.random.bit_generator.state = state["random"]
        self.places, self.turn = list(state["places"]), state["turn"]


class Text:
    """The task: passages of documents, and other documents to validate with."""

    unit = "bits per byte"

    def __init__(self, pieces, training, validation, shapes, groups: int, validate_tokens: int):
        self.pieces, self.training, self.validation = pieces, training, validation
        self.shapes, self.groups, self.validate_tokens = sorted(shapes), groups, validate_tokens
        self.stages = tuple(begin for begin, *_ in self.shapes)
        self.size = sum(map(len, training))

    @classmethod
    def from_options(cls, options) -> "Text":
        pieces = Pieces(options.tokenizer) if options.tokenizer else Bytes()
        training = load_documents(options.data / "train", pieces, options.out / "tokens")
        validation = load_documents(options.data / "validation", pieces, options.out / "tokens")
        return cls(pieces, training, validation, options.stages, options.groups, options.validate_tokens)

    def config_fields(self) -> dict:
        return self.pieces.config_fields()

    def source(self, stage: int, seed: int) -> Streams:
        _, batch, length, restart = self.shapes[stage]
        return Streams(self.training, batch, length, self.groups, restart, self.pieces.end, self.pieces.newline, seed)

    def prepare(self, model) -> None:
        """Nothing about the model follows from the data."""

    def validate(self, model) -> float:
        """Measures the first tokens of every validation document."""
        bits = size = 0.0
        for document in self.validation:
            ids = document[:self.validate_tokens + 1]
            bits += token_bits(model, ids).sum()
            size += len(self.pieces.decode(ids).encode())
        return float(bits / size)
