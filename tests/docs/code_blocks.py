"""The code blocks of a Markdown document, with the comments that stand before them."""

import dataclasses
import re

FENCE = re.compile(r"( *)(`{3,}|~{3,}) *(\S*)")
COMMENT = re.compile(r"<!--(.*?)-->$")
LIST_ITEM = re.compile(r" {0,3}([-*+]|\d+[.)]) ")
INDENTED = " " * 4


class BadDocument(Exception):
    """Says document, line and what is wrong there."""


@dataclasses.dataclass(frozen=True)
class Block:
    document: str
    line: int  # of its first line of text, from 1
    text: str  # without the indentation, ends in a newline
    language: str | None  # that of a fence, which may be empty; None: indented by four spaces
    markers: tuple[str, ...] = ()  # the comments directly before it

    @property
    def place(self):
        return f"{self.document}:{self.line}"


class Reader:
    def __init__(self, document, text):
        self.document, self.lines, self.at = document, text.split("\n"), 0
        self.markers = []  # comments whose block is still to come: (line, text)
        self.in_list = False

    def fail(self, line, what):
        raise BadDocument(f"{self.document}:{line}: {what}")

    def blocks(self):
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
            elif FENCE.match(line):
                yield self.fenced()
            elif line.startswith(INDENTED):
                yield self.indented()
            elif line.startswith("<!--"):
                self.comment(line)
            else:
                self.prose(line)
        self.no_markers()

    def block(self, begin, lines, language):
        markers, self.markers = tuple(text for _, text in self.markers), []
        return Block(self.document, begin + 1, "\n".join(lines).rstrip() + "\n", language, markers)

    def fenced(self):
        indentation, fence, language = FENCE.match(self.lines[self.at]).groups()
        begin = self.at + 1
        for end in range(begin, len(self.lines)):
            if re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", self.lines[end]):
                self.at = end + 1
                return self.block(begin, [line.removeprefix(indentation) for line in self.lines[begin:end]], language)
        self.fail(begin, "this fence has no end")

    def indented(self):
        begin = self.at
        before = self.lines[begin - 1] if begin else ""
        if self.in_list:
            self.fail(begin + 1, "four spaces make no code block in a list: use a fence")
        if before.strip() and not before.startswith(("#", "<!--")) and not FENCE.match(before):
            self.fail(begin + 1, "four spaces make no code block in a paragraph: put an empty line before it")
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.lines[self.at].startswith(INDENTED)):
            self.at += 1
        return self.block(begin, [line.removeprefix(INDENTED) for line in self.lines[begin:self.at]], None)

    def comment(self, line):
        found = COMMENT.match(line.rstrip())
        if not found:
            self.fail(self.at + 1, "a marker is a line of its own, <!-- ... -->")
        self.markers.append((self.at + 1, found[1].strip()))
        self.at += 1

    def prose(self, line):
        self.no_markers()
        if LIST_ITEM.match(line):
            self.in_list = True
        elif not line.startswith(" ") and (self.at == 0 or not self.lines[self.at - 1].strip()):
            self.in_list = False
        self.at += 1

    def no_markers(self):
        for line, text in self.markers:
            self.fail(line, f"no code block follows the marker '{text}'")


def blocks(document, text):
    """The blocks in their order; raises BadDocument where it is not certain what is one."""
    return list(Reader(document, text).blocks())
