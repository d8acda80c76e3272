"""The safetensors file format: an 8-byte little-endian header length, a JSON header, the tensors' bytes.

The metadata hold the CRC-32 of each tensor's bytes as `crc32.<tensor>`, so that a reader notices damage.
Bfloat16 tensors are uint16 arrays wrapped in `BFloat16`, since numpy has no such type.
"""

import json
import os
import pathlib
import struct
import zlib
from typing import Dict

import numpy as np

DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
          "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_}
ALIGNMENT = 64  # of the tensors' bytes in the file, for aligned reads from a memory map


class BFloat16:
    """The bits of a bfloat16 tensor."""

    def __init__(self, bits: np.ndarray):
        self.bits = bits.astype(np.uint16)

    @classmethod
    def rounded(cls, values: np.ndarray) -> "BFloat16":
        """Rounds finite float32 to nearest, ties to even."""
        raw = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return cls((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16)

    def to_float32(self) -> np.ndarray:
        return (self.bits.astype(np.uint32) << 16).view(np.float32)


def save(path, tensors: Dict[str, object], metadata: Dict[str, str] = None) -> None:
    """Writes numpy arrays and BFloat16, sorted by name. The file appears complete or not at all."""
    header, chunks, at = {}, [], 0
    checksums = header["__metadata__"] = dict(metadata or {})
    for name in sorted(tensors):
        value = tensors[name]
        array = value.bits if isinstance(value, BFloat16) else value
        dtype = "BF16" if isinstance(value, BFloat16) else name_of_dtype(name, array)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # without a copy: it may be large
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        checksums[f"crc32.{name}"] = f"{zlib.crc32(data):08x}"
        chunks.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    partial = pathlib.Path(str(path) + ".partial")
    with open(partial, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for data in chunks:
            file.write(data)
    os.replace(partial, path)


def name_of_dtype(name: str, array: np.ndarray) -> str:
    for label, dtype in DTYPES.items():
        if array.dtype == dtype:
            return label
    raise ValueError(f"tensor {name} has dtype {array.dtype}, which safetensors does not know")


def load(path) -> Dict[str, np.ndarray]:
    """All tensors of a file; bfloat16 widened to float32. ValueError names the file and the tensor."""
    raw = pathlib.Path(path).read_bytes()
    if len(raw) < 8 or 8 + struct.unpack("<Q", raw[:8])[0] > len(raw):
        raise ValueError(f"{path}: not a safetensors file, or cut off in its header")
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    try:
        header = json.loads(raw[8:begin])
    except ValueError as error:
        raise ValueError(f"{path}: the header is not JSON: {error}") from None
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        data, shape = raw[begin + first:begin + last], entry["shape"]
        dtype = np.uint16 if entry["dtype"] == "BF16" else DTYPES.get(entry["dtype"])
        if dtype is None:
            raise ValueError(f"{path}: tensor {name} has the unknown dtype {entry['dtype']}")
        if len(data) != int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize:
            raise ValueError(f"{path}: tensor {name} of shape {shape} does not fit its bytes {first}..{last}")
        array = np.frombuffer(data, dtype).reshape(shape)
        tensors[name] = BFloat16(array).to_float32() if entry["dtype"] == "BF16" else array.copy()
    return tensors
