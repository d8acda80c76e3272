"""Server reflection, by hand: Debian has no package of the stubs."""

from pathlib import Path

from google.protobuf import descriptor_pb2
from raw_http2 import END_STREAM, HEADERS
from reset_storm import Attacker, requests
from server_process import PATIENCE_SECONDS
from test_keys import line

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def values(message, number):
    """Strings and messages with this field number in a message of the wire, which has nothing else but short numbers."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    at, found = 0, []
    while at < len(message):
        tag, size = varint(), varint()
        if tag & 7 == 2:
            if tag >> 3 == number:
                found.append(message[at:at + size])
            at += size
    return found


def test_reflection_describes_all_that_it_lists(start, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(line("ops", "beta", "admin"))
    server = start("--api-key-file", keys)
    call = server.channel.stream_stream(REFLECTION)

    def ask(request):
        response = next(call(iter([request])))
        assert not values(response, 7), response  # an error
        return response

    listed = values(ask(b"\x3a\x00"), 6)[0]  # list_services: ""
    services = {values(service, 1)[0].decode() for service in values(listed, 1)}
    assert {"tvq.v1.GenerationService", "tvq.v1.SessionService", "tvq.v1.ModelService", "tvq.v1.AdminService",
            "grpc.health.v1.Health"} <= services
    for service in services:
        name = service.encode()
        files = values(ask(b"\x22" + bytes([len(name)]) + name), 4)[0]  # file_containing_symbol
        described = [descriptor_pb2.FileDescriptorProto.FromString(file) for file in values(files, 1)]
        methods = {f"{file.package}.{one.name}": one.method for file in described for one in file.service}
        assert methods[service], service


def ended_streams(connection):
    """Counts on, at every frame that comes, the streams that the server has ended."""
    data, ended = b"", 0
    while True:
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
            ended += data[3] == HEADERS and data[4] & END_STREAM
            data = data[9 + int.from_bytes(data[:3], "big"):]
        yield ended
        data += connection.recv(1 << 16)


def test_streams_of_reflection_take_few_threads(start, tmp_path):
    """Each has one, and needs no key."""
    keys = tmp_path / "keys.txt"
    keys.write_text(line("ops", "beta", "admin"))
    server = start("--api-key-file", keys)

    def threads():
        return int(Path(f"/proc/{server.process.pid}/status").read_text().split("Threads:")[1].split()[0])

    before, streams = threads(), 500
    with Attacker(server.address, reads=False) as attacker:
        attacker.socket.settimeout(PATIENCE_SECONDS)
        attacker.send(b"".join(requests(streams, REFLECTION, reset=False)))
        next(ended for ended in ended_streams(attacker.socket) if ended >= streams - 100)  # most are refused
        assert threads() < before + 100
        check = server.channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=PATIENCE_SECONDS) == b"\x08\x01", "health is another matter"
