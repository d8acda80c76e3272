"""Reads GGUF files, the format of llama.cpp. A file may be hostile: everything in it is checked before it is used.

The header is read here, since the reader of the `gguf` package trusts all counts in a file. The package is used for the tensor
types. GgufError says what is wrong and where.
"""

import dataclasses
import math
import mmap
import os
import struct
from importlib.metadata import version

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LONGEST_NAME = 65535
MOST_DIMENSIONS = 4
UINT32, BOOL, STRING, ARRAY = 4, 7, 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", UINT32: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}


class GgufError(Exception):
    """Says which file cannot be imported, and why."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple  # the outermost dimension first, as in numpy
    type: GGMLQuantizationType
    data: memoryview

    def to_float32(self) -> np.ndarray:
        block, size = GGML_QUANT_SIZES[self.type]
        rows = np.frombuffer(self.data, np.uint8).reshape(*self.shape[:-1], self.shape[-1] // block * size)
        if self.type == GGMLQuantizationType.F32:
            values = rows.view("<f4")
        elif self.type == GGMLQuantizationType.F16:
            values = rows.view("<f2").astype(np.float32)
        else:
            try:
                with np.errstate(all="ignore"):  # values that are not finite are reported below
                    values = dequantize(rows, self.type)
            except NotImplementedError:
                raise GgufError(f"tensor {self.name} has the type {self.type.name}, must be F32, F16, BF16 or one of the quantized types "
                                f"that gguf {version('gguf')} dequantizes") from None
        values = values.reshape(self.shape).astype(np.float32, copy=False)
        if not np.isfinite(values).all():
            raise GgufError(f"tensor {self.name} holds values that are not finite")
        return values


@dataclasses.dataclass(frozen=True)
class GgufFile:
    fields: dict  # by name: bool, int, float, str, or a list of one of them
    tensors: dict  # by name


class Cursor:
    """Reads values from a file, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size: int, what: str) -> memoryview:
        if size > len(self.data) - self.at:
            raise GgufError(f"{what} would take {size} bytes from byte {self.at}, but the file ends at byte "
                            f"{len(self.data)}: it is cut off or damaged")
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, code: str, what: str):
        return struct.unpack("<" + code, self.take(struct.calcsize(code), what))[0]

    def count(self, least: int, what: str) -> int:
        """Reads the number of items that follow. Each takes at least `least` bytes, so the file limits the number."""
        value = self.number("Q", what)
        if value > (len(self.data) - self.at) // least:
            raise GgufError(f"{what} is {value}, which is more than the file of {len(self.data)} bytes can hold: it is cut off "
                            "or damaged")
        return value

    def text(self, what: str) -> str:
        size = self.number("Q", f"the length of {what}")
        try:
            return str(self.take(size, what), "utf-8")
        except UnicodeDecodeError:
            raise GgufError(f"{what} is not UTF-8") from None

    def value(self, kind: int, what: str):
        if kind in NUMBERS:
            return self.number(NUMBERS[kind], what)
        if kind == BOOL:
            return bool(self.number("B", what))
        if kind == STRING:
            return self.text(what)
        if kind == ARRAY:
            return self.array(what)
        raise GgufError(f"{what} has the unknown value type {kind}")

    def array(self, what: str) -> list:
        kind = self.number("I", what)
        if kind == STRING:
            return [self.text(f"{what}, string {i}") for i in range(self.count(8, f"the length of {what}"))]
        if kind not in NUMBERS and kind != BOOL:
            raise GgufError(f"{what} is an array of the value type {kind}; numbers, booleans and strings can be read")
        dtype = np.dtype("<" + NUMBERS[kind]) if kind in NUMBERS else np.dtype(bool)
        count = self.count(dtype.itemsize, f"the length of {what}")
        data = self.take(count * dtype.itemsize, what)
        return np.frombuffer(data, np.uint8 if kind == BOOL else dtype).astype(dtype).tolist()


def read_gguf(path) -> GgufFile:
    """The tensors' bytes stay in the file until they are used."""
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would wait
        raise GgufError(f"{path}: is no file")
    with open(path, "rb") as file:
        try:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:
            raise GgufError(f"{path}: is empty") from None
    try:
        return parse(data)
    except GgufError as error:
        raise GgufError(f"{path}: {error}") from None


def parse(data: memoryview) -> GgufFile:
    cursor = Cursor(data)
    if bytes(data[:4]) != MAGIC:
        raise GgufError("is not a GGUF file: it does not begin with the letters GGUF")
    cursor.at = 4
    version = cursor.number("I", "the version")
    if version not in VERSIONS:
        raise GgufError(f"has the GGUF version {version}; versions 2 and 3 can be read, in little-endian order")
    tensor_count = cursor.count(24, "the number of tensors")
    field_count = cursor.count(13, "the number of fields")
    fields = {}
    for number in range(field_count):
        name = short_text(cursor, f"the name of field {number}")
        if name in fields:
            raise GgufError(f"has the field {name} twice")
        fields[name] = cursor.value(cursor.number("I", f"the value type of {name}"), name)
    alignment = fields.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise GgufError(f"general.alignment is {alignment!r}, must be a power of two")
    described = [tensor_header(cursor, number) for number in range(tensor_count)]
    begin = (cursor.at + alignment - 1) // alignment * alignment
    tensors = {}
    for name, shape, kind, offset in described:
        if name in tensors:
            raise GgufError(f"has the tensor {name} twice")
        if offset % alignment:
            raise GgufError(f"tensor {name} lies at {offset}, must be a multiple of {alignment}")
        block, size = GGML_QUANT_SIZES[kind]
        cursor.at = begin + offset
        tensors[name] = Tensor(name, shape, kind, cursor.take(math.prod(shape) // block * size, f"tensor {name}"))
    return GgufFile(fields, tensors)


def short_text(cursor: Cursor, what: str) -> str:
    value = cursor.text(what)
    if not value or len(value) > LONGEST_NAME or not value.isprintable():
        raise GgufError(f"{what} must be 1 to {LONGEST_NAME} printable characters")
    return value


def tensor_header(cursor: Cursor, number: int):
    """-> (name, shape, type, offset)"""
    name = short_text(cursor, f"the name of tensor {number}")
    dimensions = cursor.number("I", f"the number of dimensions of {name}")
    if not 0 < dimensions <= MOST_DIMENSIONS:
        raise GgufError(f"tensor {name} has {dimensions} dimensions, must have 1 to {MOST_DIMENSIONS}")
    shape = tuple(cursor.number("Q", f"the shape of {name}") for _ in range(dimensions))[::-1]
    number = cursor.number("I", f"the type of {name}")
    offset = cursor.number("Q", f"the place of {name}")
    try:
        kind = GGMLQuantizationType(number)
    except ValueError:
        raise GgufError(f"tensor {name} has the unknown type {number}") from None
    block = GGML_QUANT_SIZES[kind][0]
    if min(shape) == 0 or shape[-1] % block:
        raise GgufError(f"tensor {name} has the shape {list(shape)}; {kind.name} needs rows of a multiple of {block} values")
    return name, shape, kind, offset
