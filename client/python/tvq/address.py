"""Addresses of servers, and what to tell where there is no server."""

from __future__ import annotations

import ipaddress
import os
import re

DEFAULT_PORT = 50051

_MOST_PATH = 107  # bytes of a Unix socket's


def parse_address(text: str) -> tuple[str, bool]:
    """An address as gRPC takes it, and whether it asks for TLS.

    Takes HOST, HOST:PORT, either of them behind http:// or https:// (which asks for TLS), and unix:PATH. ValueError
    for anything else.
    """
    if not isinstance(text, str):
        raise TypeError("address: must be a str")
    if not text.isprintable():  # such as half a surrogate pair, which gRPC cannot take
        raise ValueError(f"{text!r} is no address of a server, must be HOST:PORT")
    tls = text.lower().startswith("https://")
    address = re.sub(r"^https?://(.*?)/?$", r"\1", text, flags=re.IGNORECASE)
    named = re.match(r"(unix|unix-abstract|vsock|dns|ipv4|ipv6):/*(.*)", address)
    if named:
        if not named[2]:
            what = "a path" if named[1].startswith("unix") else "an address"
            raise ValueError(f"{text!r} is no address of a server, must have {what} behind {named[1]}:")
        if named[1].startswith("unix") and len(re.sub(r"^[^:]*:(//)?", "", address).encode()) > _MOST_PATH:
            raise ValueError(f"{text!r} is no address of a server, must have a path of at most {_MOST_PATH} bytes")
        if named[1] in ("ipv4", "ipv6") and not all(_is_ip(one, int(named[1][3])) for one in named[2].split(",")):
            raise ValueError(f"{text!r} is no address of a server, must have numbers of IPv{named[1][3]} behind {named[1]}:")
        return address, tls
    if _is_ipv6(address):
        return f"[{address}]:{DEFAULT_PORT}", tls
    parts = re.fullmatch(r"(\[[^\]]+\]|[^\s/:\[\]]+)(?::(\d{1,5}))?", address)
    port = int(parts[2] or DEFAULT_PORT) if parts else 0
    if parts is None or address.isdecimal() or not 1 <= port <= 65535:  # a port alone; no host's name is a number
        raise ValueError(f"{text!r} is no address of a server, must be HOST:PORT")
    return f"{parts[1]}:{port}", tls


def is_loopback(address: str) -> bool:
    """Whether an address that parse_address gave is this machine for certain."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    address = re.sub(r"^dns:(//[^/]*/)?", "", address)
    numbers = re.sub(r"^ipv[46]:", "", address)
    return all(map(_is_loopback_host, [address] if numbers == address else numbers.split(",")))


def _is_loopback_host(address: str) -> bool:
    host = re.sub(r":\d+$", "", address).strip("[]").lower()
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return host in ("localhost", "localhost.")
    # A connection to the address of no host goes to this machine on Linux.
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback or ip.is_unspecified


def unreachable(message: str) -> str:
    """What to tell instead of gRPC's message about a call that did not reach a server, or whose connection broke; ""
    for any other message."""
    if message.startswith(_BROKEN):
        return "The connection to the server broke: the server ended or closed it, or is out of reach."
    name = re.match(r"(?:DNS resolution failed for|errors resolving) (.*?): (.*)", message)
    if name:
        unknown = "Domain name not found" in name[2] or "Name or service not known" in name[2]
        why = "there is no such name" if unknown else "the name cannot be looked up"
        return f"No server at {name[1]}: {why}.{_of_proxy(name[1])} Is tvq-server running?"
    if message.startswith("empty address list"):
        return "No server: its name has no address. Is tvq-server running?"
    failed = re.match(r"failed to connect to all addresses; last error: \w+: (?:ipv[46]:)?(.*?): (.+)", message)
    if not failed:
        return ""
    address = failed[1].replace("%5B", "[").replace("%5D", "]")
    # Newer versions add "connect: " and the number.
    reason = failed[2].removeprefix("Failed to connect to remote host: ").removeprefix("connect: ").rsplit(" (", 1)[0]
    if reason.startswith("HTTP proxy returned response code "):
        return (f"The proxy at {address} answers {reason.rpartition(' ')[2]} instead of a connection to the "
                f"server.{_of_proxy(address)}")
    if "Failed parsing HTTP/2" in reason or "http1" in reason:
        return (f"{address} speaks HTTP, as tvq-gateway does. Give the address of tvq-server itself, of which the port "
                f"is {DEFAULT_PORT} by default.")
    known = reason in ("Connection refused", "No such file or directory")
    if known or any(word in reason for word in ("route", "unreachable", "timed out")):
        return f"No server at {address}{'' if known else f' ({reason})'}.{_of_proxy(address)} Is tvq-server running?"
    # BoringSSL writes CERTIFICATE_VERIFY_FAILED where OpenSSL writes certificate verify failed.
    text = failed[2].lower().replace("_", " ")
    for part, told in _TLS_FAILURES.items():
        if part in text:
            return f"{address} {told}"
    if reason.startswith(_BROKEN):
        reason = "it closes the connection"
    return (f"Cannot connect to {address}: {reason}.{_of_proxy(address)} Does the server speak TLS, or not, and who signed "
            "its certificate?")


# How gRPC's messages begin about a connection that ended amid a call.
_BROKEN = ("Socket closed", "recvmsg", "sendmsg", "Connection reset", "Broken pipe", "GOAWAY", "keepalive", "Keepalive",
           "ping timeout", "Transport closed", "Endpoint ", "Delayed close", "Stream removed", "Received RST_STREAM",
           "Connection timed out")

_NOT_TLS = ("does not speak TLS. Leave out https:// and what else asks for TLS; the port of tvq-server is "
            f"{DEFAULT_PORT} by default.")
_OTHER_NAME = "shows a certificate that is of another name."

# A part of the reason, in small letters and with blanks, and what to tell behind the address.
_TLS_FAILURES = {
    "certificate verify failed": "shows a certificate that no authority signed which this client trusts, or that has expired. Give "
                                 "the CA certificates that its own comes from: Client(tls=Tls(ca=...))",
    "wrong version number": _NOT_TLS,
    "packet length too long": _NOT_TLS,
    "http request": _NOT_TLS,
    "is not in peer certificate": _OTHER_NAME,
    "hostname verification": _OTHER_NAME,
    "alpn": "speaks HTTPS, as tvq-gateway does. Give the address of tvq-server itself.",
    **dict.fromkeys(("alert certificate", "alert bad certificate", "alert unsupported certificate", "alert unknown ca"),
                    "does not believe the certificate of this client, or wants one."),
}


def _of_proxy(address: str) -> str:
    for variable in ("grpc_proxy", "https_proxy", "http_proxy"):  # in gRPC's order
        value = os.environ.get(variable, "")
        if value:
            proxy = value.partition("://")[2] or value
            is_it = _port_of(proxy.partition("/")[0].rpartition("@")[2]) == _port_of(address)
            return f" It is the proxy of {variable}; calls go past it to servers that no_proxy names." if is_it else ""
    return ""


def _port_of(address: str) -> str:
    """gRPC's own where there is none."""
    port = re.search(r":(\d+)$", address)
    return port[1] if port else "443"


def _is_ipv6(host: str) -> bool:
    return _is_version(host, 6)


def _is_ip(address: str, version: int) -> bool:
    """Whether an address, with a port or without, is numbers of IPv4 or IPv6."""
    if _is_version(address, version):
        return True
    parts = re.fullmatch(r"\[(.+)\](?::\d{1,5})?" if version == 6 else r"(.+?):\d{1,5}", address)
    return parts is not None and _is_version(parts[1], version)


def _is_version(host: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False
