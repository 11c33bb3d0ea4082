"""The HTTP server of the listener, over an application that throws away what it gets."""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def discard(_scope: Any, receive: Receive, send: Send) -> None:
    """Read a body, and say that all is well."""
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def main() -> None:
    """Serve until the end, at a free port."""
    bound = socket.create_server(("127.0.0.1", 0))
    sys.stderr.write(f"listening at http://127.0.0.1:{bound.getsockname()[1]}/audit\n")
    sys.stderr.flush()
    config = uvicorn.Config(discard, http="h11", ws="none", lifespan="off", log_config=None, access_log=False)
    uvicorn.Server(config).run([bound])


if __name__ == "__main__":
    main()
