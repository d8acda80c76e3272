import lzma
import struct

import numpy as np
import pytest
import torch

from conftest import random_model
from models.training import train
from models.training.data.images import Images, image_bits, parse_shape, read_images, sequences_of, to_levels
from models.training.files import checkpoint


def idx(images):
    return b"\0\0\x08" + bytes([images.ndim]) + struct.pack(f">{images.ndim}I", *images.shape) + images.tobytes()


def stripes(count=40, height=4, width=5):
    random = np.random.default_rng(0)
    return np.repeat(random.integers(0, 256, (count, height, 1)), width, 2).astype(np.uint8)


def test_reads_images_packed_and_plain(tmp_path):
    (tmp_path / "a-idx3-ubyte").write_bytes(idx(stripes()))
    (tmp_path / "a-idx3-ubyte.xz").write_bytes(lzma.compress(idx(stripes())))
    assert (read_images(tmp_path / "a-idx3-ubyte") == stripes()).all()
    assert (read_images(tmp_path / "a-idx3-ubyte.xz") == stripes()).all()


@pytest.mark.parametrize("raw, message", [
    (b"", "not an idx file of images"),
    (b"\0\0\x08\x01" + bytes(20), "not an idx file of images"),
    (idx(stripes())[:-1], "815 bytes do not hold 40 images of 4 x 5"),
    (idx(stripes()) + b"\0", "817 bytes do not hold"),
    (idx(stripes(0)), "do not hold 0 images"),
    (b"\0\0\x08\x04" + bytes(12), "16 bytes do not hold 0 images"),
    (bytes(61), "not an idx file of images"),
])
def test_names_what_is_wrong_in_a_file(tmp_path, raw, message):
    (tmp_path / "bad").write_bytes(raw)
    with pytest.raises(ValueError, match=message):
        read_images(tmp_path / "bad")


COLOURED = np.random.default_rng(1).integers(0, 256, (7, 4, 5, 3)).astype(np.uint8)


def test_reads_images_of_three_channels(tmp_path):
    (tmp_path / "a-idx4-ubyte").write_bytes(idx(COLOURED))
    (tmp_path / "a.u8.xz").write_bytes(lzma.compress(COLOURED.tobytes()))
    assert (read_images(tmp_path / "a-idx4-ubyte") == COLOURED).all()
    assert (read_images(tmp_path / "a.u8.xz", parse_shape("4x5x3")) == COLOURED).all()
    with pytest.raises(ValueError, match="420 bytes do not hold 10 images of 4 x 5 x 2"):
        read_images(tmp_path / "a.u8.xz", (4, 5, 2))
    with pytest.raises(ValueError, match="an image of 4x0x3 has no pixels"):
        parse_shape("4x0x3")


def test_a_header_must_have_the_shape_that_is_given(tmp_path):
    (tmp_path / "grey").write_bytes(idx(stripes()))
    (tmp_path / "coloured").write_bytes(idx(COLOURED))
    assert (read_images(tmp_path / "grey", (4, 5, 1)) == stripes()).all()
    assert (read_images(tmp_path / "coloured", (4, 5, 3)) == COLOURED).all()
    with pytest.raises(ValueError, match=r"grey: holds images of 4 x 5 by its header, and 5 x 4 x 1 \(height, width"):
        read_images(tmp_path / "grey", (5, 4, 1))
    with pytest.raises(ValueError, match="coloured: holds images of 4 x 5 x 3 by its header, and 4 x 5 x 1 "):
        read_images(tmp_path / "coloured", (4, 5, 1))


def test_the_channels_of_a_pixel_are_together():
    ids = sequences_of(COLOURED, 256)
    assert ids.shape == (7, 1 + 60) and ids[2, :7].tolist() == [256, *COLOURED[2, 0, 0], *COLOURED[2, 0, 1]]


def test_trains_on_images_of_three_channels(tmp_path, monkeypatch):
    (tmp_path / "a.u8.xz").write_bytes(lzma.compress(COLOURED.repeat(3, 0).tobytes()))
    shape = "--d-model 16 --d-k 8 --d-v 16 --n-layer 1 --block-len 8 --pe-abs --float32"
    monkeypatch.setattr("sys.argv", ["train", "images", "--data", str(tmp_path / "a.u8.xz"), "--out", str(tmp_path / "run"),
                                     "--image-shape", "4x5x3", "--levels", "16", "--batch-tokens", "200", "--steps", "2",
                                     *shape.split()])
    monkeypatch.setattr(train.signal, "signal", lambda *_: None)
    train.main()
    saved = checkpoint.load(tmp_path / "run" / "best.pt")
    assert saved["config"]["tokenizer"] == {"type": "pixels", "height": 4, "width": 5, "channels": 3, "levels": 16}
    assert saved["validation"] < 5  # bits of a level; 4 are those of chance


def test_levels_have_equal_width():
    every = np.arange(256, dtype=np.uint8)
    assert (to_levels(every, 256) == every).all()
    assert np.bincount(to_levels(every, 16)).tolist() == [16] * 16


def test_an_image_is_its_pixels_in_raster_order_after_the_end_id():
    image = np.arange(20, dtype=np.uint8).reshape(1, 4, 5)
    assert sequences_of(image, 256).tolist() == [[256, *range(20)]]


def test_bits_per_dimension_are_those_of_the_definition():
    model = random_model(vocab_size=17, pe_abs=True)
    ids = sequences_of(stripes(5), 16)
    tokens = torch.from_numpy(ids.astype(np.int64))
    rows = model(tokens).logits.log_softmax(-1) / -np.log(2)
    expected = rows[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0].mean(1).detach().numpy()
    # float64 model, float32 cross entropy: 24 bits of values below 64
    assert np.abs(image_bits(model, ids, batch=2) - expected).max() < 64 * 2.0 ** -22


def task(**options):
    return Images(stripes(), **{**dict(levels=16, batch_tokens=60, held_out=10), **options})


def test_held_out_images_are_not_trained_on():
    images = task()
    assert images.training.shape == (30, 21) and images.held_out.shape == (10, 21)
    assert (np.concatenate([images.training, images.held_out]) == sequences_of(stripes(), 16)).all()
    with pytest.raises(ValueError, match="40 images do not leave any to train on beside 40 held out"):
        task(held_out=40)


@pytest.mark.parametrize("levels", [0, 257])
def test_levels_are_those_of_bytes(levels):
    with pytest.raises(ValueError, match=f"{levels} levels of a pixel are asked for, must be 1 to 256"):
        task(levels=levels)


@pytest.mark.parametrize("count, held_out", [(2, 1), (9, 1), (20, 2), (20_000, 1000)])
def test_a_tenth_is_held_out_and_at_least_one(count, held_out):
    images = Images(np.zeros((count, 1, 1), np.uint8), 16, 60)
    assert (len(images.training), len(images.held_out)) == (count - held_out, held_out)
    with pytest.raises(ValueError, match="1 image does not leave any to train on beside 1 held out"):
        Images(np.zeros((1, 1, 1), np.uint8), 16, 60)


def test_config_says_what_the_server_needs():
    fields = task().config_fields()
    assert fields["vocab_size"] == 17 and fields["eos_token_id"] == 16
    assert fields["tokenizer"] == {"type": "pixels", "height": 4, "width": 5, "channels": 1, "levels": 16}


def test_near_levels_begin_with_near_embeddings():
    images = task(levels=256)
    model = random_model(vocab_size=257, d_model=64, tie_word_embeddings=True).float()
    images.prepare(model)
    rows = torch.nn.functional.normalize(model.embedding.weight[:256], dim=-1)
    assert (rows[:-1] * rows[1:]).sum(-1).min() > 0.9
    assert (rows[:128] * rows[128:]).sum(-1).abs().mean() < 0.3
