"""SIGHUP: files are read again, and nothing ends; also when it comes from a terminal that was closed."""

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import termios
import urllib.request

import grpc
import pytest
from certificates import Authority
from gateway_process import GatewayProcess
from server_process import BIN, GOLDEN, PATIENCE_SECONDS, ServerProcess, wait_until
from test_keys import bearer, code_of, line
from test_tls import name_shown


def hang_up(process, words):
    """Sends the signal; returns when the log has one line more with these words."""
    told = process.stderr().count(words)
    process.process.send_signal(signal.SIGHUP)
    wait_until(lambda: process.stderr().count(words) > told, f"the log says {words!r}")
    assert process.stderr().count(words) == told + 1


def models(server, key):
    return server.models.ListModels(server.api.model.ListModelsRequest(), metadata=bearer(key)).models


def test_keys_are_read_again(start, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(line("ana", "alpha"))
    server = start("--api-key-file", keys)
    stream = server.generation.Generate(server.request("Once", max_tokens=100_000_000, ignore_eos=True),
                                        metadata=bearer("alpha"))
    next(stream)
    keys.write_text(line("ben", "beta") + line("eve", "gamma"))
    assert code_of(lambda: models(server, "beta")) == grpc.StatusCode.UNAUTHENTICATED
    hang_up(server, "SIGHUP: credentials read again: 2 keys, no new certificates")
    assert models(server, "beta") and models(server, "gamma")
    assert code_of(lambda: models(server, "alpha")) == grpc.StatusCode.UNAUTHENTICATED
    next(stream)  # what was admitted goes on

    keys.write_text("nonsense\n")
    hang_up(server, "the old ones stay: api key file")
    assert "line 1" in server.stderr()
    assert models(server, "beta")
    stream.cancel()


def test_certificates_are_read_again(start, tmp_path):
    authority = Authority(tmp_path / "ca")
    files = [shutil.copy(file, tmp_path / file.name) for file in authority.issue("server")]
    server = start("--ssl-certfile", files[0], "--ssl-keyfile", files[1])
    for made, used in zip(authority.issue("successor"), files):
        shutil.copy(made, used)
    hang_up(server, "SIGHUP: credentials read again: 0 keys, new certificates")
    wait_until(lambda: name_shown(server, authority.ca) == "successor", "the new certificate is shown")
    files[0].write_text("nonsense")
    hang_up(server, "SIGHUP: credentials read again, the old ones stay: certificate file")
    assert name_shown(server, authority.ca) == "successor"


def test_a_pipe_for_a_file_holds_nothing_up(start, tmp_path):
    authority = Authority(tmp_path / "ca")
    files = [shutil.copy(file, tmp_path / file.name) for file in authority.issue("server")]
    keys = tmp_path / "keys.txt"
    keys.write_text(line("ana", "alpha"))
    server = start("--api-key-file", keys, "--ssl-certfile", files[0], "--ssl-keyfile", files[1])
    with GatewayProcess(server.address, "--server-ssl-ca-certs", authority.ca, "--ssl-certfile", files[0],
                        "--ssl-keyfile", files[1]) as gateway:
        for what, file in [("api key", keys), ("certificate", files[0]), ("key", files[1])]:
            why = f"{what} file {file}: cannot be read: it is a pipe through which nothing comes"
            kept = file.read_bytes()
            file.unlink()
            os.mkfifo(file)
            hang_up(server, f"SIGHUP: credentials read again, the old ones stay: {why}")
            if file != keys:
                hang_up(gateway, f"SIGHUP: the certificates were read again, those in use stay: {why}")
            file.unlink()
            file.write_bytes(kept)
            hang_up(server, "SIGHUP: credentials read again: 1 key")
        hang_up(gateway, "SIGHUP: the certificates were read again\n")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0


def test_without_files_it_does_nothing(start):
    server = start()
    hang_up(server, "SIGHUP: this server has no file of keys and no certificates to read again")
    assert server.generate("Once", max_tokens=3, ignore_eos=True)
    with GatewayProcess(server.address) as gateway:
        hang_up(gateway, "SIGHUP: this gateway has no certificates to read again")
        assert gateway.get("/health").status == 200


def test_the_gateways_certificates_are_read_again(start, tmp_path):
    server = start()
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    files = [shutil.copy(file, tmp_path / file.name) for file in first.issue("gateway")]
    with GatewayProcess(server.address, "--ssl-certfile", files[0], "--ssl-keyfile", files[1]) as gateway:
        gateway.tls(first.ca)
        assert gateway.get("/health").status == 200
        for made, used in zip(second.issue("gateway"), files):
            shutil.copy(made, used)
        hang_up(gateway, "SIGHUP: the certificates were read again\n")
        gateway.tls(second.ca)
        assert gateway.get("/health").status == 200
        files[1].write_text("nonsense")
        hang_up(gateway, "SIGHUP: the certificates were read again, those in use stay: key file")
        assert gateway.get("/health").status == 200


class InTerminal:
    """A program as the foreground job of a terminal of its own, whose address it prints there."""

    def __init__(self, *command):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen([*map(str, command)], stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        os.close(slave)
        text = b""
        while b"listening on " not in text or not text.endswith(b"\n"):
            text += os.read(self.master, 4096)
        self.address = text.split(b"listening on ")[1].split()[0].decode()

    def close(self):
        os.close(self.master)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.mark.parametrize("name", ["server", "gateway"])
def test_outlives_its_terminal(api, server, name):
    command = {"server": ["--model", f"bytes={GOLDEN / 'bytes_untied'}"], "gateway": ["--server", server.address]}[name]
    with InTerminal(BIN / f"tvq-{name}", "--port", "0", *command) as program:
        program.close()
        for _ in range(3):
            if name == "gateway":
                with urllib.request.urlopen(f"{program.address}/health", timeout=PATIENCE_SECONDS) as answer:
                    assert answer.status == 200
            else:
                with grpc.insecure_channel(program.address) as channel:
                    stub = api.model_grpc.ModelServiceStub(channel)
                    assert stub.ListModels(api.model.ListModelsRequest(), timeout=PATIENCE_SECONDS).models
            program.process.send_signal(signal.SIGHUP)
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(PATIENCE_SECONDS) == 0


@pytest.fixture(scope="module")
def early(tmp_path_factory):
    """A library that has its program sent SIGHUP before main is called."""
    folder = tmp_path_factory.mktemp("early")
    (folder / "early.c").write_text("""
        #include <signal.h>
        #include <unistd.h>
        __attribute__((constructor)) static void hang_up(void) { kill(getpid(), SIGHUP); }
        """)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "early.so", folder / "early.c"], check=True)
    return {"LD_PRELOAD": str(folder / "early.so")}


def test_one_that_comes_before_main_ends_nothing(api, server, early):
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", environment=early) as process:
        wait_until(lambda: "SIGHUP: this server has no file of keys" in process.stderr(), "the server answers it")
    with GatewayProcess(server.address, environment=early) as gateway:
        hang_up(gateway, "SIGHUP: this gateway has no certificates to read again")


def test_many_do_not_keep_the_gateway_from_its_end(server):
    for _ in range(40):
        with GatewayProcess(server.address) as gateway:
            for _ in range(50):
                gateway.process.send_signal(signal.SIGHUP)
            gateway.process.send_signal(signal.SIGTERM)
            assert gateway.process.wait(PATIENCE_SECONDS) == 0
