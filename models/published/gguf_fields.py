"""Access to the fields of a GGUF file by name. Each is checked; fields that were not asked for can be listed and refused."""

import math

from models.published.gguf_file import GgufError

LARGEST_COUNT = 2**31 - 1


class Fields:
    def __init__(self, values: dict):
        self.values, self.used = values, set()

    def take(self, name: str, kinds: tuple, what: str, default=None):
        """The field, or the default if it is absent; without a default it must be there."""
        self.used.add(name)
        if name not in self.values:
            if default is None:
                raise GgufError(f"lacks the field {name}, {what}")
            return default
        value = self.values[name]
        if type(value) not in kinds:
            raise GgufError(f"{name} is {shown(value)}, must be {what}")
        return value

    def count(self, name: str, default: int = None) -> int:
        """A positive integer."""
        value = self.take(name, (int,), "a positive integer", default)
        if not 0 < value <= LARGEST_COUNT:
            raise GgufError(f"{name} is {value}, must be from 1 to {LARGEST_COUNT}")
        return value

    def positive(self, name: str, default: float = None) -> float:
        value = self.take(name, (float,), "a number above 0", default)
        if not 0 < value < math.inf:
            raise GgufError(f"{name} is {value}, must be finite and above 0")
        return value

    def text(self, name: str, default: str = None) -> str:
        return self.take(name, (str,), "a string", default)

    def flag(self, name: str, default: bool) -> bool:
        return self.take(name, (bool,), "true or false", default)

    def list_of(self, name: str, kind: type) -> list:
        words = {str: "a list of strings", int: "a list of integers", float: "a list of numbers"}[kind]
        values = self.take(name, (list,), words)
        if not all(type(value) is kind for value in values):
            raise GgufError(f"{name} must be {words}")
        return values

    def must_be(self, name: str, wanted, default=None) -> None:
        """Refuses any other value. An absent field stands for the default."""
        self.used.add(name)
        value = self.values.get(name, default)
        if type(value) is not type(wanted) or value != wanted:
            found = "is absent" if value is None else f"is {shown(value)}"
            raise GgufError(f"{name} {found}; only {wanted!r} can be imported")

    def one_of(self, name: str, known, default: str = None) -> str:
        """A text that must be one of `known`."""
        value = self.take(name, (str,), f"one of {', '.join(known)}", default)
        if value not in known:
            raise GgufError(f"{name} is {shown(value)}; known here are {', '.join(known)}")
        return value

    def refuse_others(self, prefix: str, harmless=()) -> None:
        """Refuses fields with this prefix that were not asked for, since their meaning is not known here."""
        for name in self.values:
            if name.startswith(prefix) and name not in self.used and name not in harmless:
                raise GgufError(f"has the field {name} ({shown(self.values[name])}), whose meaning is not known to this import")


def shown(value) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
