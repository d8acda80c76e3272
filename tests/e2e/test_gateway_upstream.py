"""What the gateway says to the server behind it: a stand-in that tells, and that can be as slow as it likes."""

import signal
import sys
import threading

import pytest
from gateway_process import GatewayProcess
from server_process import ROOT, wait_until


@pytest.fixture
def fake(api):
    sys.path.insert(0, str(ROOT / "tests" / "client"))
    from fake_server import FakeServer
    server = FakeServer()
    yield server
    server.stop()


class Import:
    """An ImportSession of the fake that reads at most `messages` messages, then waits until it is cancelled."""

    def __init__(self, fake, messages):
        from tvq.v1 import session_pb2
        self.response = session_pb2.ImportSessionResponse()
        self.messages, self.begun, self.cancelled = messages, threading.Event(), threading.Event()
        fake.ImportSession = self

    def __call__(self, requests, context):
        context.add_callback(self.cancelled.set)
        try:
            for _ in range(self.messages):
                next(requests)
                self.begun.set()
        except Exception:  # the call was cancelled
            pass
        self.cancelled.wait()
        return self.response


IMPORT = b"POST /v1/sessions/import HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"


def send_until_blocked(sock):
    """Sends an import's head and body until neither gateway nor kernel take more."""
    sock.sendall(IMPORT % 1_000_000_000)
    sock.settimeout(0.5)
    try:
        while True:
            sock.send(b"x" * 65536)
    except TimeoutError:
        pass


@pytest.mark.parametrize("half", [b"", b"x" * 1000])
def test_hang_up_in_an_import_cancels_it(fake, half):
    running = Import(fake, messages=1000)
    with GatewayProcess(fake.address) as gateway:
        with gateway.raw() as sock:
            sock.sendall(IMPORT % 2000 + half)
            assert running.begun.wait(60)
        assert running.cancelled.wait(60)


# The end of the connection lies behind bytes that the gateway does not read yet: the first piece is on its way to
# the server, of the second a part waits in the kernel. (With more, the kernel would not take the end.)
def test_hang_up_in_an_import_that_the_server_does_not_read(fake):
    stuck = Import(fake, messages=1)
    with GatewayProcess(fake.address) as gateway:
        with gateway.raw() as sock:
            sock.sendall(IMPORT % 1_000_000_000 + b"x" * (256 * 1024 + 30_000))
            assert stuck.begun.wait(60)
        assert stuck.cancelled.wait(60)

        def connections():
            text = gateway.get("/metrics").body.decode()
            return float(text.split("\ntvq_gateway_connections ")[1].split()[0])

        wait_until(lambda: connections() == 1, "the connection ended")


def test_second_signal_ends_an_import_that_the_server_does_not_read(fake):
    stuck = Import(fake, messages=1)
    with GatewayProcess(fake.address) as gateway, gateway.raw() as sock:
        send_until_blocked(sock)
        gateway.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "second signal" in gateway.stderr(), "the first signal was heard")
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(60) == 0
        assert stuck.cancelled.wait(60)


# gRPC tells of the call's end when the loop has nothing else to do: again and again, as it is a race.
@pytest.mark.parametrize("_", range(10))
def test_signal_during_an_import(fake, _):
    running = Import(fake, messages=1000)
    with GatewayProcess(fake.address, "--shutdown-timeout", "0.05") as gateway, gateway.raw() as sock:
        sock.sendall(IMPORT % 2000 + b"x" * 1000)
        assert running.begun.wait(60)
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(60) == 0
