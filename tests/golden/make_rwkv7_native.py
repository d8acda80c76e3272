"""Makes rwkv7_native: a corner of the golden model rwkv7_pieces, cut from both of its forms in the same way.

    make_rwkv7_native.py RWKV7_PIECES    RWKV7_PIECES has model.pth and model.safetensors
"""

import json
import pathlib
import sys
import zipfile
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "models" / "published")]
import torch_save  # noqa: E402

from models.published.torch_file import read_torch_file  # noqa: E402
from models.training.files import safetensors  # noqa: E402

# Numbers kept of each dimension: heads, 1, rank of v, of a and w, of g, head, hidden, inner, vocabulary.
KEPT = {2: 1, 1: 1, 8: 2, 16: 4, 24: 3, 64: 64, 128: 64, 512: 6, 1024: 5}


def corner(values: np.ndarray) -> np.ndarray:
    """Its bfloat16 bits, cut off and not rounded."""
    kept = values[tuple(slice(KEPT[size]) for size in values.shape)]
    return (np.ascontiguousarray(kept).view(np.uint32) >> 16).astype(np.uint16)


def main(source: pathlib.Path, folder: pathlib.Path):
    torch_save.save(folder / "model.pth", {name: corner(tensor.values()) for name, tensor in read_torch_file(source / "model.pth").items()})
    tensors = {name: corner(values) for name, values in safetensors.load(source / "model.safetensors").items()}
    described = {name: {"shape": bits.shape, "crc32": f"{zlib.crc32(bits.tobytes()):08x}"} for name, bits in sorted(tensors.items())}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in described.items())
    (folder / "tensors.json").write_text("{" + lines + "}\n")
    with zipfile.ZipFile(source / "model.pth") as archive:
        (folder / "data.pkl").write_bytes(archive.read("model/data.pkl"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), HERE / "rwkv7_native")
