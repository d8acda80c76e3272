"""The reader of torch.save's files: what it reads, and what it refuses: files that are cut, damaged or hostile."""

import os
import pickle
import random
import zipfile

import numpy as np
import pytest
import torch_save
from conftest import ROOT
from torch_save import Raw, call, named, pickled, storage, tensor, whole

from models.published.tensor_pickle import TorchFileError, unpickled
from models.published.torch_file import read_torch_file

NUMBERS = np.arange(24, dtype=np.float32)


def values_of(path):
    return {name: found.values() for name, found in read_torch_file(path).items()}


@pytest.mark.parametrize("dtype, name", [("<f4", "float32"), ("<f2", "float16"), ("<u2", "bfloat16")])
def test_tensors_of_each_type(tmp_path, dtype, name):
    written = {"matrix": NUMBERS.reshape(4, 6).astype(dtype), "row": NUMBERS[:5].astype(dtype), "one": NUMBERS[7].astype(dtype)}
    found = read_torch_file(torch_save.save(tmp_path / "t.pth", written))
    assert list(found) == list(written)
    for key, tensor in found.items():
        assert tensor.dtype == name and tensor.shape == written[key].shape and tensor.size() == written[key].nbytes
        assert tensor.values().dtype == written[key].dtype and np.array_equal(tensor.values(), written[key])


@pytest.mark.parametrize("offset, shape, strides, wanted", [
    (0, (6, 4), (1, 6), NUMBERS.reshape(4, 6).T),
    (7, (2, 3), (6, 1), NUMBERS.reshape(4, 6)[1:3, 1:4]),
    (5, (3,), (7,), NUMBERS[5::7]),
    (3, (2, 4), (0, 2), np.stack([NUMBERS[3:10:2]] * 2)),
    (23, (1, 1), (100, 100), NUMBERS[23:].reshape(1, 1)),
    (23, (), (), NUMBERS[23]),
])
def test_views_become_contiguous_copies(tmp_path, offset, shape, strides, wanted):
    path = torch_save.write(tmp_path / "t.pth", {"view": tensor(storage("0", 24), offset, shape, strides)}, {"0": NUMBERS})
    found = values_of(path)["view"]
    assert np.array_equal(found, wanted) and found.shape == shape and found.flags.c_contiguous and found.flags.owndata


def test_a_storage_of_several_tensors(tmp_path):
    shared = Raw(storage("0", 24).code + b"q\x07")
    again = Raw(b"h\x07")
    path = torch_save.write(tmp_path / "t.pth", {"a": tensor(shared, 0, (12,), (1,)), "b": tensor(again, 12, (12,), (1,))}, {"0": NUMBERS})
    found = values_of(path)
    assert np.array_equal(found["a"], NUMBERS[:12]) and np.array_equal(found["b"], NUMBERS[12:])


def test_a_modules_state(tmp_path):
    """An OrderedDict with the attribute _metadata, as Module.state_dict() makes it."""
    items = b"".join(pickled(value) for value in ("w", whole("0", NUMBERS)))
    attributes = {"_metadata": Raw(call("collections.OrderedDict").code + b"(" + pickled("") + pickled({"version": 1}) + b"u")}
    state = Raw(call("collections.OrderedDict").code + b"(" + items + b"u" + pickled(attributes) + b"b")
    assert np.array_equal(values_of(torch_save.write(tmp_path / "t.pth", state, {"0": NUMBERS}))["w"], NUMBERS)


def test_the_pickle_that_pytorch_wrote():
    """Of the golden model rwkv7_pieces in its native form."""
    found = unpickled((ROOT / "tests" / "golden" / "rwkv7_native" / "data.pkl").read_bytes())
    assert len(found) == 72 and list(found)[0] == "emb.weight"
    of, offset, shape, strides, *_ = found["blocks.1.att.w1"].arguments
    assert (of.arguments[2:], offset, shape, strides) == (("49", "cpu", 2048), 0, (128, 16), (16, 1))


def refused(path, words):
    with pytest.raises(TorchFileError) as error:
        values_of(path)
    assert words in str(error.value), str(error.value)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("made_by_a_pickle",)


@pytest.mark.parametrize("data, words", [
    (pickle.dumps({"w": Harmful()}, 2), "data.pkl names 'posix.mkdir', which is refused"),
    (pickle.dumps({"w": Harmful()}, 4), "data.pkl has the instruction FRAME at byte 2"),
    (b"\x80\x02" + call("os.system", "true").code + b".", "data.pkl names 'os.system', which is refused"),
    (b"cbuiltins\neval\n.", "data.pkl names 'builtins.eval'"),
    (b"ctorch.storage\n_load_from_bytes\n.", "data.pkl names 'torch.storage._load_from_bytes'"),
    (b"ctorch._utils\n_rebuild_parameter\n.", "data.pkl names 'torch._utils._rebuild_parameter'"),
    (b"ccollections\nOrderedDict.__reduce__\n.", "data.pkl names 'collections.OrderedDict.__reduce__'"),
    (b"ctorch\nFloatStorage\x1b[2J\n.", r"data.pkl names 'torch.FloatStorage\x1b[2J'"),
    (b"(S'true'\nios\nsystem\n.", "data.pkl has the instruction STRING at byte 1"),
    (b"(ios\nsystem\n.", "data.pkl has the instruction INST at byte 1"),
    (call("collections.OrderedDict", ()).code + b".", "data.pkl calls something else than what makes a tensor or an empty"),
    (call("torch.FloatStorage").code + b".", "data.pkl calls something else"),
    (b"N)R.", "data.pkl calls something else"),
    (pickled("text") + b".", "data.pkl is no dictionary of tensors"),
    (pickled({"w": 1}) + b".", "w is no tensor as torch.save describes one"),
    (pickled({"w": {}}) + b".", "w is no tensor as torch.save describes one"),
    (pickled({"w": call("torch._utils._rebuild_tensor_v2")}) + b".", "w is no tensor as torch.save describes one"),
    (pickled({"w": call("torch._utils._rebuild_tensor_v2", named("torch.FloatStorage"), 0, (1,), (1,), False, {})}) + b".", "w is no tensor"),
    (pickled({1: 1}) + b".", "a dictionary whose keys are not all printable texts"),
    (pickled({"w\x1b": 1}) + b".", "a dictionary whose keys are not all printable texts"),
    (b"}(" + 2 * (pickled("w") + b"N") + b"u.", "data.pkl has w twice"),
    (b"}(" + pickled("w") + b"u.", "data.pkl is cut off or damaged"),
    (b"}", "data.pkl is cut off or damaged behind byte 0"),
    (b"", "data.pkl is cut off or damaged"),
    (b".", "data.pkl is cut off or damaged"),
    (b"u.", "data.pkl is cut off or damaged"),
    (b"h\0.", "data.pkl is cut off or damaged"),
    (b"Nq\0h\1.", "data.pkl is cut off or damaged"),
    (b"NNb.", "data.pkl is cut off or damaged"),
    (b"\x87.", "data.pkl is cut off or damaged"),
    (b"X\xff\xff\xff\xffabc.", "data.pkl is cut off or damaged"),
    (b"X\x01\0\0\0\xff.", "data.pkl is cut off or damaged"),
    (b"\xff.", "data.pkl is cut off or damaged"),
    (b"Nr\xff\xff\xff\xff.", "data.pkl is no dictionary of tensors"),  # a large number of the memo takes no memory
    (b")" + 60 * b"q\0h\0\x86" + b".", "data.pkl is no dictionary of tensors"),  # 2^60 items, if somebody counted them
])
def test_pickles_that_are_refused(tmp_path, data, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(torch_save.write(tmp_path / "t.pth", data, {}), words)
    assert os.listdir(tmp_path) == ["t.pth"]


@pytest.mark.parametrize("described, words", [
    (tensor(storage("0", 24), 0, (4, 7), (6, 1)), "tensor w of shape [4, 7] with strides [6, 1] from 0 does not lie in its storage of 24"),
    (tensor(storage("0", 24), 1, (4, 6), (6, 1)), "with strides [6, 1] from 1 does not lie in its storage of 24 numbers"),
    (tensor(storage("0", 24), -1, (4,), (1,)), "from -1 does not lie in its storage"),
    (tensor(storage("0", 24), 2**62, (4,), (1,)), "does not lie in its storage"),
    (tensor(storage("0", 24), 0, (2, 2), (2**62, 1)), "does not lie in its storage"),
    (tensor(storage("0", 24), 0, (2**31, 2**31), (0, 0)), "does not lie in its storage"),
    (tensor(storage("0", 24), 0, (24,), (-1,)), "tensor w must have up to 8 dimensions of at least 1, with a stride of at least 0 each"),
    (tensor(storage("0", 24), 0, (0, 3), (3, 1)), "tensor w must have up to 8 dimensions"),
    (tensor(storage("0", 24), 0, (-2, -3), (3, 1)), "tensor w must have up to 8 dimensions"),
    (tensor(storage("0", 24), 0, (4,), (6, 1)), "tensor w must have up to 8 dimensions"),
    (tensor(storage("0", 24), 0, ("4",), (1,)), "tensor w must have up to 8 dimensions"),
    (tensor(storage("0", 24), 0, (True,), (1,)), "tensor w must have up to 8 dimensions"),
    (tensor(storage("0", 24), 0, (1,) * 9, (1,) * 9), "tensor w must have up to 8 dimensions"),
    (tensor(storage("0", 25), 0, (4,), (1,)), "tensor w needs a storage of 100 bytes, but data/0 has 96"),
    (tensor(storage("0", 24, "HalfStorage"), 0, (4,), (1,)), "tensor w needs a storage of 48 bytes, but data/0 has 96"),
    (tensor(storage("0", 24, "LongStorage"), 0, (4,), (1,)), "tensor w has a torch.LongStorage, must have one of torch.FloatStorage, "),
    (tensor(storage("1", 24), 0, (4,), (1,)), "tensor w needs the storage data/1, which the archive does not have"),
    (tensor(storage("../version", 24), 0, (4,), (1,)), "tensor w needs the storage data/../version"),
    (tensor(storage(0, 24), 0, (4,), (1,)), "w is no tensor as torch.save describes one"),
    (tensor(Raw(pickled("0") + b"Q"), 0, (4,), (1,)), "w is no tensor"),
    (tensor(storage("0", 24), None, (4,), (1,)), "w is no tensor"),
    (tensor(storage("0", 24), 0, 4, 1), "w is no tensor"),
])
def test_tensors_that_are_refused(tmp_path, described, words):
    refused(torch_save.write(tmp_path / "t.pth", {"w": described}, {"0": NUMBERS}), words)


def test_archives_that_are_refused(tmp_path):
    path, described = tmp_path / "t.pth", {"w": whole("0", NUMBERS)}
    refused(torch_save.write(path, described, {"0": NUMBERS}, zipfile.ZIP_DEFLATED), "byteorder is compressed, which torch.save does not do")
    refused(torch_save.write(path, described, {"0": NUMBERS}, byteorder=b"big"), "byteorder is not little")
    refused(torch_save.write(path, described, {"0": NUMBERS}, **{"more/data.pkl": b"}."}), "with 2 files data.pkl; torch.save writes one")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "")
    refused(path, "with 0 files data.pkl")
    for content in (b"", b"GGUF" + bytes(100), pickle.dumps(0x1950A86A20F9469CFC6C, 2), b"\x80\x02}."):
        path.write_bytes(content)
        refused(path, "is not a zip archive, which torch.save writes since PyTorch 1.6")
    path.unlink()
    os.mkfifo(path)
    refused(path, "is no file")


def test_files_that_are_cut(tmp_path):
    path = torch_save.save(tmp_path / "t.pth", {"w": NUMBERS})
    data = path.read_bytes()
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        refused(path, "is cut off or damaged" if size > 3 else "is not a zip archive")


def test_changed_numbers_are_noticed(tmp_path):
    path = torch_save.save(tmp_path / "t.pth", {"a": NUMBERS, "w": NUMBERS + 1})
    data = path.read_bytes()
    at = data.index((NUMBERS + 1).tobytes())
    path.write_bytes(data[:at] + b"?" + data[at + 1:])
    refused(path, "tensor w cannot be read, the file is cut off or damaged: Bad CRC-32")


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # of pickletools, which reads a damaged instruction
def test_damage_gives_tensors_or_an_error(tmp_path):
    """Any byte may be another one: the reader ends by itself, and never by another exception."""
    path = torch_save.write(tmp_path / "t.pth", {"w": whole("0", NUMBERS), "v": tensor(storage("0", 24), 0, (2, 3), (1, 6))}, {"0": NUMBERS})
    data, chance, failed = path.read_bytes(), random.Random(1), 0
    begin, end = data.index(b"\x80\x02}"), data.index(b"PK", data.index(b"\x80\x02}"))
    pickle_bytes = data[begin:end]
    for number in range(400):
        changed = bytearray(pickle_bytes if number % 2 else data)
        for _ in range(chance.choice((1, 1, 3))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        if number % 2:
            torch_save.write(path, bytes(changed), {"0": NUMBERS})
        else:
            path.write_bytes(changed)
        try:
            values_of(path)
        except TorchFileError:
            failed += 1
    assert 100 < failed < 400
