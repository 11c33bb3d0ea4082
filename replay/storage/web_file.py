"""Answer of a web server to one URL. Redirects are not followed, so only the named place is contacted."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from typing import IO
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from replay.errors import AuditLogError
from replay.storage.location import WEB, shown

_SECONDS = 60
_PIECE = 1 << 20
_REDIRECTIONS = range(300, 400)


class _NotRedirected(HTTPRedirectHandler):
    """Handler that follows no redirect."""

    def redirect_request(self, *_arguments: object) -> None:
        """See `HTTPRedirectHandler`. Without another request the answer is an error."""


def answer(url: str) -> Iterator[bytes]:
    """Yield the body of an answer in pieces. Raises AuditLogError, also if the body is incomplete."""
    if not url.startswith(WEB):
        raise AuditLogError("no web address: name one with https://", path=shown(url))
    request = Request(url, headers={"User-Agent": "replay", "Accept-Encoding": "identity"})  # noqa: S310 - see above
    try:
        with build_opener(_NotRedirected).open(request, timeout=_SECONDS) as response:
            yield from _pieces(response, url)
    except HTTPError as error:
        error.close()
        hint = ": name the URL that it leads to" if error.code in _REDIRECTIONS else ""
        raise AuditLogError(f"the server answers {error.code} {error.reason}{hint}", path=shown(url)) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise AuditLogError(f"cannot be fetched: {' '.join(str(reason).split())}", path=shown(url)) from error


def _pieces(response: HTTPResponse | IO[bytes], url: str) -> Iterator[bytes]:
    """Yield the body, and compare its length with the stated length."""
    content_length = response.headers.get("Content-Length") if isinstance(response, HTTPResponse) else None
    fetched = 0
    while piece := response.read(_PIECE):
        fetched += len(piece)
        yield piece
    if content_length is not None and fetched != int(content_length):
        raise AuditLogError(f"the answer ended after {fetched} of {content_length} bytes: run again", path=shown(url))
