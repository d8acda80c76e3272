"""The health checks of the images: `tvq health` and `tvq-gateway --check`, as the Dockerfile has them."""

import os
import re
import socket
import subprocess

import pytest
from certificates import Authority
from gateway_process import GatewayProcess
from server_process import BIN, PATIENCE_SECONDS, ROOT, dead_addresses, wait_until
from test_keys import line
from test_snapshots import kill


def commands():
    """The shell commands of the Dockerfile's health checks, by the program that is checked."""
    text = (ROOT / "server" / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
    found = [re.sub(r"--\S+=\S+ +", "", check).strip() for check in re.findall(r"(?m)^HEALTHCHECK +(.*)", text)]
    assert [check.split()[:2] for check in found] == [["CMD", "tvq"], ["CMD", "tvq-gateway"]]
    return dict(zip(["server", "gateway"], (check.removeprefix("CMD ") for check in found)))


def check(program, address, **environment):
    """Runs the image's health check of what listens there; `environment` is that of the container."""
    environment |= {"PATH": f"{BIN}:{os.environ['PATH']}", "TVQ_HOST": "0.0.0.0", "TVQ_PORT": address.rpartition(":")[2]}
    return subprocess.run(["sh", "-c", commands()[program]], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def test_server(start, tvq):
    server = start()
    done = check("server", server.address)
    assert (done.returncode, done.stdout) == (0, "SERVING\n")
    done = tvq("health", "--server", server.address, "--json")
    assert done.returncode == 0 and b'"status": "SERVING"' in done.stdout


def test_server_with_keys(start, tmp_path):
    (tmp_path / "keys").write_text(line("ana", "alpha"))
    server = start("--api-key-file", tmp_path / "keys")
    assert check("server", server.address).returncode == 0
    for key in ("beta", "@/no/such/file"):
        assert check("server", server.address, TVQ_API_KEY=key).returncode == 0


@pytest.mark.parametrize("mutual", [False, True])
def test_server_with_tls(start, authority, mutual):
    """Nobody tells the check who signed the server's certificate, and it is not made out to 127.0.0.1."""
    certificate, key = authority.issue("server", names="DNS:tvq.example.org")
    environment = {"TVQ_SSL_CERTFILE": str(certificate), "TVQ_SSL_KEYFILE": str(key)}
    if mutual:
        environment["TVQ_SSL_CA_CERTS"] = str(authority.ca)
    server = start("--ssl-certfile", certificate, "--ssl-keyfile", key, *(["--ssl-ca-certs", authority.ca] if mutual else []))
    done = check("server", server.address, **environment)
    assert done.returncode == 0, done.stderr
    assert check("server", server.address).returncode == 3  # without TLS


def test_server_whose_certificate_is_no_clients(start, authority, tmp_path):
    """As public authorities sign them, and beside clients whom another authority signs: the check is refused, by a
    server that is alive."""
    clients = Authority(tmp_path / "clients")
    for name, usage, trusted in [("usage", "serverAuth", authority), ("other", "", clients)]:
        certificate, key = authority.issue(name, usage=usage)
        files = {"TVQ_SSL_CERTFILE": str(certificate), "TVQ_SSL_KEYFILE": str(key), "TVQ_SSL_CA_CERTS": str(trusted.ca)}
        server = start("--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certs", trusted.ca)
        done = check("server", server.address, **files)
        assert (done.returncode, done.stdout) == (0, "ALIVE\n"), done.stderr
        kill(server)
        assert check("server", server.address, **files).returncode == 3


def test_server_that_drains(start):
    server = start()
    call = server.endless()
    server.process.terminate()
    wait_until(lambda: check("server", server.address).returncode == 3, "the check fails")
    call.cancel()


def test_nobody_there(tvq):
    with dead_addresses(1) as (address, ):
        assert check("server", address).returncode == 3
        done = check("gateway", address)
        assert done.returncode == 1
        assert done.stderr == f"tvq-gateway: 0.0.0.0:{address.rpartition(':')[2]}: nothing listens there\n"


def test_whoever_does_not_answer(tvq):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert tvq("health", "--server", address, "--timeout", 0.3).returncode in (3, 4)
        done = check("gateway", address)
        assert done.returncode == 1 and "no answer" in done.stderr


def test_gateway():
    with dead_addresses(1) as (server, ), GatewayProcess(server) as gateway:  # it is well without a server, too
        done = check("gateway", f":{gateway.port}")
        assert (done.returncode, done.stderr) == (0, "")


def test_gateway_with_tls(authority):
    certificate, key = authority.issue("gateway", names="DNS:tvq.example.org")
    files = {"TVQ_SSL_CERTFILE": str(certificate), "TVQ_SSL_KEYFILE": str(key)}
    with dead_addresses(1) as (server, ), GatewayProcess(server, environment=files) as gateway:
        done = check("gateway", f":{gateway.port}", **files)
        assert (done.returncode, done.stderr) == (0, "")
        done = check("gateway", f":{gateway.port}")  # without TLS
        assert done.returncode == 1
        assert done.stderr.endswith("does not speak HTTP; --ssl-certfile and --ssl-keyfile ask for HTTPS\n")
    with dead_addresses(1) as (server, ), GatewayProcess(server) as gateway:
        done = check("gateway", f":{gateway.port}", **files)
        assert done.returncode == 1 and done.stderr.endswith(": what listens there does not speak HTTPS\n")


def test_a_server_is_no_gateway(start):
    assert check("gateway", start().address).returncode == 1
