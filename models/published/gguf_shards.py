"""Reads a GGUF file, or all parts of a split one: NAME-00001-of-00003.gguf and so on. The first part has the fields."""

import pathlib

from models.published.gguf_file import GgufError, GgufFile, read_gguf

MOST_PARTS = 99999  # their names have five digits


def read_parts(path) -> GgufFile:
    """`path` is that of the first part."""
    path, first = pathlib.Path(path), read_gguf(path)
    try:
        number, count = place(first)
        if count == 1:
            return first
        paths = names(path, number, count)
        if number != 0:
            raise GgufError(f"is part {number + 1} of {count}; the import wants the first, {paths[0].name}")
        missing = [part.name for part in paths if not part.is_file()]
        if missing:
            raise GgufError(f"has {count} parts, and {missing[0]} is not beside it ({len(missing)} such)")
    except GgufError as error:
        raise GgufError(f"{path}: {error}") from None
    return joined(path, first, paths)


def place(file: GgufFile) -> tuple:
    """-> (number of the part, from 0; how many there are)"""
    number, count = file.fields.get("split.no", 0), file.fields.get("split.count", 1)
    count = count or 1  # some writers put 0 into a file that was not split
    if type(count) is not int or not 1 <= count <= MOST_PARTS:
        raise GgufError(f"split.count is {count!r}, must be from 1 to {MOST_PARTS}")
    if type(number) is not int or not 0 <= number < count:
        raise GgufError(f"split.no is {number!r}, must be from 0 to {count - 1}")
    return number, count


def names(path: pathlib.Path, number: int, count: int) -> list:
    ending = f"-{number + 1:05d}-of-{count:05d}.gguf"
    if not path.name.endswith(ending):
        raise GgufError(f"is part {number + 1} of {count} by its fields; its name must end with {ending}")
    return [path.with_name(f"{path.name[:-len(ending)]}-{part + 1:05d}-of-{count:05d}.gguf") for part in range(count)]


def joined(path: pathlib.Path, first: GgufFile, paths: list) -> GgufFile:
    tensors = dict(first.tensors)
    for number, part in enumerate(paths[1:], 1):
        file = read_gguf(part)
        found = file.fields.get("split.no"), file.fields.get("split.count")
        if found != (number, len(paths)):
            raise GgufError(f"{part}: split.no and split.count are {found[0]} and {found[1]}, must be {number} and "
                            f"{len(paths)}: it is a part of another file")
        twice = sorted(set(file.tensors) & set(tensors))
        if twice:
            raise GgufError(f"{part}: has the tensor {twice[0]}, which an earlier part has, too")
        tensors.update(file.tensors)
    wanted = first.fields.get("split.tensors.count", len(tensors))
    if wanted != len(tensors):
        raise GgufError(f"{path}: split.tensors.count is {wanted}, but its {len(paths)} parts have {len(tensors)} tensors")
    return GgufFile(first.fields, tensors)
