"""Keys, TLS, admin calls, exit codes."""

import os
import socket
import subprocess
import threading

import grpc
import pytest

from command_line import TVQ


def environment(**variables):
    return {"PATH": os.environ["PATH"], **variables}


def test_key_by_flag_file_and_environment(cli, fake, tmp_path):
    fake.keys = {"Key-1"}
    (tmp_path / "key").write_text("  Key-1 \nsecond line\n")
    (tmp_path / "empty").write_text("\n")
    refused = cli.run("session", "list")
    assert refused.returncode == 1 and b"UNAUTHENTICATED" in refused.stderr
    cli.ok("--api-key", "Key-1", "session", "list")
    cli.ok("session", "list", "--api-key", f"@{tmp_path / 'key'}")
    cli.ok("info", env=environment(TVQ_API_KEY="Key-1"))
    cli.ok("info", env=environment(TVQ_API_KEY=f"@{tmp_path / 'key'}"))
    assert cli.run("info", env=environment(TVQ_API_KEY="other")).returncode == 1
    for bad in (f"@{tmp_path / 'nothing'}", f"@{tmp_path / 'empty'}", "two\nlines"):
        assert cli.run("info", "--api-key", bad).returncode == 2, bad
    nothing = cli.run("info", "--api-key", "@")
    assert nothing.returncode == 2 and b"@ must stand before the name of a file" in nothing.stderr
    os.mkfifo(tmp_path / "pipe")
    silent = cli.run("info", "--api-key", f"@{tmp_path / 'pipe'}")
    assert silent.returncode == 2 and b"a pipe through which nothing comes" in silent.stderr, silent.stderr
    piped = subprocess.run(["bash", "-c", '"$0" --server "$1" --api-key @<(sleep 0.3; echo Key-1) info', TVQ, cli.address],
                           capture_output=True, timeout=60)
    assert piped.returncode == 0, piped.stderr


def test_info_shows_the_fingerprint(cli):
    assert "f1ngerpr1nt" in cli.ok("info")
    assert cli.json("info")["models"][0]["fingerprint"] == "f1ngerpr1nt"


def test_admin(cli, fake):
    assert cli.ok("admin", "drain", "--shutdown-timeout", 1.5) == "draining; 3 requests running"
    assert fake.requests[-1].timeout.ToMilliseconds() == 1500
    assert cli.json("admin", "drain") == {"requests_running": 3}
    assert not fake.requests[-1].HasField("timeout")
    assert cli.ok("admin", "reload") == "2 keys, new certificates"
    assert cli.json("admin", "reload") == {"keys": 2, "certificates_reloaded": True}


def test_admin_calls_without_keys(cli, fake):
    """Where gRPC itself answers, for the service is not there."""
    from fake_server import Refused
    fake.refuse["Drain"] = fake.refuse["ReloadCredentials"] = Refused(grpc.StatusCode.UNIMPLEMENTED, "")
    for command in ("drain", "reload"):
        done = cli.run("admin", command)
        assert done.returncode == 1 and done.stderr == (
            b"tvq: UNIMPLEMENTED: this server takes no admin calls, for it has no keys (tvq-server --api-key-file)\n")


def test_exit_codes(cli, fake, at):
    from fake_server import Refused
    fake.refuse["CreateSession"] = Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "SESSIONS_FULL", retry_after_ms=1500)
    full = cli.run("session", "create")
    assert full.returncode == 1 and b"1.5s" in full.stderr
    fake.refuse["CreateSession"] = Refused(grpc.StatusCode.UNAVAILABLE, "draining")
    assert cli.run("session", "create").returncode == 3
    # As calls end that reach a server while it closes.
    fake.refuse["CreateSession"] = fake.refuse["Generate"] = Refused(grpc.StatusCode.CANCELLED, "Cancelled")
    for arguments in (["session", "create"], ["generate", "--prompt", "a"]):
        closing = cli.run(*arguments)
        assert closing.returncode == 3 and b"UNAVAILABLE" in closing.stderr, closing.stderr
    del fake.refuse["Generate"]
    assert at("127.0.0.1:1").run("session", "list").returncode == 3
    fake.token_seconds = 0.05
    slow = cli.run("--timeout", 0.3, "generate", "--prompt", "a", "--max-tokens", 1_000_000)
    assert slow.returncode == 4 and b"DEADLINE_EXCEEDED: the call took longer than its timeout\n" in slow.stderr, slow.stderr


def test_no_server(at, cli, fake):
    away = at("127.0.0.1:1").run("info")
    assert away.returncode == 3
    assert b"No server at 127.0.0.1:1. Is tvq-server running? (--server, TVQ_SERVER)\n" in away.stderr
    unknown = at("nosuch.invalid").run("info")
    assert unknown.returncode == 3 and b"No server at nosuch.invalid:50051: there is no such name" in unknown.stderr
    for wrong in ("", "host:0", "ftp://host:1", "two words"):
        done = at(wrong).run("info")
        assert done.returncode == 2 and b"must be HOST:PORT" in done.stderr, done.stderr
        assert done.stderr.startswith(b"--server: "), done.stderr
    done = at("unix:").run("info")
    assert done.returncode == 2 and b"must have a path behind unix:" in done.stderr, done.stderr
    wrong = subprocess.run([TVQ, "info"], capture_output=True, env=environment(TVQ_SERVER="two words"))
    assert wrong.returncode == 2 and wrong.stderr.startswith(b'TVQ_SERVER: "two words" is no address of a server'), wrong.stderr


def test_a_server_to_which_no_connection_comes_about(at):
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes connections, and says nothing
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        for arguments in (["info"], ["health"], ["generate", "--prompt", "a"]):
            done = at(address).run("--timeout", 0.5, *arguments)
            assert done.returncode == 4
            assert done.stderr.decode() == (f"tvq: DEADLINE_EXCEEDED: no connection to {address} came about within the timeout. "
                                            "Is tvq-server running? (--server, TVQ_SERVER)\n"), done.stderr


def test_a_server_that_is_killed(at):
    from fake_server import break_calls
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=break_calls, args=(listener,), daemon=True).start()
        for arguments in (["info"], ["generate", "--prompt", "a"]):
            done = at(f"127.0.0.1:{listener.getsockname()[1]}").run(*arguments)
            assert done.returncode == 3
            assert done.stderr == b"tvq: UNAVAILABLE: The connection to the server broke: the server ended or closed it, or is out of reach.\n"


def test_addresses_as_people_write_them(at, fake):
    for scheme in ("http", "HTTP"):
        assert "f1ngerpr1nt" in at(f"{scheme}://{fake.address}/").ok("info")
    done = at(f"https://{fake.address}").run("info")
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1, done.stderr
    assert f"{fake.address} does not speak TLS".encode() in done.stderr


def test_this_machine_is_called_past_proxies(cli, at):
    proxy = environment(http_proxy="http://127.0.0.1:1", https_proxy="http://127.0.0.1:1")
    assert "f1ngerpr1nt" in cli.ok("info", env=proxy)
    port = cli.address.rpartition(":")[2]
    for here in ("0.0.0.0", "[::ffff:127.0.0.1]", "dns:///127.0.0.1", "ipv4:127.0.0.1"):
        assert "f1ngerpr1nt" in at(f"{here}:{port}").ok("info", env=proxy)
    elsewhere = at("10.254.254.254:1234").run("info", env=proxy)
    assert elsewhere.returncode == 3 and b"the proxy of https_proxy" in elsewhere.stderr, elsewhere.stderr
    proxy = environment(https_proxy="http://no.such.proxy.invalid:3128")
    unknown = at("10.254.254.254:1234").run("info", env=proxy)
    assert unknown.returncode == 3 and b"the proxy of https_proxy" in unknown.stderr, unknown.stderr
    assert "f1ngerpr1nt" in cli.ok("info", env=environment(https_proxy="garbage://::::"))
    garbage = at("127.0.0.1.example.invalid:1").run("info", env=environment(https_proxy="garbage://::::"))
    assert garbage.returncode == 3 and garbage.stderr.count(b"\n") == 1, garbage.stderr


def test_a_proxy_that_is_silent(at):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = environment(https_proxy=f"http://127.0.0.1:{listener.getsockname()[1]}")
        done = at("10.254.254.254:1234").run("--timeout", 0.5, "info", env=proxy)
        assert done.returncode == 4 and done.stderr.decode() == (
            "tvq: DEADLINE_EXCEEDED: no connection to 10.254.254.254:1234 came about within the timeout. It may be the proxy of "
            "https_proxy that is silent; calls go past it to servers that no_proxy names. Is tvq-server running? "
            "(--server, TVQ_SERVER)\n")


def test_a_proxy_that_refuses(at):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def refuse():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                connection.close()

        threading.Thread(target=refuse, daemon=True).start()
        proxy = f"127.0.0.1:{listener.getsockname()[1]}"
        done = at("10.254.254.254:1234").run("info", env=environment(https_proxy=f"http://{proxy}"))
        assert done.returncode == 3
        assert f"The proxy at {proxy} answers 502 instead of a connection".encode() in done.stderr, done.stderr
        assert b"It is the proxy of https_proxy" in done.stderr


def test_a_gateway_is_no_server(at):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        done = at(f"127.0.0.1:{listener.getsockname()[1]}").run("info")
        assert done.returncode == 3 and b"speaks HTTP, as tvq-gateway does" in done.stderr, done.stderr


def test_the_key_that_is_missing(cli, fake):
    fake.keys = {"Key-1"}
    done = cli.run("info")
    assert done.returncode == 1
    assert b"This server needs a key: --api-key @FILE or TVQ_API_KEY" in done.stderr
    wrong = cli.run("info", "--api-key", "other")
    assert wrong.returncode == 1 and b"needs a key" not in wrong.stderr


@pytest.mark.parametrize("arguments", [
    ["score", "--file"],
    ["generate", "--prompt-file"],
    ["session", "append", "s1", "--file"],
    ["session", "load"],
    ["info", "--ssl-ca-certs"],
])
def test_a_folder_is_no_file(cli, tmp_path, arguments):
    done = cli.run(*arguments, tmp_path)
    assert done.returncode == 2 and str(tmp_path).encode() in done.stderr, done.stderr


def test_a_folder_holds_no_key(cli, tmp_path):
    done = cli.run("info", "--api-key", f"@{tmp_path}")
    assert done.returncode == 2 and str(tmp_path).encode() in done.stderr, done.stderr


def test_a_folder_as_stdin(cli, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for arguments in (["tokenize"], ["detokenize"], ["score"]):
            done = subprocess.run([TVQ, "--server", cli.address, *arguments], stdin=folder, capture_output=True)
            assert done.returncode == 2 and b"stdin" in done.stderr, done.stderr
    finally:
        os.close(folder)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A signer (ca) and one that it signed for 127.0.0.1 (cert, key), which both sides of a call show."""
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run(["sh", "-ec", """
        openssl req -newkey rsa:2048 -nodes -x509 -days 2 -subj /CN=signer -keyout ca.key -out ca.pem
        openssl req -newkey rsa:2048 -nodes -subj /CN=server -keyout key.pem -out request
        echo subjectAltName=IP:127.0.0.1 >names
        openssl x509 -req -days 2 -in request -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out cert.pem
        """], cwd=folder, check=True, capture_output=True)
    return folder


def test_tls(certificates, at):
    from fake_server import FakeServer
    read = lambda name: (certificates / name).read_bytes()  # noqa: E731
    credentials = grpc.ssl_server_credentials([(read("key.pem"), read("cert.pem"))], read("ca.pem"), True)
    server = FakeServer(credentials)
    try:
        cli = at(server.address)
        own = ["--ssl-certfile", certificates / "cert.pem", "--ssl-keyfile", certificates / "key.pem"]
        trusts = ["--ssl-ca-certs", certificates / "ca.pem"]
        assert cli.ok("session", "create", *trusts, *own) == "s1"
        cli.ok("info", env=environment(TVQ_SSL_CA_CERTS=f"{certificates}/ca.pem",
                                       TVQ_SSL_CERTFILE=f"{certificates}/cert.pem",
                                       TVQ_SSL_KEYFILE=f"{certificates}/key.pem"))
        assert cli.run("info").returncode == 3  # plaintext
        assert cli.run("info", *trusts).returncode == 3  # no certificate of its own
        # The system's authorities did not sign the server's.
        stranger = cli.run("info", "--tls", *own)
        assert stranger.returncode == 3 and stranger.stderr.count(b"\n") == 1, stranger.stderr
        assert b"shows a certificate that no authority signed which this client trusts" in stranger.stderr
        assert b"(--ssl-ca-certs, TVQ_SSL_CA_CERTS)\n" in stranger.stderr
        half = cli.run("info", *trusts, *own[:2])
        assert half.returncode == 2 and half.stderr.startswith(b"--ssl-certfile requires --ssl-keyfile\n"), half.stderr
        assert cli.run("info", "--ssl-ca-certs", certificates / "nothing").returncode == 2
        damaged = certificates / "damaged.pem"
        damaged.write_text("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
        for wrong in ("key.pem", "damaged.pem"):
            done = cli.run("info", "--ssl-ca-certs", certificates / wrong)
            assert done.returncode == 2 and b"must be certificates in PEM" in done.stderr, done.stderr
        done = cli.run("info", *trusts, "--ssl-certfile", certificates / "cert.pem", "--ssl-keyfile", certificates / "ca.pem")
        assert done.returncode == 2 and b"must be a private key, not encrypted, in PEM" in done.stderr, done.stderr
    finally:
        server.stop()
