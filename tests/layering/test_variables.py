"""The variables named TVQ_... that the tree reads are those that base/variables.cc knows, so that it warns of all others."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = (".ci", "CMakeLists.txt", "base", "client", "docker-compose.yml", "kernels", "models", "scripts", "server", "tests")
# Built, fetched, or about variables that there are not.
LEFT_OUT = ("client/web/dist", "client/web/node_modules", "tests/base", "tests/layering")

# What a test hands to a program of its own. Set for a program of tvq, each is a mistake.
OF_TESTS = {"ADDRESS", "GUARDED_URL", "KEY", "PROTO", "REFERENCE_URL", "SEED", "SESSIONS", "URL"}

CODE = re.compile(r"""(?:getenv|[Ee]nvironment)\(\s*["']TVQ_([A-Z0-9_]+)["']""")
SHELL = re.compile(r"\$\{?TVQ_([A-Z0-9_]+)")  # and docker-compose.yml
CMAKE = re.compile(r"\$ENV\{TVQ_([A-Z0-9_]+)")  # whose ${TVQ_...} are of its own
# Of a line with one of these, each name that has no value behind it.
READS = re.compile(r"\b(?:os\.environ|process\.env)\b")
NAME = re.compile(r"""\bTVQ_([A-Z0-9_]+)\b(?!["']:)""")
# Statements that define an option which the environment may give, too.
DEFINES = re.compile(r"\.Environment\(\)|\bAdd(?:Size|Switch)?Setting\(|\bAddTime\(")
LITERAL = re.compile(r'"[^"\n]*"')
OPTION = re.compile(r'"--([a-z0-9-]+)"')


def known(source):
    names = source.split("kKnown[] = {")[1].split("};")[0]
    return set(re.findall(r'"(\w+)"', names))


def read_by(text, is_cmake=False):
    """Without TVQ_."""
    if is_cmake:
        return set(CMAKE.findall(text))
    names = {*CODE.findall(text), *SHELL.findall(text)}
    names |= {name for line in text.splitlines() if READS.search(line) for name in NAME.findall(line)}
    for statement in LITERAL.sub(lambda found: found[0].replace(";", ""), text).split(";"):
        option = OPTION.search(statement)
        if option and DEFINES.search(statement):
            names.add(option[1].upper().replace("-", "_"))
    return names


def texts():
    for place in PLACES:
        path = ROOT / place
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            where = file.relative_to(ROOT).as_posix()
            if where.startswith(LEFT_OUT) or file.suffix == ".md" or not file.is_file():
                continue
            try:
                yield where, file.read_text(), file.name == "CMakeLists.txt" or file.suffix == ".cmake"
            except UnicodeDecodeError:
                pass  # weights, pictures


def test_those_that_are_read_are_known_and_no_others():
    read = {}
    for where, text, is_cmake in texts():
        for name in read_by(text, is_cmake):
            read.setdefault(name, where)
    names = known((ROOT / "base/variables.cc").read_text())
    unknown = {f"TVQ_{name} of {where}" for name, where in read.items() if name not in names | OF_TESTS}
    assert unknown == set(), "base/variables.cc does not know them"
    assert names - read.keys() == set(), "base/variables.cc knows them, and nothing reads them"
    assert OF_TESTS <= read.keys() and not OF_TESTS & names


@pytest.mark.parametrize("text", [
    'const char* path = std::getenv("TVQ_NEW_ONE");',
    'app.AddSetting("--new-one", flags.one, "What").Within(0, 1);',
    'app.AddSizeSetting(\n    "--new-one", flags.one, "Bytes");',
    'AddTime(app, "--new-one", limits.one, "For it");',
    'app.Add("--new-one", flags.one, "It; or not")\n    .Environment()\n    .TypeName("FILE");',
    'command.Add("--other", one, "It").Environment("TVQ_NEW_ONE");',
    'BIN = Path(os.environ.get("TVQ_NEW_ONE", "build"))',
    "first, second = (os.environ[name] for name in ('TVQ_OTHER', 'TVQ_NEW_ONE'))",
    'python=${TVQ_NEW_ONE:-/usr/bin/python3}',
    'exec "$TVQ_NEW_ONE"',
    "    mem_limit: ${TVQ_NEW_ONE:-4g}",
    "const { TVQ_OTHER, TVQ_NEW_ONE } = process.env;",
])
def test_a_new_one_is_found(text):
    assert "NEW_ONE" in read_by(text)


def test_those_of_cmake_are_told_from_its_own():
    assert read_by("set(path $ENV{TVQ_NEW_ONE}/${TVQ_OTHER})", is_cmake=True) == {"NEW_ONE"}


@pytest.mark.parametrize("text", [
    'environment = {**os.environ, "TVQ_NEW_ONE": "1"}',
    "cmake --preset release -DTVQ_NEW_ONE=OFF",
    'app.Add("--new-one", flags.one, "It");',
])
def test_what_is_only_set_or_no_variable_is_left_alone(text):
    assert read_by(text) == set()
