"""Writes files as PyTorch's torch.save does, and others that only resemble them, without PyTorch."""

import dataclasses
import struct
import zipfile

import numpy as np

STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "uint16": "BFloat16Storage", "float64": "DoubleStorage"}


@dataclasses.dataclass(frozen=True)
class Raw:
    """Instructions that are written as they are."""
    code: bytes


def pickled(value) -> bytes:
    """The instructions that put a value on the stack."""
    if isinstance(value, Raw):
        return value.code
    if isinstance(value, bool) or value is None:
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        if -2**31 <= value < 2**31:
            return b"J" + struct.pack("<i", value)
        number = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(number)]) + number
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    if isinstance(value, tuple):
        return b"(" + b"".join(map(pickled, value)) + b"t"
    return b"}(" + b"".join(pickled(key) + pickled(item) for key, item in value.items()) + b"u"


def named(name: str) -> Raw:
    module, _, last = name.rpartition(".")
    return Raw(f"c{module}\n{last}\n".encode())


def call(function: str, *arguments) -> Raw:
    return Raw(named(function).code + pickled(arguments) + b"R")


def storage(key: str, count, kind="FloatStorage") -> Raw:
    return Raw(pickled(("storage", named(f"torch.{kind}"), key, "cpu", count)) + b"Q")


def tensor(of, offset, shape, strides) -> Raw:
    return call("torch._utils._rebuild_tensor_v2", of, offset, shape, strides, False, call("collections.OrderedDict"))


def whole(key: str, values: np.ndarray) -> Raw:
    """The tensor that its storage has all numbers of. uint16: the bits of bfloat16."""
    strides = tuple(stride // values.itemsize for stride in np.empty(values.shape, values.dtype).strides)
    return tensor(storage(key, values.size, STORAGES[values.dtype.name]), 0, values.shape, strides)


def write(path, described, storages: dict, compression=zipfile.ZIP_STORED, folder="model/", **others):
    """`described`: what data.pkl has, or its bytes. `others`: further files of the archive."""
    data = described if isinstance(described, bytes) else b"\x80\x02" + pickled(described) + b"."
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in {"data.pkl": data, "byteorder": b"little", "version": b"3\n", **others}.items():
            archive.writestr(f"{folder}{name}", content)
        for key, values in storages.items():
            archive.writestr(f"{folder}data/{key}", np.ascontiguousarray(values).tobytes())
    return path


def save(path, tensors: dict):
    """A file of whole tensors by name."""
    keys = {name: str(number) for number, name in enumerate(tensors)}
    return write(path, {name: whole(keys[name], values) for name, values in tensors.items()},
                 {keys[name]: values for name, values in tensors.items()})
