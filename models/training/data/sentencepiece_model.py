"""The pieces of a SentencePiece .model file, a protobuf: field 1 repeated {1: piece, 2: score, 3: type}."""

import pathlib
from typing import List, NamedTuple

UNKNOWN, CONTROL, BYTE = 2, 3, 6  # of the enumeration SentencePiece.Type


class Piece(NamedTuple):
    text: str
    type: int  # 1 is an ordinary piece


def read_pieces(file) -> List[Piece]:
    """Pieces in the order of their ids. ValueError names the file."""
    try:
        return [_piece(value) for number, value in _fields(pathlib.Path(file).read_bytes()) if number == 1]
    except (IndexError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise ValueError(f"{file}: not a SentencePiece model ({type(error).__name__})") from None


def _piece(raw: bytes) -> Piece:
    fields = dict(_fields(raw))
    return Piece(fields[1].decode("utf-8") if 1 in fields else "", fields.get(3, 1))


def _fields(raw: bytes):
    """(number, value) of every field of a message: int of a varint, bytes of everything else."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(raw, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                size, at = _varint(raw, at)
            if size is None or at + size > len(raw):
                raise IndexError(at)
            value, at = raw[at:at + size], at + size
        yield tag >> 3, value


def _varint(raw: bytes, at: int):
    value = shift = 0
    while True:
        byte = raw[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at
