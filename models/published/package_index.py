"""Finds where a file of a Python package can be fetched: on PyPI, or on the indexes that pip is set up with."""

import ast
import html.parser
import json
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode

PYPI = "https://pypi.org/simple"
JSON = "application/vnd.pypi.simple.v1+json"
TIMEOUT_SECONDS = 30
LARGEST_PAGE = 64 << 20


class Unavailable(Exception):
    """What was asked for cannot be reached: there is no network, or the file is not there."""


class PipFailed(Exception):
    """pip cannot list its settings."""


class Settings:
    """pip's settings that matter here, from the environment, which comes first, and from its configuration files."""

    def __init__(self, python):
        listed = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True)
        if listed.returncode != 0:
            raise PipFailed(f"pip's settings cannot be read: {listed.stderr.strip() or f'it ended with {listed.returncode}'}")
        self.values = {}
        for line in listed.stdout.splitlines():
            name, _, value = line.partition("=")
            try:
                self.values[name] = ast.literal_eval(value)
            except (ValueError, SyntaxError):
                continue

    def get(self, name: str) -> str:
        for section in (":env:", "download", "global"):
            if f"{section}.{name}" in self.values:
                return str(self.values[f"{section}.{name}"])
        return ""

    def indexes(self) -> list:
        return [self.get("index-url") or PYPI, *self.get("extra-index-url").split()]

    def opener(self) -> urllib.request.OpenerDirector:
        context = ssl.create_default_context(cafile=self.get("cert") or None)
        handlers = [urllib.request.HTTPSHandler(context=context), Redirects()]
        if self.get("proxy"):
            handlers.append(urllib.request.ProxyHandler({scheme: self.get("proxy") for scheme in ("http", "https")}))
        return urllib.request.build_opener(*handlers)


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects. Credentials are sent along only if the host stays the same."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        follows = super().redirect_request(req, fp, code, msg, headers, newurl)
        if req.has_header("Authorization") and same_host(req.full_url, newurl):
            follows.add_unredirected_header("Authorization", req.get_header("Authorization"))
        return follows


def request(url: str, headers: dict) -> urllib.request.Request:
    """A request for a URL, which may contain a user and a password."""
    parts, authorization = urllib.parse.urlsplit(url), None
    if parts.username is not None:
        credentials = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        authorization = "Basic " + b64encode(credentials.encode()).decode()
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    made = urllib.request.Request(url, headers={"User-Agent": "tvq-get-model", **headers})
    if authorization:  # not one of the other headers, which are copied to all redirects
        made.add_unredirected_header("Authorization", authorization)
    return made


def shown(url: str) -> str:
    """The URL without its password, for messages."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        if tag == "a" and dict(attributes).get("href"):
            self.found.append(dict(attributes)["href"])


def links(body: bytes, kind: str) -> list:
    """The URLs of the files on an index's page of a package; such pages have one of two forms."""
    text = body.decode("utf-8", "replace")
    if kind == JSON:
        return [file["url"] for file in json.loads(text)["files"]]
    page = Links()
    page.feed(text)
    return page.found


def find_file(opener, indexes: list, package: str, name: str) -> str:
    """The URL of the file `name`. Unavailable says for each index why it was not found there."""
    reasons = []
    for index in indexes:
        page = f"{index.rstrip('/')}/{package}/"
        try:
            with opener.open(request(page, {"Accept": f"{JSON}, text/html;q=0.5"}), timeout=TIMEOUT_SECONDS) as answer:
                found = links(answer.read(LARGEST_PAGE), answer.headers.get_content_type())
        except (OSError, ValueError, KeyError, TypeError) as error:
            reasons.append(f"{shown(page)}: {getattr(error, 'reason', None) or error}")
            continue
        for link in found:
            url = urllib.parse.urljoin(page, link).partition("#")[0]
            if urllib.parse.unquote(url.rpartition("/")[2]) == name:
                return with_credentials(url, page)
        reasons.append(f"{shown(page)}: has no file {name}")
    raise Unavailable("; ".join(reasons))


def with_credentials(url: str, page: str) -> str:
    """The file's URL with the credentials of the index's page, if the file lies on the same host."""
    there, here = urllib.parse.urlsplit(url), urllib.parse.urlsplit(page)
    if not same_host(url, page) or here.username is None or there.username is not None:
        return url
    return urllib.parse.urlunsplit(there._replace(netloc=here.netloc))


def same_host(url: str, other: str) -> bool:
    """Whether two URLs have the same scheme, host and port."""
    one, two = ((parts.scheme, parts.netloc.rpartition("@")[2].lower()) for parts in map(urllib.parse.urlsplit, (url, other)))
    return one == two
