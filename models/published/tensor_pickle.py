"""Reads pickles of dictionaries of tensors as data: nothing that a pickle names is imported or called.

Only the instructions are known that torch.save writes for such dictionaries.
"""

import dataclasses
import pickletools
import re

ORDERED_DICT, TENSOR, STORAGE = "collections OrderedDict", "torch._utils _rebuild_tensor_v2", "storage"
STORAGE_TYPE = re.compile(r"torch [A-Za-z0-9]+Storage")
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class TorchFileError(Exception):
    """Says which file cannot be imported, and why."""


@dataclasses.dataclass(frozen=True)
class Global:
    name: str  # "MODULE NAME"


@dataclasses.dataclass(frozen=True)
class Call:
    """What a pickle says to call. STORAGE stands for what it says to load by an id."""
    of: str
    arguments: object


def unpickled(data: bytes):
    """What the pickle describes, with a Call for each tensor and storage, and plain dictionaries in place of ordered ones."""
    at = 0
    try:
        stack, outer, memo = [], [], {}  # `outer`: the stacks below the marks
        for instruction, argument, at in pickletools.genops(data):
            match instruction.name:
                case "PROTO":
                    pass
                case "MARK":
                    outer.append(stack)
                    stack = []
                case "BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1":
                    stack.append(argument)
                case "NONE" | "NEWTRUE" | "NEWFALSE" as name:
                    stack.append(CONSTANTS[name])
                case "EMPTY_DICT":
                    stack.append({})
                case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                    stack.append(tuple([stack.pop() for _ in range(TUPLES[name])][::-1]))
                case "TUPLE":
                    items, stack = stack, outer.pop()
                    stack.append(tuple(items))
                case "SETITEM":
                    value, key = stack.pop(), stack.pop()
                    set_items(stack[-1], [key, value])
                case "SETITEMS":
                    items, stack = stack, outer.pop()
                    set_items(stack[-1], items)
                case "BINPUT" | "LONG_BINPUT":
                    memo[argument] = stack[-1]
                case "BINGET" | "LONG_BINGET":
                    stack.append(memo[argument])
                case "GLOBAL":
                    stack.append(known_global(argument))
                case "BINPERSID":
                    stack.append(Call(STORAGE, stack.pop()))
                case "REDUCE":
                    arguments, function = stack.pop(), stack.pop()
                    stack.append(called(function, arguments))
                case "BUILD":  # attributes of a dictionary, such as _metadata of a module's state
                    stack.pop()
                    set_items(stack[-1], [])
                case "STOP":
                    return stack.pop()
                case name:
                    raise TorchFileError(f"data.pkl has the instruction {name} at byte {at}; dictionaries of tensors do not need it")
    except (ValueError, IndexError, KeyError):
        raise TorchFileError(f"data.pkl is cut off or damaged behind byte {at}") from None


def known_global(name: str) -> Global:
    if name not in (ORDERED_DICT, TENSOR) and not STORAGE_TYPE.fullmatch(name):
        raise TorchFileError(f"data.pkl names {name.replace(' ', '.')!r}, which is refused: only dictionaries of tensors are read")
    return Global(name)


def called(function, arguments):
    if function == Global(TENSOR):
        return Call(TENSOR, arguments)
    if function == Global(ORDERED_DICT) and arguments == ():
        return {}
    raise TorchFileError("data.pkl calls something else than what makes a tensor or an empty OrderedDict")


def set_items(target, items: list) -> None:
    """`items`: keys and values in turn."""
    if type(target) is not dict or len(items) % 2:
        raise ValueError
    for key, value in zip(items[::2], items[1::2]):
        if type(key) is not str or not key.isprintable():
            raise TorchFileError("data.pkl has a dictionary whose keys are not all printable texts")
        if key in target:
            raise TorchFileError(f"data.pkl has {key} twice")
        target[key] = value
