"""Keys, TLS, errors, admin calls."""

import http.server
import os
import socket
import subprocess
import sys
import threading
from concurrent import futures
from datetime import timedelta

import grpc
import pytest


def test_key(tvq, fake):
    fake.keys = {"Key-1"}
    with tvq.Client(fake.address) as client, pytest.raises(tvq.Unauthenticated):
        client.models()
    with tvq.Client(fake.address, api_key="Key-1") as client:
        client.models()
        assert client.generate("a", max_tokens=1).text() == "A"
        assert client.import_session(b"".join(client.create_session().export())).id == "s2"
        assert client.generate_with_state("a", max_tokens=1).text() == "A"


def test_a_key_as_files_hold_it(tvq, fake):
    fake.keys = {"Key-1"}
    with tvq.Client(fake.address, api_key="Key-1\n") as client:
        client.models()
    for wrong in ("two words", "two\nlines", "Schlüssel"):
        with pytest.raises(ValueError, match="api_key"):
            tvq.Client(fake.address, api_key=wrong)
    with pytest.raises(TypeError, match="api_key: must be a str"):
        tvq.Client(fake.address, api_key=b"Key-1")
    with pytest.raises(TypeError, match="address: must be a str"):
        tvq.Client(fake.address.encode())


def test_addresses_as_people_write_them(tvq, fake):
    from tvq.address import is_loopback, parse_address
    with tvq.Client(f"http://{fake.address}/") as client:
        client.models()
    for text, address in [("localhost", "localhost:50051"), ("::1", "[::1]:50051"), ("[::1]:9", "[::1]:9"),
                          ("unix:/tmp/s", "unix:/tmp/s"), (f"unix:///{106 * 'x'}", f"unix:///{106 * 'x'}"), ("dns:///name:5", "dns:///name:5"),
                          ("fe80::1%eth0", "[fe80::1%eth0]:50051"), ("ipv4:10.0.0.1:1,10.0.0.2:1", "ipv4:10.0.0.1:1,10.0.0.2:1")]:
        assert parse_address(text) == (address, False)
    assert parse_address("https://tvq.example.com") == parse_address("HTTPS://tvq.example.com/") == (
        "tvq.example.com:50051", True)
    for wrong, must in [("unix:", "a path behind unix:"), ("unix:///", "a path behind unix:"),
                        ("dns:///", "an address behind dns:"), ("unix:" + 108 * "x", "at most 107 bytes"),
                        ("ipv4:name:1", "numbers of IPv4 behind ipv4:"), ("ipv4:1.2.3.4:1,::1", "numbers of IPv4"),
                        ("ipv6:::1]:1", "numbers of IPv6 behind ipv6:")]:
        with pytest.raises(ValueError, match=must):
            tvq.Client(wrong)
    for wrong in ("", ":1", "host:", "host:0", "host:65536", "host:port", "host:1/path", "http://", "ftp://host:1",
                  "a:b:5", "[::1", "host:+5", "host:5\n", "xds:///host", "h\udcffst", "50051"):
        with pytest.raises(ValueError, match="must be HOST:PORT"):
            tvq.Client(wrong)
    for here in ("localhost:1", "127.8.0.1:1", "[::1]:1", "0.0.0.0:1", "[::]:1", "[::ffff:127.0.0.1]:1", "localhost.:1",
                 "dns:///localhost", "dns:localhost:1", "ipv4:127.0.0.1:1,127.0.0.2:1", "ipv6:[::1]:1", "unix:/tmp/s"):
        assert is_loopback(here), here
    for elsewhere in ("10.0.0.1:1", "127.a.b:1", "[::ffff:10.0.0.1]:1", "dns:///example.com", "dns://127.0.0.1/example.com",
                      "ipv4:127.0.0.1:1,10.0.0.1:1", "localhost.example.com:1"):
        assert not is_loopback(elsewhere), elsewhere


def test_words_of_grpc_are_translated(tvq, monkeypatch):
    from tvq.address import unreachable
    for message in ("Socket closed", "recvmsg:Connection reset by peer", "Broken pipe", "GOAWAY received", "ping timeout"):
        assert unreachable(message) == "The connection to the server broke: the server ended or closed it, or is out of reach."
    assert unreachable("the server is draining") == ""

    def told(reason):
        return unreachable("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:91: " + reason)

    for reason in ("SSL_ERROR_SSL: error:0A000086:SSL routines::certificate verify failed",
                   "SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED"):
        assert told(f"Ssl handshake failed (TSI_PROTOCOL_FAILURE): {reason}").startswith(
            "10.0.0.1:91 shows a certificate that no authority signed which this client trusts")
    assert "does not speak TLS" in told("SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong version number")
    assert "the certificate of this client" in told("SSL_ERROR_SSL: error:0A000418:SSL routines::tlsv1 alert unknown ca")
    assert "the certificate of this client" not in told("SSL_ERROR_SSL: error:0A000438:SSL routines::tlsv1 alert internal error")
    assert "of another name" in told("Peer name 10.0.0.1 is not in peer certificate")
    assert "speaks HTTPS" in told("Cannot check peer: missing selected ALPN property.")
    for variable in ("grpc_proxy", "http_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("https_proxy", "http://user:secret@proxy.example:91/")
    assert told("HTTP proxy returned response code 502").startswith(
        "The proxy at 10.0.0.1:91 answers 502 instead of a connection to the server. It is the proxy of https_proxy;")
    assert "the proxy of https_proxy" in unreachable("DNS resolution failed for proxy.example:91: Domain name not found")
    assert "the proxy of https_proxy" in told("Socket closed")
    assert "proxy of" not in unreachable("DNS resolution failed for proxy.example:92: Domain name not found")


def test_what_another_server_answers_is_told(tvq):
    from tvq.grpc_words import without_grpc_words
    code = grpc.StatusCode
    assert without_grpc_words(code.NOT_FOUND, "model: there is none") == "model: there is none"
    for begin in ("", "SERVER: "):
        assert without_grpc_words(code.RESOURCE_EXHAUSTED, f"{begin}Received message larger than max (7 vs. 5)").startswith(
            "the request has 7 bytes, the server takes at most 5;")
    assert "answers with status 502" in without_grpc_words(code.UNAVAILABLE, "Received http2 header with status: 502")
    for message in ("", "Method not found!", "unknown service tvq.v1.ModelService", "unknown method GetModel for service x",
                    "The server does not implement the method /tvq.v1.ModelService/GetModel"):
        assert without_grpc_words(code.UNIMPLEMENTED, message).startswith("this server does not take such calls"), message
    for message in ("Stream removed (Data frame with END_STREAM flag received)", "Received RST_STREAM with error code 2"):
        assert without_grpc_words(code.INTERNAL, message).startswith("the server broke the call off"), message
        assert without_grpc_words(code.UNAVAILABLE, message).startswith("The connection to the server broke"), message
    assert "no tvq-server" in without_grpc_words(code.INTERNAL, "Exception deserializing response!")
    assert "the key is too long" in without_grpc_words(code.RESOURCE_EXHAUSTED, "received initial metadata size exceeds limit")
    assert without_grpc_words(code.DEADLINE_EXCEEDED, "Stream removed (Deadline Exceeded)") == "the call took longer than its timeout"
    assert "there is no such name" in without_grpc_words(code.UNAVAILABLE, "errors resolving host.invalid:50051: [field:hostname "
                                                         "lookup error:address lookup failed for host.invalid:50051: Domain name not found]")
    assert without_grpc_words(code.INTERNAL, "") == "the server did not say why"


def test_an_answer_that_is_none_is_told(tvq):
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([type("Any", (grpc.GenericRpcHandler,), {"service": lambda self, call: (
        grpc.unary_unary_rpc_method_handler(lambda request, context: b"\xff"))})()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with tvq.Client(f"127.0.0.1:{port}") as client, pytest.raises(tvq.Error, match="what answers there is no tvq-server"):
            client.models()
    finally:
        server.stop(0).wait()


def test_a_server_that_is_killed(tvq):
    from fake_server import break_calls
    with socket.create_server(("127.0.0.1", 0)) as listener, tvq.Client(
            f"127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
        threading.Thread(target=break_calls, args=(listener,), daemon=True).start()
        with pytest.raises(tvq.Unavailable) as broken:
            client.models()
    assert broken.value.message == "The connection to the server broke: the server ended or closed it, or is out of reach."


def test_no_server(tvq, fake, monkeypatch):
    with tvq.Client("127.0.0.1:1") as client, pytest.raises(tvq.Unavailable) as away:
        client.models()
    assert away.value.message == "No server at 127.0.0.1:1. Is tvq-server running?"
    with tvq.Client("nosuch.invalid") as client, pytest.raises(tvq.Unavailable, match="there is no such name"):
        client.models()
    # Calls to this machine go past a proxy, others do not.
    for variable in ("grpc_proxy", "https_proxy", "no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with tvq.Client(fake.address) as client:
        client.models()
    with tvq.Client("10.254.254.254:1234") as client, pytest.raises(tvq.Unavailable, match="the proxy of http_proxy"):
        client.models()


def test_grpc_writes_nothing_to_stderr(package, fake):
    script = f"""
import tvq
try:
    tvq.Client("https://{fake.address}").models()
except tvq.Unavailable as error:
    print(error.message)
"""
    variables = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    done = subprocess.run([sys.executable, "-c", script], env={**variables, "PYTHONPATH": str(package)},
                          capture_output=True, text=True, timeout=60)
    assert "does not speak TLS" in done.stdout and done.stderr == "", done


def test_a_gateway_is_no_server(tvq):
    class Hello(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self):
            self.wfile.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.close_connection = True

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as gateway:
        threading.Thread(target=gateway.serve_forever, daemon=True).start()
        with tvq.Client(f"127.0.0.1:{gateway.server_port}") as client, pytest.raises(tvq.Unavailable, match="HTTP"):
            client.models()
        gateway.shutdown()


def test_every_code_has_its_class(client, fake, tvq):
    from fake_server import Refused
    for code in grpc.StatusCode:
        if code in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
            continue
        fake.refuse["GetModel"] = Refused(code, "so it is")
        with pytest.raises(tvq.Error) as refused:
            client.model()
        assert refused.value.code == code.name and str(refused.value) == f"{code.name}: so it is"
        if code.name not in ("UNKNOWN", "OUT_OF_RANGE"):
            assert type(refused.value) is not tvq.Error, code


def test_a_call_that_the_server_cancels_is_to_be_made_again(client, fake, tvq):
    """As calls do that reach a server while it closes."""
    from fake_server import Refused
    fake.refuse = dict.fromkeys(("GetModel", "Generate", "ImportSession"), Refused(grpc.StatusCode.CANCELLED, "Cancelled"))
    for call in (client.model, client.generate("a").text, lambda: client.import_session(b"x")):
        with pytest.raises(tvq.Unavailable):
            call()


def test_a_call_that_is_cancelled_amid_its_output_was_read_too_slowly(client, fake, tvq):
    from tvq.v1 import generation_pb2

    def answer(request, context):
        yield generation_pb2.GenerateResponse(deltas=[{"text": "x"}])
        context.abort(grpc.StatusCode.CANCELLED, "CANCELLED")

    fake.Generate = answer
    generation = client.generate("a")
    assert next(generation).text == "x"
    with pytest.raises(tvq.DeadlineExceeded):
        next(generation)


def test_a_timeout_is_told(client, fake, tvq):
    fake.token_seconds = 0.05
    with pytest.raises(tvq.DeadlineExceeded, match="the call took longer than its timeout"):
        client.generate("a", max_tokens=1_000_000, timeout=0.3).text()


def test_closing_the_client_cancels_its_calls(tvq, fake):
    fake.token_seconds = 0.01
    client = tvq.Client(fake.address)
    generation = client.generate("a", max_tokens=1_000_000)
    next(generation)
    client.close()
    with pytest.raises(tvq.Cancelled):
        generation.text()


def test_a_closed_client_says_so(tvq, fake):
    client = tvq.Client(fake.address)
    session = client.create_session()
    client.close()
    for call in (client.models, lambda: client.generate("a"), lambda: client.score("a"), lambda: session.append("a"),
                 lambda: client.import_session(b"x"), client.admin.drain):
        with pytest.raises(ValueError, match="this client is closed"):
            call()


def test_a_timeout_is_a_time(tvq, fake, client):
    for wrong, error, words in [(0, ValueError, "None stands for no limit"), (-1, ValueError, "must be from 0 to"),
                                (float("nan"), ValueError, "must be from 0 to"), (float("inf"), ValueError, "must be from 0 to"),
                                ("5", TypeError, "must be a number of seconds"), (True, TypeError, "must be a number of seconds")]:
        for call in (lambda: tvq.Client(fake.address, timeout=wrong), lambda: client.generate("a", timeout=wrong),
                     lambda: client.encode("a", timeout=wrong), lambda: client.import_session(b"x", timeout=wrong),
                     lambda: client.create_session().append("a", timeout=wrong)):
            with pytest.raises(error, match=f"^timeout: .*{words}"):
                call()
    assert client.generate("a", max_tokens=1, timeout=timedelta(minutes=1)).text() == "A"


def test_the_files_of_tls_are_not_overlooked(tvq, fake):
    for wrong in ("ca.pem", 1, {"ca": "ca.pem"}):
        with pytest.raises(TypeError, match="tls: must be True, False or a Tls"):
            tvq.Client(fake.address, tls=wrong)
    with pytest.raises(TypeError, match="tls: must have the paths of PEM files"):
        tvq.Client(fake.address, tls=tvq.Tls(ca=b"ca.pem"))


def test_no_admin_calls_without_keys(client, fake, tvq):
    from fake_server import Refused
    fake.refuse["Drain"] = Refused(grpc.StatusCode.UNIMPLEMENTED, "")
    with pytest.raises(tvq.Unimplemented, match="this server takes no admin calls, for it has no keys"):
        client.admin.drain()


def test_retry_after(client, fake, tvq):
    from fake_server import Refused
    for reason, after_ms, seconds in (("QUEUE_FULL", 250, 0.25), ("REQUEST_TOO_LARGE", None, None), (None, None, None)):
        fake.refuse["Generate"] = Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", reason, retry_after_ms=after_ms)
        with pytest.raises(tvq.ResourceExhausted) as refused:
            client.generate("a").text()
        assert (refused.value.retry_after, refused.value.reason, refused.value.field) == (seconds, reason, None)


def test_reason_and_field(client, fake, tvq):
    from fake_server import Refused
    fake.refuse["Generate"] = Refused(grpc.StatusCode.INVALID_ARGUMENT, "stop[1]: is empty", "VALUE_INVALID", "stop[1]")
    with pytest.raises(tvq.InvalidArgument) as refused:
        client.generate("a").text()
    assert (refused.value.reason, refused.value.field) == ("VALUE_INVALID", "stop[1]")
    assert refused.value.message == "stop[1]: is empty"


def test_server_that_is_not_there(tvq):
    with tvq.Client("127.0.0.1:1", timeout=30) as client, pytest.raises(tvq.Unavailable):
        client.models()


def test_admin(client, fake):
    assert client.admin.drain(timeout=1.5) == 3
    assert fake.requests[-1].timeout.ToMilliseconds() == 1500
    client.admin.drain()
    assert not fake.requests[-1].HasField("timeout")
    assert client.admin.reload_credentials() == 2


def test_tls(tvq, tmp_path):
    from fake_server import FakeServer
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=server",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
                   cwd=tmp_path, check=True, capture_output=True)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    pair = (key.read_bytes(), cert.read_bytes())
    server = FakeServer(grpc.ssl_server_credentials([pair], cert.read_bytes(), require_client_auth=True))
    try:
        with tvq.Client(server.address, tls=tvq.Tls(ca=cert, cert=cert, key=str(key))) as client:
            assert client.model().name == "fake"
        for wrong in (False, True, tvq.Tls(ca=cert)):
            with tvq.Client(server.address, tls=wrong) as client, pytest.raises(tvq.Unavailable):
                client.model()
        with pytest.raises(ValueError):
            tvq.Client(server.address, tls=tvq.Tls(cert=cert))
        with pytest.raises(FileNotFoundError):
            tvq.Client(server.address, tls=tvq.Tls(ca=tmp_path / "nothing"))
        (tmp_path / "damaged.pem").write_text("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
        for wrong in (key, tmp_path / "damaged.pem"):
            with pytest.raises(ValueError, match=f"{wrong} must hold certificates in PEM"):
                tvq.Client(server.address, tls=tvq.Tls(ca=wrong))
        damaged, locked = tmp_path / "damaged.key", tmp_path / "locked.key"
        damaged.write_text("-----BEGIN PRIVATE KEY-----\nnone\n-----END PRIVATE KEY-----\n")
        subprocess.run(["openssl", "pkey", "-in", key, "-out", locked, "-aes256", "-passout", "pass:word"], check=True)
        for wrong in (cert, damaged, locked):
            with pytest.raises(ValueError, match=f"{wrong} must hold the private key of {cert}, in PEM and without a password"):
                tvq.Client(server.address, tls=tvq.Tls(ca=cert, cert=cert, key=wrong))
    finally:
        server.stop()
