"""Fetches a file whose size and SHA-256 are known. If a download breaks off, what was fetched stays and the next one resumes."""

import hashlib
import http.client
import os
import pathlib
import re
import time

from models.published.package_index import TIMEOUT_SECONDS, Unavailable, request
from models.training.progress import Progress

PIECE = 1 << 18
TRIES = 5  # the fetch fails after so many tries in a row that bring nothing
WAIT_SECONDS = 1.0  # before the second try, and twice as long before each further one


class BadDownload(Exception):
    """What was fetched is not what was asked for."""


def sha256_of(path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def is_whole(path: pathlib.Path, size: int, sha256: str) -> bool:
    return path.is_file() and path.stat().st_size == size and sha256_of(path) == sha256


def fetch(opener, url: str, path: pathlib.Path, size: int, sha256: str, stream, wait=WAIT_SECONDS) -> None:
    """Fetches into `path`, by way of `path`.part; shows its progress in `stream`. Unavailable, or BadDownload."""
    part = path.with_name(path.name + ".part")
    resumed = part.exists() and part.stat().st_size > 0
    if resumed:
        Progress(stream).note(f"Going on after {megabytes(part.stat().st_size)} MB that are here already")
    bring(opener, url, part, size, stream, wait)
    if sha256_of(part) != sha256 and resumed:  # the part that was here before may be damaged
        part.unlink()
        Progress(stream).note("What was here already was damaged; fetching the whole file again")
        bring(opener, url, part, size, stream, wait)
    if sha256_of(part) != sha256:
        part.unlink()
        raise BadDownload(f"{path.name} came with {size} bytes whose SHA-256 is not {sha256}: it was changed on its way, or at "
                          "its source")
    os.replace(part, path)


def bring(opener, url: str, part: pathlib.Path, size: int, stream, wait: float) -> None:
    """Fetches until `part` has `size` bytes."""
    progress, failures = Progress(stream), 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        if before == size:
            break
        if before > size:
            part.unlink()
            continue
        try:
            receive(opener, url, part, before, size, progress)
            reason = "the connection ended"
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
        after = part.stat().st_size if part.exists() else 0
        if after == size:
            break
        failures = 0 if after > before else failures + 1
        if failures == TRIES:
            raise Unavailable(f"the download broke off after {megabytes(after)} of {megabytes(size)} MB ({reason})")
        progress.note(f"The download broke off after {megabytes(after)} MB ({reason}); trying again")
        time.sleep(wait * 2 ** max(0, failures - 1))
    progress.note(f"Fetched {megabytes(size)} MB")


def receive(opener, url: str, part: pathlib.Path, begin: int, size: int, progress: Progress) -> None:
    """Writes what one answer brings to `part`. A server without support of ranges sends the file from its beginning."""
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={begin}-"} if begin else {})}
    with opener.open(request(url, headers), timeout=TIMEOUT_SECONDS) as answer:
        if begin and (answer.status != 206 or not starts_at(answer.headers.get("Content-Range", ""), begin)):
            if answer.status != 200:
                raise OSError(f"the server answered bytes from {begin} with status {answer.status}, "
                              f"{answer.headers.get('Content-Range')!r}")
            begin = 0
        with open(part, "ab" if begin else "wb") as file:
            while begin < size:
                piece = answer.read1(min(PIECE, size - begin))
                if not piece:
                    return
                file.write(piece)
                begin += len(piece)
                progress.show(begin / size, f"{megabytes(begin)} of {megabytes(size)} MB", {})
            if answer.read1(1):
                raise BadDownload(f"{url.rpartition('/')[2]} is longer than {size} bytes: it is not the file that was asked for")


def starts_at(content_range: str, begin: int) -> bool:
    found = re.match(r"bytes (\d+)-", content_range)
    return bool(found) and int(found[1]) == begin


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"
