"""A real server on this machine; the certificate beside this file is made for it and for nothing else."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson

DATA = Path(__file__).with_name("data")
Reviews = list[dict[str, Any]]


@contextmanager
def serving(
    answer: Callable[[dict[str, Any]], tuple[int, bytes]], *, scheme: str = "https", content_type: str = ""
) -> Iterator[tuple[str, Reviews]]:
    """A server that answers with `answer(review)`; its URL, and the reviews that it got."""
    got: Reviews = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.append({**review, "path": self.path})
            code, body = answer(review)
            self.send_response(code)
            if content_type:
                self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that goes away is part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(DATA / "server.crt", DATA / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}/check", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
