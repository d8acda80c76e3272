"""Requests made of arguments. An argument that does not fit is named: protobuf tells what is wrong, but not of which."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_Message = TypeVar("_Message", bound=Message)

_WHOLE = {
    FieldDescriptor.TYPE_INT32: (-2**31, 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-2**63, 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_LONGEST = 50  # characters of a value that an error shows


def make(kind: type[_Message], **fields: Any) -> _Message:
    """A message of these fields; those that are None are left out. TypeError or ValueError names the one that does
    not fit."""
    message = kind()
    for name, value in fields.items():
        if value is not None:
            put(message, name, value, name)
    return message


def put(message: Any, field: str, value: Any, name: str) -> None:
    """Sets a field to an argument that callers know as `name`."""
    descriptor = message.DESCRIPTOR.fields_by_name[field]
    present = getattr(message, field)
    if isinstance(value, Message):
        present.CopyFrom(value)
    elif descriptor.message_type is not None:  # a map
        if not isinstance(value, Mapping):
            raise TypeError(f"{name}: must be a mapping, not {shown(value)}")
        of_key, of_value = descriptor.message_type.fields
        for key, one in value.items():
            present[_checked(of_key, key, f"{name}: a key")] = _checked(of_value, one, f"{name}[{shown(key)}]")
    elif not hasattr(present, "extend"):
        setattr(message, field, _checked(descriptor, value, name))
    else:
        _extend(present, descriptor, value, name)


def text(value: Any, name: str) -> str:
    """A str that is Unicode, or an error that names it."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: must be a str, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: has half a surrogate pair at index {error.start}, which is no character") from None
    return value


def shown(value: Any) -> str:
    """A value in an error."""
    whole = repr(value)
    return whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}..."


def _extend(present: Any, descriptor: Any, value: Any, name: str) -> None:
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: must be a sequence, not {shown(value)}")
    items = list(value)
    try:
        present.extend(items)  # at once, for there may be very many
    except (TypeError, ValueError, OverflowError):
        for i, one in enumerate(items):
            _checked(descriptor, one, f"{name}[{i}]")
        raise


def _checked(descriptor: Any, value: Any, name: str) -> Any:
    if descriptor.type == FieldDescriptor.TYPE_STRING:
        return text(value, name)
    if descriptor.type == FieldDescriptor.TYPE_BOOL:
        return _switch(value, name)
    if descriptor.type in _WHOLE:
        return _whole(value, name, *_WHOLE[descriptor.type])
    if descriptor.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return _number(value, name)
    return value  # an enum, which this package chose


def _switch(value: Any, name: str) -> bool:
    if isinstance(value, (str, bytes)) or value not in (False, True):
        raise TypeError(f"{name}: must be True or False, not {shown(value)}")
    return bool(value)


def _whole(value: Any, name: str, least: int, most: int) -> int:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name}: must be an int, not {shown(value)}")
    if not least <= number <= most:
        raise ValueError(f"{name}: is {number}, must be from {least} to {most}")
    return number


def _number(value: Any, name: str) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: must be a number, not {shown(value)}")
    return float(value)
