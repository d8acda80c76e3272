"""Training states of the reference implementation as nested dicts of numpy arrays.

Both of its on-disk forms are a msgpack of the state: a file `checkpoint_N` (Flax), or `checkpoint_N/checkpoint` (Orbax).
Arrays are msgpack extension types of Flax: 1 an array (shape, dtype name, bytes), 2 a complex number, 3 a scalar
(written as an array). Arrays above 1 GiB are dicts of flat chunks.
"""

import math
import pathlib
import re

import msgpack
import numpy as np

from models.training.files.safetensors import BFloat16

EXT_ARRAY, EXT_SCALAR = 1, 3
CHUNKED = "__msgpack_chunked_array__"


class CheckpointError(ValueError):
    """The checkpoint cannot be used; the message names the file or the parameter and what would be right."""


def find_checkpoint(path) -> pathlib.Path:
    """The msgpack file of the latest step in a folder; `path` may also be a checkpoint itself."""
    path = pathlib.Path(path)
    if path.is_file():
        return path
    if not path.is_dir():
        raise CheckpointError(f"{path}: no such folder")
    if re.search(r"checkpoint_\d+$", path.name) and (path / "checkpoint").is_file():
        return path / "checkpoint"
    steps = {}
    for entry in path.iterdir():
        match = re.fullmatch(r"checkpoint_(\d+)", entry.name)
        if match:
            steps[int(match.group(1))] = entry
    if not steps:
        raise CheckpointError(f"{path}: holds no checkpoint_N (a file, or a folder with a file named checkpoint)")
    latest = steps[max(steps)]
    if latest.is_file():
        return latest
    if not (latest / "checkpoint").is_file():
        raise CheckpointError(f"{latest}: a folder without the file named checkpoint")
    return latest / "checkpoint"


def load_checkpoint(file) -> dict:
    file = pathlib.Path(file)
    try:
        state = msgpack.unpackb(file.read_bytes(), ext_hook=_decode_extension, raw=False, strict_map_key=False)
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from None
    except Exception as error:  # the decoder raises many kinds on truncated or foreign bytes
        raise CheckpointError(f"{file}: not a whole msgpack of a training state "
                              f"({type(error).__name__}: {error})") from None
    if not isinstance(state, dict) or not isinstance(state.get("params"), dict):
        raise CheckpointError(f"{file}: a training state has an entry params, this has not")
    try:
        return {"step": state.get("step"), "params": _join_chunks(state["params"], "params")}
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from None


def _decode_extension(code: int, data: bytes):
    if code not in (EXT_ARRAY, EXT_SCALAR):
        return None  # complex numbers and unknown types, which no parameter has
    fields = msgpack.unpackb(data, raw=False)
    if not isinstance(fields, (list, tuple)) or len(fields) != 3:
        raise CheckpointError("an array without shape, dtype and bytes")
    shape, dtype, raw = fields
    if isinstance(dtype, bytes):
        dtype = dtype.decode()
    if not isinstance(shape, (list, tuple)) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise CheckpointError(f"an array of the impossible shape {shape!r}")
    kind = np.uint16 if dtype == "bfloat16" else dtype
    try:
        width = np.dtype(kind).itemsize
    except TypeError:
        raise CheckpointError(f"an array of the unknown dtype {dtype!r}") from None
    if not isinstance(raw, bytes) or math.prod(shape) * width != len(raw):
        raise CheckpointError(f"an array of shape {list(shape)} and dtype {dtype} must have "
                              f"{math.prod(shape) * width} bytes, it has {len(raw)}")
    array = np.frombuffer(raw, kind).reshape(shape)
    return BFloat16(array).to_float32() if dtype == "bfloat16" else array


def _in_order(value, path: str) -> list:
    """Flax writes a tuple as a dict with the keys "0", "1", ..."""
    if isinstance(value, dict):
        try:
            return [value[str(n)] for n in range(len(value))]
        except KeyError as missing:
            raise CheckpointError(f"{path} lacks entry {missing}") from None
    if isinstance(value, (list, tuple)):
        return list(value)
    raise CheckpointError(f"{path} must be a sequence, not {type(value).__name__}")


def _join_chunks(value, path: str):
    if not isinstance(value, dict):
        return value
    if CHUNKED not in value:
        return {name: _join_chunks(entry, f"{path}/{name}") for name, entry in value.items()}
    shape = _in_order(value.get("shape"), f"{path}/shape")
    chunks = _in_order(value.get("chunks"), f"{path}/chunks")
    if not chunks or not all(isinstance(chunk, np.ndarray) for chunk in chunks):
        raise CheckpointError(f"{path} is a chunked array without arrays as chunks")
    if not all(isinstance(n, (int, np.ndarray)) for n in shape):
        raise CheckpointError(f"{path} is a chunked array of the impossible shape {shape!r}")
    shape = [int(n) for n in shape]
    flat = np.concatenate([chunk.reshape(-1) for chunk in chunks])
    if flat.size != math.prod(shape):
        raise CheckpointError(f"{path}: chunks of {flat.size} values do not fill the shape {shape}")
    return flat.reshape(shape)
