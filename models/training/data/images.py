"""Images as sequences of pixels in raster order, the channels of a pixel together, after the end-of-sequence id:
eos p[0] ... p[height * width * channels - 1]."""

import lzma
import math
import pathlib
import struct
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F

from models.training.data.sequences import Sequences, begin_at_frequencies

HELD_OUT = 1000  # images kept out of training, to choose the best checkpoint; of fewer than 10,000 a tenth, at least one
VALIDATED = 200  # how many of them each validation uses
EVALUATION_IMAGES = {"cpu": 8, "cuda": 100}  # images of a batch
EMBEDDING_SCALE = 0.25  # standard deviation at the start


IDX = b"\0\0\x08"  # the beginning of an idx file of bytes; the number of its dimensions follows


def read_images(path, shape=None) -> np.ndarray:
    """-> [n, height, width] or [n, height, width, channels] uint8, from an idx file, or from bytes without a header if the shape
    of an image (height, width, channels) is given; .xz is unpacked. ValueError names the file, also if its header has another
    shape than the one given."""
    path = pathlib.Path(path)
    with lzma.open(path) if path.suffix == ".xz" else open(path, "rb") as file:
        raw = file.read()
    if len(raw) >= 16 and raw[:3] == IDX and raw[3] in (3, 4):
        begin = 4 + 4 * raw[3]
        sides = struct.unpack(f">{raw[3]}I", raw[4:begin]) if len(raw) >= begin else (0,)
    elif shape is not None:
        begin, sides = 0, (len(raw) // math.prod(shape), *shape)
    else:
        raise ValueError(f"{path}: not an idx file of images (bytes in three dimensions, or four), and their shape is not given")
    if len(raw) != begin + math.prod(sides) or len(raw) == begin:
        raise ValueError(f"{path}: {len(raw)} bytes do not hold {sides[0]} images of {' x '.join(map(str, sides[1:]))}")
    if shape is not None and (*sides[1:], 1)[:3] != tuple(shape):
        raise ValueError(f"{path}: holds images of {' x '.join(map(str, sides[1:]))} by its header, and "
                         f"{' x '.join(map(str, shape))} (height, width, channels) was given as their shape")
    return np.frombuffer(raw, np.uint8, offset=begin).reshape(sides)


def shape_of(tokenizer: dict):
    """The shape of an image, from a config's tokenizer."""
    return tokenizer["height"], tokenizer["width"], tokenizer["channels"]


def parse_shape(text: str):
    """HEIGHTxWIDTHxCHANNELS"""
    height, width, channels = (int(side) for side in text.split("x"))
    if min(height, width, channels) < 1:
        raise ValueError(f"an image of {text} has no pixels")
    return height, width, channels


def to_levels(images: np.ndarray, levels: int) -> np.ndarray:
    """Values 0..255 as levels 0..levels-1 (1 to 256 of them), of equal width."""
    return (images.astype(np.uint16) * levels) >> 8


def sequences_of(images: np.ndarray, levels: int) -> np.ndarray:
    """[n, 1 + height * width * channels]; the id `levels` ends and begins an image."""
    pixels = to_levels(images, levels).reshape(len(images), -1)
    return np.concatenate([np.full((len(images), 1), levels, np.uint16), pixels.astype(np.uint16)], 1)


class Images:
    """The task: training images, and images held out from them. ValueError unless there are 1 to 256 levels."""

    unit = "bits per dimension"
    stages = (0.0,)

    def __init__(self, train: np.ndarray, levels: int, batch_tokens: int, held_out=None):
        if not 1 <= levels <= 256:
            raise ValueError(f"{levels} levels of a pixel are asked for, must be 1 to 256, for images are bytes")
        held_out = min(HELD_OUT, max(1, len(train) // 10)) if held_out is None else held_out
        if held_out >= len(train):
            raise ValueError(f"{len(train)} image{'s do' if len(train) != 1 else ' does'} not leave any to train on beside "
                             f"{held_out} held out")
        self.shape, self.levels, self.batch_tokens = (*train.shape[1:], 1)[:3], levels, batch_tokens
        ids = sequences_of(train, levels)
        self.training, self.held_out = ids[:len(ids) - held_out], ids[len(ids) - held_out:]
        self.size = self.training.size

    def config_fields(self) -> dict:
        return dict(vocab_size=self.levels + 1, eos_token_id=self.levels, max_position=0,
                    tokenizer={"type": "pixels", **dict(zip(("height", "width", "channels"), self.shape)),
                               "levels": self.levels})

    def source(self, stage: int, seed: int) -> Sequences:
        return Sequences([self.training], self.batch_tokens, seed)

    def prepare(self, model) -> None:
        """Sets the embeddings of levels to points of a smooth curve: near levels have near embeddings. So what is learned about a
        level holds for its neighbours, and the many rare levels need few examples."""
        begin_at_frequencies(model, np.bincount(self.training.ravel(), minlength=self.levels + 1))
        width = model.config.d_model
        random = torch.Generator().manual_seed(0)
        level = torch.linspace(0, 1, self.levels)[:, None]
        frequency = torch.randn(1, width, generator=random) * 4
        phase = torch.rand(1, width, generator=random) * 2 * math.pi
        with torch.no_grad():
            model.embedding.weight.mul_(EMBEDDING_SCALE)
            model.embedding.weight[:self.levels] = EMBEDDING_SCALE * math.sqrt(2) * torch.cos(frequency * level * math.pi + phase)

    def validate(self, model) -> float:
        return float(image_bits(model, self.held_out[:VALIDATED]).mean())


@torch.no_grad()
def image_bits(model, sequences: np.ndarray, batch: Optional[int] = None) -> np.ndarray:
    """Bits per dimension of each image: minus the mean of log2 of its pixels' probabilities. `batch` images at a time."""
    was_training, device = model.training, model.lm_head.bias.device
    batch = batch or EVALUATION_IMAGES.get(device.type, 8)
    model.eval()
    bits = []
    for begin in range(0, len(sequences), batch):
        tokens = torch.from_numpy(sequences[begin:begin + batch].astype(np.int64)).to(device)
        logits = model(tokens[:, :-1], model.initial_state(len(tokens))).logits.float()
        nats = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        bits.append(nats.reshape(len(tokens), -1).double().mean(1).cpu().numpy() / math.log(2))
    model.train(was_training)
    return np.concatenate(bits)
