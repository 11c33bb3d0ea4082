"""History of one object: each request with its user, the decisions of admission, and the changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import Any

from msgspec import Struct

from replay.report.render.document import (
    MICROSECONDS,
    Document,
    Fact,
    Listing,
    Section,
    Tone,
    inert,
    log_name,
    moment,
    number,
    plural,
    span,
)

MOST_CHANGES = 12
"""Maximum number of differences of one request that are shown. `--json` has all."""
_LONGEST = 100


class Change(Struct, frozen=True):
    """A field that a request changed. `is_added` and `is_removed` distinguish null from absence."""

    path: str
    old: Any
    new: Any
    is_added: bool = False
    is_removed: bool = False


class TimelineEvent(Struct, frozen=True):
    """One request. `changes` are relative to the last known object, or None if no body shows them.

    A dry run was not stored.
    """

    at: int
    audit_id: str
    verb: str
    subresource: str
    username: str
    user_agent: str
    code: int
    reason: str
    message: str
    decisions: tuple[str, ...] = ()
    changes: tuple[Change, ...] | None = None
    note: str = ""
    dry_run: bool = False


class Timeline(Struct, frozen=True):
    """Requested events of one object. `reads` counts the requests that only read it."""

    log: str
    kind: str
    object: str
    events: tuple[TimelineEvent, ...]
    reads: int = 0
    focus: str = ""


def timeline_document(timeline: Timeline, zone: tzinfo = UTC) -> Document:
    """Return the document, with the oldest event first."""
    events = timeline.events
    users = sorted({event.username for event in events})
    refused = [event for event in events if event.code >= 400]
    text = "\n".join(inert(line) for event in events for line in _lines(event, zone))
    shown = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
    facts = (
        Fact("Requests", number(len(events)), f"{number(len(refused))} failed", Tone.BAD if refused else Tone.PLAIN),
        Fact("Reads", number(timeline.reads), "not listed"),
        Fact("Users", number(len(users)), inert(shown)),
    )
    period = f"{moment(events[0].at, zone)}, {span(events[-1].at - events[0].at)}" if events else "no event"
    section = Section("events", "Events", "", (Listing("", text),) if text else ())
    verdict = f"{plural(len(events), 'request')} by {plural(len(users), 'user')}."
    title = f"What happened to {inert(timeline.kind)} {inert(timeline.object)}?"
    subtitle = " · ".join(filter(None, (log_name(timeline.log), period, inert(timeline.focus))))
    return Document(title, subtitle, verdict, Tone.PLAIN, facts, (section,))


def _lines(event: TimelineEvent, zone: tzinfo) -> Iterator[str]:
    what = f"{event.verb} {event.subresource}".strip() + (" (dry run)" if event.dry_run else "")
    answer = f"{event.code} {event.reason}".strip() if event.code else "answer not recorded"
    yield f"{moment(event.at, zone)}  {what}  {answer}  {event.username}  {event.audit_id}"
    if event.code >= 400 and event.message:
        yield f"    {event.message}"
    yield from (f"    {decision}" for decision in event.decisions)
    if event.note:
        yield f"    {event.note}"
    changes = event.changes or ()
    yield from (f"    {_change(change)}" for change in changes[:MOST_CHANGES])
    if len(changes) > MOST_CHANGES:
        yield f"    … {plural(len(changes) - MOST_CHANGES, 'more change')}"
    if event.changes == () and not event.note and event.code < 400:
        yield "    no change"


def _change(change: Change) -> str:
    if change.is_added:
        return f"+ {change.path}: {_short(change.new)}"
    if change.is_removed:
        return f"- {change.path}: {_short(change.old)}"
    return f"~ {change.path}: {_short(change.old)} → {_short(change.new)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def timeline_json(timeline: Timeline, zone: tzinfo = UTC) -> dict[str, Any]:
    """Return the history as plain values."""
    return {
        "log": timeline.log,
        "kind": timeline.kind,
        "object": timeline.object,
        "reads": timeline.reads,
        "asked": timeline.focus,
        "events": [
            {
                "time": datetime.fromtimestamp(event.at // MICROSECONDS, tz=zone)
                .replace(microsecond=event.at % MICROSECONDS)
                .isoformat(),
                "auditID": event.audit_id,
                "verb": event.verb,
                "subresource": event.subresource,
                "dryRun": event.dry_run,
                "user": event.username,
                "userAgent": event.user_agent,
                "code": event.code,
                "reason": event.reason,
                "message": event.message,
                "decisions": list(event.decisions),
                "changes": None if event.changes is None else [_change_json(change) for change in event.changes],
                "note": event.note,
            }
            for event in timeline.events
        ],
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "path": change.path,
        **({} if change.is_added else {"before": change.old}),
        **({} if change.is_removed else {"after": change.new}),
    }
