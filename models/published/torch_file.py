"""Reads the tensors of a file of torch.save, without PyTorch. A file may be hostile: everything in it is checked before it is used.

The file is a zip archive. Its data.pkl is a pickle that names a storage, an offset, a shape and strides for each tensor; data/KEY
has a storage's bytes. TorchFileError says what is wrong and where.
"""

import dataclasses
import math
import os
import struct
import zipfile

import numpy as np

from models.published import tensor_pickle
from models.published.tensor_pickle import Call, Global, TorchFileError, unpickled

# By the name of the storage: the dtype, and that of numpy, which has the bits of bfloat16 only.
DTYPES = {"torch FloatStorage": ("float32", np.dtype("<f4")), "torch HalfStorage": ("float16", np.dtype("<f2")),
          "torch BFloat16Storage": ("bfloat16", np.dtype("<u2"))}
LARGEST_PICKLE = 64 << 20  # bytes; about 100 describe a tensor
MOST_DIMENSIONS = 8


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple
    dtype: str  # float32, float16 or bfloat16
    item: np.dtype
    offset: int  # as the strides: in numbers
    strides: tuple
    archive: zipfile.ZipFile
    storage: zipfile.ZipInfo

    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * self.item.itemsize

    def values(self) -> np.ndarray:
        """A contiguous copy; of bfloat16 the bits."""
        storage = np.frombuffer(read(self.archive, self.storage, f"tensor {self.name}"), self.item)
        strides = [stride * self.item.itemsize for stride in self.strides]
        return np.array(np.lib.stride_tricks.as_strided(storage[self.offset:], self.shape, strides), order="C")


def read_torch_file(path) -> dict:
    """-> tensors by name. Their bytes stay in the file until they are used."""
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would wait
        raise TorchFileError("is no file")
    archive = opened(path)
    pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
    if len(pickles) != 1:
        raise TorchFileError(f"is a zip archive with {len(pickles)} files data.pkl; torch.save writes one")
    folder = pickles[0].removesuffix("data.pkl")
    members = {info.filename.removeprefix(folder): info for info in archive.infolist() if info.filename.startswith(folder)}
    if "byteorder" in members and read(archive, members["byteorder"], "byteorder") != b"little":
        raise TorchFileError("byteorder is not little, which is the only order that is read")
    size = members["data.pkl"].file_size
    if size > LARGEST_PICKLE:
        raise TorchFileError(f"data.pkl has {size} bytes, must have at most {LARGEST_PICKLE}")
    found = unpickled(read(archive, members["data.pkl"], "data.pkl"))
    if type(found) is not dict:
        raise TorchFileError("data.pkl is no dictionary of tensors")
    return {name: tensor(name, value, archive, members) for name, value in found.items()}


def opened(path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        with open(path, "rb") as file:
            begins_as_one = file.read(4) == b"PK\3\4"
        raise TorchFileError("begins as a zip archive and does not end as one: it is cut off or damaged" if begins_as_one else
                             "is not a zip archive, which torch.save writes since PyTorch 1.6") from None


def read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, what: str) -> bytes:
    if info.compress_type != zipfile.ZIP_STORED:
        raise TorchFileError(f"{what} is compressed, which torch.save does not do")
    try:
        if info.header_offset < 0:
            raise EOFError("it would begin before the file")
        data = archive.read(info)  # compares with the archive's checksum
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error) as error:
        raise TorchFileError(f"{what} cannot be read, the file is cut off or damaged: {error}") from None
    if len(data) != info.file_size:
        raise TorchFileError(f"{what} has {len(data)} bytes, must have {info.file_size}: the file is cut off or damaged")
    return data


def tensor(name: str, value, archive: zipfile.ZipFile, members: dict) -> Tensor:
    match value:
        case Call(tensor_pickle.TENSOR, (
                Call(tensor_pickle.STORAGE, ("storage", Global(kind), str(key), str(), int(count))),
                int(offset), tuple(shape), tuple(strides), bool(), dict())):
            pass
        case _:
            raise TorchFileError(f"{name} is no tensor as torch.save describes one")
    if kind not in DTYPES:
        raise TorchFileError(f"tensor {name} has a {kind.replace(' ', '.')}, must have one of "
                             + ", ".join(known.replace(" ", ".") for known in DTYPES))
    dtype, item = DTYPES[kind]
    integers = all(type(number) is int for number in shape + strides)
    if (not integers or len(shape) != len(strides) or len(shape) > MOST_DIMENSIONS
            or min(shape, default=1) < 1 or min(strides, default=0) < 0):
        raise TorchFileError(f"tensor {name} must have up to {MOST_DIMENSIONS} dimensions of at least 1, "
                             "with a stride of at least 0 each")
    last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides))
    if offset < 0 or last >= count or math.prod(shape) > count:
        raise TorchFileError(f"tensor {name} of shape {list(shape)} with strides {list(strides)} from {offset} does not lie in its "
                             f"storage of {count} numbers")
    storage = members.get(f"data/{key}")
    if storage is None:
        raise TorchFileError(f"tensor {name} needs the storage data/{key}, which the archive does not have")
    if storage.file_size != count * item.itemsize:
        raise TorchFileError(f"tensor {name} needs a storage of {count * item.itemsize} bytes, but data/{key} has {storage.file_size}")
    return Tensor(name, shape, dtype, item, offset, strides, archive, storage)
