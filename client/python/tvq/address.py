"""Addresses of servers, and what to tell where there is no server."""

from __future__ import annotations

import ipaddress
import os
import re

DEFAULT_PORT = 50051


def parse_address(text: str) -> tuple[str, bool]:
    """An address as gRPC takes it, and whether it asks for TLS.

    Takes HOST, HOST:PORT, either of them behind http:// or https:// (which asks for TLS), and unix:PATH. ValueError
    for anything else.
    """
    tls = text.startswith("https://")
    address = re.sub(r"^https?://(.*?)/?$", r"\1", text)
    if re.match(r"(unix|unix-abstract|vsock|dns|ipv4|ipv6|xds):", address):
        return address, tls
    if _is_ipv6(address):
        return f"[{address}]:{DEFAULT_PORT}", tls
    parts = re.fullmatch(r"(\[[^\]]+\]|[^\s/:\[\]]+)(?::(\d{1,5}))?", address)
    port = int(parts[2] or DEFAULT_PORT) if parts else 0
    if parts is None or not 1 <= port <= 65535:
        raise ValueError(f"{text!r} is no address of a server, must be HOST:PORT")
    return f"{parts[1]}:{port}", tls


def is_loopback(address: str) -> bool:
    """Whether an address that parse_address gave is this machine for certain."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rsplit(":", 1)[0].strip("[]").lower()
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def unreachable(message: str) -> str:
    """What to tell instead of gRPC's message about a call that did not reach a server; "" for any other message."""
    name = re.match(r"DNS resolution failed for (.*?): (.*)", message)
    if name:
        unknown = "Domain name not found" in name[2] or "Name or service not known" in name[2]
        why = "there is no such name" if unknown else "the name cannot be looked up"
        return f"No server at {name[1]}: {why}. Is tvq-server running?"
    failed = re.match(r"failed to connect to all addresses; last error: \w+: (?:ipv[46]:)?(.*?): (.+)", message)
    if not failed:
        return ""
    address = failed[1].replace("%5B", "[").replace("%5D", "]")
    # Newer versions add "connect: " and the number.
    reason = failed[2].removeprefix("Failed to connect to remote host: ").removeprefix("connect: ").rsplit(" (", 1)[0]
    if "Failed parsing HTTP/2" in reason or "http1" in reason:
        return (f"{address} speaks HTTP, as tvq-gateway does. Give the address of tvq-server itself, of which the port "
                f"is {DEFAULT_PORT} by default.")
    known = reason in ("Connection refused", "No such file or directory")
    if known or any(word in reason for word in ("route", "unreachable", "timed out")):
        return f"No server at {address}{'' if known else f' ({reason})'}.{_of_proxy(address)} Is tvq-server running?"
    return f"Cannot connect to {address}: {reason}. Does the server speak TLS, or not, and who signed its certificate?"


def _of_proxy(address: str) -> str:
    for variable in ("grpc_proxy", "https_proxy", "http_proxy"):  # in gRPC's order
        value = os.environ.get(variable, "")
        if value:
            is_it = value.rstrip("/").endswith(address[address.rfind(":"):])
            return f" It is the proxy of {variable}; calls go past it to servers that no_proxy names." if is_it else ""
    return ""


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
