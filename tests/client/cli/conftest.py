import pytest

from command_line import Cli


@pytest.fixture
def cli(fake):
    return Cli(fake.address)


@pytest.fixture
def at():
    """at(address): the client of a server there."""
    return Cli
