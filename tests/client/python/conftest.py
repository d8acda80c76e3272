import pytest


@pytest.fixture
def tvq(package):
    import tvq as module
    return module


@pytest.fixture
def client(tvq, fake):
    with tvq.Client(fake.address) as connection:
        yield connection
