"""The `audit.k8s.io/v1` EventList that an audit webhook backend sends, as lines of a log.

`k8s.io/apiserver/plugin/pkg/audit/webhook` posts the list that `k8s.io/apiserver/plugin/pkg/audit/buffered` makes of a
batch. Its items omit kind and apiVersion, which the list states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

API_VERSION = "audit.k8s.io/v1"
_EXPECTED = f"an {API_VERSION} EventList is expected"
_KIND = b'"kind":"Event"'
_VERSION = b'"apiVersion":"audit.k8s.io/v1"'
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


class EventListError(ValueError):
    """A body that is not a list of events. `str()` is the reason."""


class _EventList(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - the API's name
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    kind: str | None = None
    apiVersion: str | None = None  # noqa: N815 - the API's name


_LIST = msgspec.json.Decoder(_EventList)
_ITEM = msgspec.json.Decoder(_Event)


def lines_of(body: bytes) -> bytes:
    """Return the events of a list, one per line with kind and apiVersion; raises `EventListError`.

    The ingest judges and counts unusable events. A list that nests deeper than this decoder also goes to the ingest, so
    that one such object cannot keep out the other events of a batch.
    """
    try:
        event_list = _LIST.decode(body)
        if (event_list.kind, event_list.apiVersion) != ("EventList", API_VERSION):
            raise EventListError(f"{_EXPECTED}, this is `{event_list.apiVersion}` `{event_list.kind}`")
        if b"\n" in body or b"\r" in body:  # between tokens, as the body is JSON
            event_list = _LIST.decode(_on_one_line(body))
        return b"".join(_lines(event_list.items or ()))
    except RecursionError:
        return _on_one_line(body) + b"\n"
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EventListError(f"{_EXPECTED}: {error}") from error


def _on_one_line(body: bytes) -> bytes:
    return body.translate(_LINE_ENDS)


def _lines(items: Iterable[msgspec.Raw]) -> Iterator[bytes | memoryview]:
    """Yield the pieces of the lines: the fields that the list states for all, then the event without its first brace."""
    for item in items:
        said = _ITEM.decode(item)
        rest = memoryview(item)[1:]
        stated = [text for text, is_said in ((_KIND, said.kind), (_VERSION, said.apiVersion)) if not is_said]
        yield b"{" + b",".join(stated)
        yield b"," if stated and rest[0] != ord("}") else b""
        yield rest
        yield b"\n"
