"""A package index of one file on a free port, which can break connections and lie."""

import http.server
import json
import threading


class Index:
    """`limit`: bytes that an answer of the file brings before its connection ends; None: all."""

    def __init__(self, package: str, name: str, content: bytes):
        self.package, self.name, self.content = package, name, content
        self.limit, self.ranges, self.form, self.credentials = None, True, "json", None
        self.moved = None  # where all lies now, such as http://127.0.0.1:1/new
        self.authorizations = []  # of all requests
        self.asked = []  # the ranges of requests of the file; None: without one
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/simple"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def handler(index: Index):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            index.authorizations.append(self.headers["Authorization"])
            if index.credentials and self.headers["Authorization"] != f"Basic {index.credentials}":
                self.send_error(401)
            elif index.moved and not self.path.startswith("/new/"):
                self.answer(302, b"", {"Location": index.moved + self.path})
            elif self.path.removeprefix("/new") == f"/simple/{index.package}/":
                self.page()
            elif self.path.removeprefix("/new") == f"/files/{index.name}":
                self.file()
            else:
                self.send_error(404)

        def page(self):
            other = "other-1.0-py3-none-any.whl"
            if index.form == "json":
                kind, files = "application/vnd.pypi.simple.v1+json", [other, index.name]
                text = json.dumps({"files": [{"filename": name, "url": f"/files/{name}"} for name in files]})
            else:
                kind = "text/html"
                text = "".join(f'<a href="../../files/{name}#sha256=00">{name}</a><br>' for name in (other, index.name))
            self.answer(200, text.encode(), {"Content-Type": kind})

        def file(self):
            asked = self.headers["Range"]
            index.asked.append(asked)
            if asked and index.ranges:
                begin = int(asked[len("bytes="):-1])
                self.answer(206, index.content[begin:],
                            {"Content-Range": f"bytes {begin}-{len(index.content) - 1}/{len(index.content)}"}, index.limit)
            else:
                self.answer(200, index.content, {}, index.limit)

        def answer(self, status, body, headers, limit=None):
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[:limit])

        def log_message(self, *_):
            pass

    return Handler
