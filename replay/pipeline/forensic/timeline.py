"""`replay timeline` as a function: all requests to one object, with the changes of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from replay.audit.ingest import Progress
from replay.audit.store import Store
from replay.errors import ReplayError
from replay.kube.discovery import builtin_discovery
from replay.kube.redact import Redactor, decoded
from replay.pipeline.log import opened, require_known, set_variables
from replay.pipeline.options import Focus
from replay.pipeline.project.focus import chosen
from replay.pipeline.scenario import Scenario
from replay.reconstruct.record.body import Body
from replay.reconstruct.record.exchange import is_dry_run
from replay.report.timeline_report import Change, Timeline, TimelineEvent

_BODIES = ("request_object", "response_object")
_READS = frozenset({"get", "list", "watch"})
_OWN_KIND = frozenset({"scale", "eviction", "binding", "token", "log", "exec", "attach", "portforward", "proxy"})
_ALWAYS_CHANGED = frozenset({"metadata.managedFields", "metadata.resourceVersion"})
"""Fields that change with every write."""


class TimelineResource(NamedTuple):
    """Group, resource and kind of an object. The log may not tell the kind."""

    group: str
    resource: str
    kind: str


def object_timeline(  # noqa: PLR0913 - an object, and how much is told of it
    scenario: Scenario,
    kind: str,
    name: str,
    progress: Progress,
    focus: Focus = Focus(),  # noqa: B008 - a value
    *,
    redact: bool = True,
) -> Timeline:
    """Return the timeline of `namespace/name` (or `name`). Raise ReplayError with near matches for unknown names.

    Changes are relative to all earlier requests, also those outside the focus.
    """
    namespace, _, own = name.rpartition("/")
    with opened(scenario, progress) as store:
        target = _target(store, kind)
        parameters = {"resource": target.resource, "group": target.group, "namespace": namespace, "object": own}
        set_variables(store, parameters.items())
        rows = list(store.query("object_timeline").iter_rows(named=True))
        rows += [row for row in _collections(store, target, namespace, own) if row not in rows]
        if not rows:
            require_known(store, "object", own)
            raise ReplayError(
                f"the log has no {target.kind or target.resource} `{name}`, only another object of that name"
            )
        rows.sort(key=lambda row: (row["seq"], row["audit_id"]))
        redactor = Redactor(target.resource, (decoded(row[name]) for row in rows for name in _BODIES), redact=redact)
        shown = _shown(store, focus, [row["seq"] for row in rows])
        decisions = _decisions(store, [row["audit_id"] for row in rows], redactor)
    writes = [row for row in rows if row["verb"] not in _READS]
    writes_with_events = zip(writes, _events(writes, decisions, redactor), strict=True)
    events = tuple(event for row, event in writes_with_events if row["seq"] in shown)
    reads = sum(row["verb"] in _READS for row in rows if row["seq"] in shown)
    return Timeline(scenario.name, target.kind or target.resource, name, events, reads, focus.text)


def _shown(store: Store, focus: Focus, seqs: Sequence[int]) -> frozenset[int]:
    """Return those of some requests that a focus selects."""
    predicate = chosen(store, focus)
    if predicate is None:
        return frozenset(seqs)
    query = f"select seq from request where seq in (select unnest($seqs)) and {predicate.sql}"  # noqa: S608 - made of literals
    rows = store.sql(query, seqs=list(seqs))
    return frozenset(rows["seq"].to_list())


def _target(store: Store, kind: str) -> TimelineResource:
    """Return the resource of a kind or plural, with or without group: `Deployment`, `deployments.apps`."""
    rows = store.sql("select distinct api_group, resource, api_version from request where resource <> ''").rows()
    discovery = builtin_discovery()
    kinds = {(each.resource.group, each.resource.resource): each.kind.kind for each in discovery}
    logged = {(group, resource): kinds.get((group, resource), "") for group, resource, _ in rows}
    noun, _, wanted_group = kind.lower().partition(".")
    resources = [
        TimelineResource(group, resource, named)
        for (group, resource), named in sorted(logged.items())
        if noun in (resource, named.lower(), resource.removesuffix("s")) and wanted_group in ("", group)
    ]
    if not resources:
        names = sorted({name for (_, resource), named in logged.items() for name in (resource, named) if name})
        near = get_close_matches(kind, names, n=3)
        hint = f"; did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
        raise ReplayError(f"the log has no kind `{kind}`{hint}")
    groups = {target.group for target in resources}
    if len(groups) > 1:
        shown = ", ".join(
            f"{resources[0].resource}.{group}" if group else resources[0].resource for group in sorted(groups)
        )
        raise ReplayError(f"`{kind}` is of several groups: name one of {shown}")
    return resources[0]


def _collections(store: Store, target: TimelineResource, namespace: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the `deletecollection` requests whose response lists the object."""
    for record in store.collections():
        if (record.api_group, record.resource) != (target.group, target.resource):
            continue
        body = Body(record.response_object).json
        items = body.get("items") if isinstance(body, dict) else None
        for item in items if isinstance(items, list) else ():
            metadata = item.get("metadata") if isinstance(item, dict) else None
            if not isinstance(metadata, dict):
                continue
            if (metadata.get("namespace") or "", metadata.get("name")) == (namespace, name):
                yield {
                    "seq": record.seq,
                    "at": record.stage_time,
                    "audit_id": record.audit_id,
                    "verb": record.verb,
                    "request_uri": record.request_uri,
                    "subresource": "",
                    "username": record.user.username,
                    "user_agent": record.user_agent,
                    "code": record.code,
                    "status_reason": record.status_reason,
                    "status_message": "",
                    "response_kind": "",
                    "request_object": record.request_object,
                    "response_object": None,
                }


def _decisions(store: Store, audit_ids: Sequence[str], redactor: Redactor) -> dict[str, list[str]]:
    """Return admission's decisions about each request, one line each."""
    rows = store.sql(
        "select audit_id, action, policy, message from decision "
        "where audit_id in (select unnest($ids)) and action <> 'annotate' order by seq, source, expression_index, policy",
        ids=list(audit_ids),
    )
    lines_by_request: dict[str, list[str]] = {}
    words = {"deny": "denied by", "audit": "audited by", "mutate": "changed by", "failed-open": "failed open:"}
    for audit_id, action, policy, message in rows.iter_rows():
        text = redactor.text(message)
        lines_by_request.setdefault(audit_id, []).append(f"{words[action]} {policy}{f': {text}' if text else ''}")
    return lines_by_request


def _events(
    rows: Sequence[dict[str, Any]], decisions: dict[str, list[str]], redactor: Redactor
) -> Iterator[TimelineEvent]:
    """Yield the events, each with its changes against the last state that the log shows."""
    state: Any = None
    for row in rows:
        changes, note = None, ""
        dry_run = is_dry_run(row["request_uri"], row["verb"], Body(row["request_object"]))
        response = Body(row["response_object"])
        body = redactor.object(response.json)
        if 200 <= row["code"] < 300:
            after, changes, note = _after(row, body, state)
            note = response.fault or note
            state = state if dry_run else after
        yield TimelineEvent(
            at=row["at"],
            audit_id=row["audit_id"],
            verb=row["verb"],
            subresource=row["subresource"],
            username=row["username"],
            user_agent=row["user_agent"],
            code=row["code"],
            reason=row["status_reason"],
            message=redactor.text(row["status_message"]),
            decisions=tuple(decisions.get(row["audit_id"], ())),
            changes=changes,
            note=note,
            dry_run=dry_run,
        )


def _after(row: dict[str, Any], body: Any, state: Any) -> tuple[Any, tuple[Change, ...] | None, str]:
    """Return `(state, changes, note)` after a successful request."""
    if row["subresource"] in _OWN_KIND:
        return state, None, ""
    if row["verb"] in ("delete", "deletecollection") and (
        not isinstance(body, dict) or row["response_kind"] == "Status"
    ):
        return None, None, "deleted"
    if not isinstance(body, dict) or row["response_kind"] in ("Status", "Table", "PartialObjectMetadata"):
        return None, None, "the response is not recorded: what changed is not known"
    if row["verb"] == "create" or row["code"] == 201:  # a patch or an update can create too
        return body, None, f"created: {', '.join(sorted(body.keys() - {'kind', 'apiVersion'}))}"
    if state is None:
        return body, None, "what was before is not in the log"
    return body, tuple(_changes(state, body, "")), ""


def _changes(old_value: Any, new_value: Any, path: str) -> Iterator[Change]:
    """Yield the fields that differ, only leaves; lists item by item."""
    if path in _ALWAYS_CHANGED or old_value == new_value:
        return
    if type(old_value) is not type(new_value) or not isinstance(old_value, dict | list):
        yield Change(path, old_value, new_value)
        return
    old, new = _entries(old_value, path), _entries(new_value, path)
    for inner in (*new, *(inner for inner in old if inner not in new)):
        if inner not in new:
            yield Change(inner, old[inner], None, is_removed=True)
        elif inner in old:
            yield from _changes(old[inner], new[inner], inner)
        elif inner not in _ALWAYS_CHANGED:
            yield Change(inner, None, new[inner], is_added=True)


def _entries(value: dict[str, Any] | list[Any], path: str) -> dict[str, Any]:
    """Return the items of a container by path; names sorted, list items in order."""
    if isinstance(value, list):
        return {f"{path}[{index}]": item for index, item in enumerate(value)}
    return {f"{path}.{key}" if path else key: value[key] for key in sorted(value)}
