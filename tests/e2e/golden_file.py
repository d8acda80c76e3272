"""Reads safetensors files with numpy."""

import json

import numpy as np

DTYPES = {"F32": np.float32, "I32": np.int32}


def read(path):
    data = path.read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + header_bytes])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + header_bytes + begin:8 + header_bytes + end]
        tensors[name] = np.frombuffer(raw, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors
