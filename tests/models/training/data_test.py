import pathlib
import subprocess

import numpy as np
import pytest

from models.training.config import ModelConfig
from models.training.data.sentencepiece_model import CONTROL, UNKNOWN, Piece, read_pieces
from models.training.data.text import Bytes, Pieces, Streams, Text, load_documents
from models.training.data.tokenizer import load_tokenizer
from models.training.train import parser


def streams(restart=0.3, **options):
    documents = [np.arange(100, 1100, dtype=np.uint16), np.arange(5000, 5400, dtype=np.uint16)]
    return Streams(documents, **{**dict(batch=2, length=16, groups=3, restart=restart, end=1, newline=7, seed=5), **options})


def test_segments_follow_each_other_unless_the_context_begins_anew():
    source, last, followed = streams(), {}, 0
    for _ in range(300):
        batch = source.next()
        tokens, group, fresh = batch.tokens, batch.context, batch.fresh
        assert tokens.shape == (2, 17)
        if not fresh:
            followed += 1
            assert (tokens[:, 0] == last[group]).all()
        last[group] = tokens[:, -1]
        steps = np.diff(tokens.numpy(), axis=1)
        steps = steps[:, 1:] if fresh else steps  # the end id may stand before a fresh passage
        assert (steps == 1).all()
    assert 150 < followed < 260


def test_fresh_passages_after_a_newline_begin_with_the_end_id():
    documents = [np.tile(np.arange(4, 12, dtype=np.uint16), 50)]
    source = Streams(documents, batch=1, length=16, groups=1, restart=1.0, end=1, newline=7, seed=5)
    first = [source.next().tokens[0, :2].tolist() for _ in range(100)]
    begun = [pair for pair in first if pair[0] == 1]
    assert 25 < len(begun) < 75
    assert all(pair == [1, 8] for pair in begun), "8 is what follows the newline 7"


def test_state_is_restored():
    source = streams()
    for _ in range(7):
        source.next()
    other = streams(seed=77)
    other.load_state_dict(source.state_dict())
    for _ in range(20):
        ours, theirs = source.next(), other.next()
        assert ours[1:] == theirs[1:] and (ours.tokens == theirs.tokens).all()


def test_documents_shorter_than_a_segment_are_refused():
    with pytest.raises(ValueError, match="longer than a segment of 16 tokens"):
        Streams([np.zeros(16, np.uint16)], 1, 16, 1, 1.0, 1, 7, 0)


def zoo_tokenizer():
    return pathlib.Path(__file__).resolve().parents[3] / "models" / "zoo" / "novels" / "tokenizer.model"


TEXTS = ["", "\n", "One line", "  two  spaces \n\n and a\ttab\n", "caf\u00e9, \u4f60\u597d, \U0001f600\n", "a\r\nb", "x" * 5000]


@pytest.mark.parametrize("text", TEXTS)
def test_decode_undoes_encode(text):
    pieces = Pieces(zoo_tokenizer())
    ids = pieces.encode(text)
    assert pieces.decode(ids) == text
    assert pieces.pieces.index("<unk>") not in ids


def test_ids_above_65535_stay_as_they_are(monkeypatch):
    pieces = [Piece(text, 1) for text in ["\n", "</s>", *map(str, range(70_000))]]
    monkeypatch.setattr("models.training.data.text.read_pieces", lambda _: pieces)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, b"65536\n70001\n"))
    large = Pieces("large.model")
    ids = large.encode("65534\n69999")
    assert ids.tolist() == [65536, 0, 70001] and large.decode(ids) == "65534\n69999"


class Numbers:
    """Text is numbers, its ids."""
    file, end = None, 1

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)

    def encode(self, text):
        return np.array([int(word) for word in text.split()]).astype(self.dtype)


def test_documents_are_kept_in_the_type_of_their_ids(tmp_path):
    (tmp_path / "a.txt").write_text("70000 5")
    assert [ids.tolist() for ids in load_documents(tmp_path, Numbers(np.uint16), tmp_path / "cache")] == [[1, 4464, 5]]
    for _ in range(2):  # made, and read again
        documents = load_documents(tmp_path, Numbers(np.uint32), tmp_path / "cache")
        assert [ids.tolist() for ids in documents] == [[1, 70000, 5]]


def test_reads_the_pieces_of_a_model(golden):
    pieces = read_pieces(golden / "pieces_tied" / "tokenizer.model")
    assert len(pieces) == 1000
    assert [piece.text for piece in pieces[:3]] == ["<unk>", "<s>", "</s>"]
    assert [piece.type for piece in pieces[:4]] == [UNKNOWN, CONTROL, CONTROL, 1]


def test_refuses_what_is_no_model(tmp_path, golden):
    (tmp_path / "cut").write_bytes((golden / "pieces_tied" / "tokenizer.model").read_bytes()[:5000])
    with pytest.raises(ValueError, match="cut: not a SentencePiece model"):
        read_pieces(tmp_path / "cut")


def test_without_a_tokenizer_text_is_bytes(tmp_path):
    for part in ("train", "validation"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a.txt").write_bytes("a\nñ".encode())
    task = Text.from_options(parser().parse_args(["text", "--data", str(tmp_path), "--out", str(tmp_path / "run")]))
    assert [document.tolist() for document in task.training] == [[1, 100, 13, 198, 180]]
    config = ModelConfig(d_model=16, d_k=8, d_v=16, n_code=8, n_layer=1, block_len=8, mem_len=8, **task.config_fields())
    tokenizer = load_tokenizer(tmp_path, config)
    assert isinstance(tokenizer, Bytes) and config.vocab_size == 259
    assert tokenizer.decode([1, 100, 13, 198, 180, 0]) == "a\nñ"
