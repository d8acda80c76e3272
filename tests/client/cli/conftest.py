import pytest

from command_line import Cli
from terminal import Terminal


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The folder in which the program keeps what it keeps between its runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tvq"


@pytest.fixture
def cli(fake):
    return Cli(fake.address)


@pytest.fixture
def at():
    """at(address): the client of a server there."""
    return Cli


@pytest.fixture
def terminal(fake):
    opened = []

    def start(*arguments, **others):
        opened.append(Terminal(fake.address, *arguments, **others))
        return opened[-1]

    yield start
    for one in opened:
        one.close()
