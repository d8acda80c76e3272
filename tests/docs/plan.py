"""What is done with a code block: run it as shell or Python, or not, and why.

An HTML comment right before a block is a marker; there may be several, a line each:

    <!-- not run: REASON -->           commands that take too long, or want what is not here
    <!-- not a command: WHAT -->       a formula, an output, a part of a file
    <!-- with: OLD => NEW; ... -->     run with NEW in the place of OLD: fewer rounds, a file that is there
    <!-- needs: NAME ... -->           what needs.py brings: other models, or packages that may be missing
    <!-- exits with: CODE -->          a command that fails, as it says

Without one a block is run if it is Python (a fence that says so), or if each command in it begins with an assignment, a program
of this project, or one of PROGRAMS; a fence of another language (DATA) is no command. Anything else is an error, and so is a
marker that is wrong: so no block is left out unseen.
"""

import dataclasses
import re

SHELL, PYTHON, NO_COMMAND, NOT_RUN = "shell", "python", "not a command", "not run"

LANGUAGES = {"sh": SHELL, "bash": SHELL, "python": PYTHON}
DATA = {"json", "yaml", "proto", "text"}
PROGRAMS = {"cmake", "curl", "docker", "docker-compose", "echo", "ghz", "grpcurl", "h2load", "hey", "kubectl", "openssl",
            "pip", "python3", "wrk"}
OURS = re.compile(r"(build/\w+/(bin|tests)/)?(tvq(-\w+)?|\w+_test)|scripts/[\w-]+|(\w+/)+\w+\.py")
ASSIGNMENT = re.compile(r"\w+=")
SERVES = re.compile(r"(\S*/)?(tvq-server|tvq-gateway) ")


class Unclear(Exception):
    """Says which block it is and what to do about it."""


@dataclasses.dataclass(frozen=True)
class Plan:
    kind: str
    reason: str = ""  # of one that is not run
    text: str = ""  # what is run
    needs: tuple[str, ...] = ()
    code: int = 0  # that it exits with


def commands(text):
    """The commands of a shell block: its lines, joined where one ends in a backslash, without comments."""
    joined = re.sub(r"\\\n", "\\\\\0", text).split("\n")
    lines = (line.replace("\0", "\n").strip() for line in joined)
    return [line for line in lines if line and not line.startswith("#")]


def is_command(command):
    return bool(ASSIGNMENT.match(command)) or starts_program(command)


def starts_program(command):
    word = command.split()[0]
    return word in PROGRAMS or OURS.fullmatch(word) is not None


def serves(command):
    """Whether it is a server, which ends when its document does."""
    return SERVES.match(command) is not None and not re.search(r" --(check|help)\b", command)


def plan(block, needs):
    """`needs`: the names that the marker may have. Raises Unclear."""
    given = {}
    for marker in block.markers:
        name, colon, value = marker.partition(":")
        if not colon or not value.strip() or name in given:
            raise Unclear(f"{block.place}: a marker is NAME: VALUE, each name once, not '{marker}'")
        given[name] = value.strip()
    unknown = given.keys() - {"not run", "not a command", "with", "needs", "exits with"}
    if unknown:
        raise Unclear(f"{block.place}: no marker '{unknown.pop()}'; tests/docs/plan.py has them")
    kind = kind_of(block)
    for name in ("not run", "not a command"):
        if name in given:
            return left_out(block, kind, name, given)
    if kind is None:
        raise Unclear(f"{block.place}: neither a command nor marked as something else; tests/docs/plan.py has the markers:\n"
                      f"{block.text}")
    if kind == NO_COMMAND:
        if given:
            raise Unclear(f"{block.place}: a block of {block.language} is not run and needs no marker")
        return Plan(kind, block.language)
    return Plan(kind, "", replaced(block, given.get("with")), needed(block, given.get("needs", ""), needs),
                int(given.get("exits with", 0)))


def kind_of(block):
    """SHELL, PYTHON or NO_COMMAND as it stands, None if that is not clear."""
    if block.language in DATA:
        return NO_COMMAND
    if block.language:
        return LANGUAGES.get(block.language)
    return SHELL if all(map(is_command, commands(block.text))) else None


def left_out(block, kind, name, given):
    if len(given) > 1:
        raise Unclear(f"{block.place}: '{name}' goes with no other marker")
    if name == NO_COMMAND and (kind in (SHELL, PYTHON) or any(map(starts_program, commands(block.text)))):
        raise Unclear(f"{block.place}: marked as no command, but has one; say 'not run' and why")
    return Plan(name, given[name])


def replaced(block, pairs):
    text = block.text
    for pair in pairs.split(";") if pairs else []:
        old, arrow, new = (part.strip() for part in pair.partition("=>"))
        if not arrow or old not in text:
            raise Unclear(f"{block.place}: 'with' has '{pair.strip()}', but OLD => NEW needs an OLD that is in the block")
        text = text.replace(old, new)
    return text


def needed(block, given, needs):
    names = tuple(given.split())
    unknown = set(names) - set(needs)
    if unknown:
        raise Unclear(f"{block.place}: nothing is known of '{unknown.pop()}'; there are {', '.join(sorted(needs))}")
    return names
