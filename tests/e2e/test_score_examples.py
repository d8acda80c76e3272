"""tvq score of files of examples, against the trainer's own measures."""

import json
import struct
import sys

import numpy as np
import pytest

from server_process import GOLDEN, ROOT

pytest.importorskip("torch")  # the trainer's measures
sys.path.insert(0, str(ROOT))
from models.training.data import couplets, images  # noqa: E402
from models.training.export import load_model  # noqa: E402
from test_draw import png  # noqa: E402

PAIRS = [("the sun", "a moon"), ("été", "ÿ ∞"), ("one", "another one"), ("x", "y")]


@pytest.fixture(scope="module")
def score(server, tvq):
    return lambda *arguments: tvq("--server", server.address, "score", *arguments)


def idx(pictures, header=None):
    return (header or struct.pack(">IIII", 0x803, *pictures.shape)) + pictures.astype(np.uint8).tobytes()


@pytest.fixture(scope="module")
def pictures():
    """14 x 14, every sample a level of the model's 16."""
    return np.random.default_rng(0).integers(0, 16, (5, 14, 14)) * 17


class Latin:
    """The byte tokenizer, for text whose characters are bytes."""

    @staticmethod
    def encode(text):
        return np.frombuffer(text.encode("latin-1"), np.uint8).astype(np.int64) + 3


def test_perplexity_of_pairs_is_the_trainers(score, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{first}\t{second}\n" for first, second in PAIRS), encoding="utf-8")
    done = score("--model", "bytes", "--pairs", tmp_path / "pairs.tsv", "--json")
    assert done.returncode == 0, done.stderr
    *lines, got = map(json.loads, done.stdout.splitlines())
    assert [line["line"] for line in lines] == [1, 2, 3, 4]
    assert sum(line["scored_tokens"] for line in lines) == got["scored_tokens"]
    assert sum(line["scored_tokens"] * line["bits_per_token"] for line in lines) == pytest.approx(
        got["scored_tokens"] * got["bits_per_token"])
    latin = [tuple(text.encode().decode("latin-1") for text in pair) for pair in PAIRS]  # the measure counts characters
    expected = couplets.second_lines(load_model(GOLDEN / "bytes_untied"), Latin, latin)
    assert got["pairs"] == len(PAIRS) and got["scored_tokens"] == expected["characters"]
    assert got["perplexity"] == pytest.approx(np.exp(expected["nats"]), rel=1e-4)
    _, first = map(json.loads, score("--model", "bytes", "--pairs", tmp_path / "pairs.tsv", "--count", 1,
                                     "--json").stdout.splitlines())
    assert first["pairs"] == 1 and first["scored_tokens"] == len(PAIRS[0][1])
    text = score("--model", "bytes", "--pairs", tmp_path / "pairs.tsv").stdout.decode()
    assert text == f"4 pairs, {got['scored_tokens']} tokens scored: perplexity {got['perplexity']:.4f} of a second text's token\n"


def test_bits_per_dimension_are_the_trainers(score, tmp_path, pictures):
    (tmp_path / "images").write_bytes(idx(pictures))
    done = score("--model", "pixels", "--images", tmp_path / "images", "--json")
    assert done.returncode == 0, done.stderr
    *lines, got = map(json.loads, done.stdout.splitlines())
    assert [line["image"] for line in lines] == [0, 1, 2, 3, 4]
    # The model has no id to begin from: what its first pixel says of the others.
    levels = images.to_levels(pictures, 16).reshape(len(pictures), -1)
    expected = images.image_bits(load_model(GOLDEN / "pixels_abs"), levels)
    assert got["images"] == 5 and got["scored_tokens"] == 5 * (14 * 14 - 1)
    assert got["bits_per_token"] == pytest.approx(expected.mean(), rel=1e-4)


def test_one_png_is_scored_as_the_same_image_of_an_idx_file(score, tmp_path, pictures):
    (tmp_path / "images").write_bytes(idx(pictures))
    (tmp_path / "one.png").write_bytes(png(pictures[0].tolist()))
    both = [score("--model", "pixels", "--images", tmp_path / name, "--count", 1, "--json").stdout
            for name in ("images", "one.png")]
    assert both[0] == both[1]


@pytest.mark.parametrize("flag, content, message", [
    ("--pairs", b"a\tb\nno tab\n", "line 2 is not two texts with a tab between them"),
    ("--pairs", b"a\t\n", "line 1 is not two texts"),
    ("--pairs", b"a\tb\tc\n", "line 1 is not two texts"),
    ("--pairs", b"", "holds no pairs"),
    ("--images", b"GIF89a", "neither a PNG file nor an idx file of images"),
    ("--images", struct.pack(">IIII", 0x803, 2, 14, 14) + bytes(14 * 14), "an idx file that ends too early"),
    ("--images", struct.pack(">III", 0x803, 2, 14), "an idx file that ends too early"),
    ("--images", struct.pack(">IIII", 0x803, 1, 14, 14) + bytes(14 * 14 + 3), "3 bytes behind its 1 images"),
    ("--images", struct.pack(">IIII", 0x803, 1, 0, 14), "images of 0 x 14 pixels; sides may be 1 to 4096"),
    ("--images", struct.pack(">IIII", 0x803, 0xFFFFFFFF, 4096, 4096), "an idx file that ends too early"),
    ("--images", struct.pack(">IIII", 0x803, 1, 13, 14) + bytes(13 * 14), "is 14 x 13 grey; the model's images are 14 x 14"),
])
def test_what_is_wrong_with_a_file_is_named(score, tmp_path, flag, content, message):
    (tmp_path / "file").write_bytes(content)
    done = score("--model", "bytes" if flag == "--pairs" else "pixels", flag, tmp_path / "file")
    assert done.returncode == 2
    assert f"{tmp_path / 'file'}" in done.stderr.decode() and message in done.stderr.decode()


def test_wrong_use_is_named(score, tmp_path, pictures):
    (tmp_path / "images").write_bytes(idx(pictures))
    done = score("--model", "bytes", "--images", tmp_path / "images")
    assert done.returncode == 2 and b"the tokens of bytes are no pixels" in done.stderr
    assert score("--model", "pixels", "--images", tmp_path / "nothing").returncode == 2
    for other in (["--file", tmp_path / "images"], ["--pairs", tmp_path / "images"], ["--session", "s"]):
        done = score("--model", "pixels", "--images", tmp_path / "images", *other)
        assert done.returncode == 2 and b"cannot be given together" in done.stderr, done.stderr
