"""What tvq-verify is given, by the kind of tokens."""

import struct

import numpy as np

from models.training import expected
from models.training.data.characters import END, Characters
from models.training.export import tensors_of
from models.training.files import safetensors
from models.training.files.directory import write_model

from conftest import random_model


def test_pairs_follow_each_other_as_in_training(tmp_path):
    characters = Characters(["\n", "春", "风", "秋", "月"])
    characters.save(tmp_path / "characters.txt")
    model = random_model(tokenizer={"type": "characters", "file": "characters.txt", "first_id": 3})
    (tmp_path / "pairs.tsv").write_text("春\t秋\n春风\t秋月\n", encoding="utf-8")
    assert expected.read_ids(tmp_path, model.config, tmp_path / "pairs.tsv").tolist() == [
        END, 4, 3, 6, END, 4, 5, 3, 6, 7]


def test_writes_the_log_probabilities_of_images(tmp_path, monkeypatch):
    shape = {"type": "pixels", "height": 20, "width": 20, "channels": 1, "levels": 16}
    model = random_model(vocab_size=17, eos_token_id=16, pe_abs=True, tokenizer=shape).float()
    write_model(tmp_path, model.config, tensors_of(model))
    images = np.random.default_rng(0).integers(0, 256, (2, 20, 20)).astype(np.uint8)
    (tmp_path / "images").write_bytes(b"\0\0\x08\x03" + struct.pack(">III", *images.shape) + images.tobytes())
    arguments = ["expected", tmp_path, tmp_path / "images", tmp_path / "out.safetensors", "--last-rows", "3"]
    monkeypatch.setattr("sys.argv", list(map(str, arguments)))
    expected.main()
    out = safetensors.load(tmp_path / "out.safetensors")
    ids = out["text.tokens"]
    assert ids[0] == ids[401] == 16 and (ids[1:401] == images[0].ravel() // 16).all()
    rows = expected.log_probabilities(model.double(), ids)
    assert out["text.last_logprobs"].shape == (3, 17)
    assert np.abs(out["text.target_logprobs"] - rows[np.arange(639), ids[1:]]).max() < 1e-5  # float32 of values below 64
