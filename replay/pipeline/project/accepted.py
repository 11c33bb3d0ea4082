"""The file of accepted findings: read with the position of every error, and written entry by entry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from replay.case.document import CaseDocument, Fields, documents_of, read_documents
from replay.compare.accepted import Acceptance
from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.errors import ReplayError
from replay.json import JSON
from replay.pipeline.options import length
from replay.pipeline.whole_file import whole_file

API_VERSION, KIND = "replay/v1", "AcceptedFindings"
_HEAD = f"apiVersion: {API_VERSION}\nkind: {KIND}\naccepted:\n"
_FIELDS = ("policy", "namespace", "workload", "reason", "expires")


def read_accepted(path: Path) -> tuple[Acceptance, ...]:
    """Return a file's entries. Raise ReplayError with the place of an error."""
    return _entries(read_documents(path))


def _entries(documents: Iterable[CaseDocument]) -> tuple[Acceptance, ...]:
    acceptances_: list[Acceptance] = []
    for document in documents:
        fields = Fields.at(document, "", document.value, ("apiVersion", "kind", "accepted"))
        if (fields.text("apiVersion"), fields.text("kind")) != (API_VERSION, KIND):
            raise fields.error("kind", f"is to be {KIND} of {API_VERSION}")
        acceptances_ += [_entry(document, number, each) for number, each in enumerate(fields.items("accepted"))]
    return tuple(acceptances_)


def _entry(document: CaseDocument, number: int, value: JSON) -> Acceptance:
    fields = Fields.at(document, f"accepted[{number}]", value, _FIELDS)
    if not fields.text("policy"):
        raise document.error(f"accepted[{number}]", "`policy` is missing: which policy is meant to deny")
    if not fields.text("reason"):
        raise document.error(f"accepted[{number}]", "`reason` is missing: why it is meant to be denied")
    expires = fields.optional_text("expires")
    try:
        day = date.fromisoformat(expires) if expires is not None else None
    except ValueError as error:
        raise fields.error("expires", f"is not a day such as 2026-12-31: `{expires}`") from error
    line = document.position(f"accepted[{number}]").line
    namespace, workload = fields.optional_text("namespace"), fields.optional_text("workload")
    return Acceptance(
        policy=fields.text("policy"),
        namespace="*" if namespace is None else namespace,
        workload="*" if workload is None else workload,
        reason=fields.text("reason"),
        expires=day,
        line=line,
    )


def expiry(text: str, today: date) -> date | None:
    """Return the day of `--expires`: a day, a duration from today such as `90d`, or `never` (None).

    Raise ReplayError.
    """
    if text == "never":
        return None
    try:
        span = length(text)
        return date.fromisoformat(text) if span is None else today + span
    except (ValueError, OverflowError) as error:
        raise ReplayError(f"no day `{text}`: write 2026-12-31, 90d or never", path="--expires") from error


def acceptances(result: RunResult, by: str, reason: str, expires: date | None) -> list[Acceptance]:
    """Return the entries under which a run would deny nothing new: by `policy`, `namespace` or `workload`."""
    entries = {
        (policy, key.namespace if by != "policy" else "*", key.workload if by == "workload" else "*")
        for key in result.summary.cells
        if key.outcome is OutcomeKind.NEWLY_DENIED
        for policy in key.policies
    }
    return [Acceptance(*each, reason, expires) for each in sorted(entries)]


def add_accepted(path: Path, entries: Sequence[Acceptance]) -> None:
    """Append entries to a file, which is created if needed.

    Raise ReplayError for a file that cannot take them.
    """
    earlier = read_accepted(path) if path.exists() else ()
    text = path.read_text("utf-8") if earlier else _HEAD
    text += ("" if text.endswith("\n") else "\n") + "".join(_lines(entries))
    try:
        entries_of_file = _entries(documents_of(path, text.encode()))
    except ReplayError:
        entries_of_file = ()
    if len(entries_of_file) != len(earlier) + len(entries):
        raise ReplayError(
            "no entry can be added: `accepted` is to be the last of the file, indented by two", path=str(path)
        )
    with whole_file(path, "the accepted findings") as file:
        file.write(text.encode())


def accepted_text(entries: Sequence[Acceptance]) -> str:
    """Return the text of a file with some entries."""
    return _HEAD + "".join(_lines(entries))


def _lines(entries: Iterable[Acceptance]) -> Iterable[str]:
    """Yield entries as YAML. Texts are quoted as JSON."""
    for each in entries:
        said = {"policy": each.policy, "namespace": each.namespace, "workload": each.workload, "reason": each.reason}
        if each.expires is not None:
            said["expires"] = each.expires.isoformat()
        fields = [f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in said.items() if value != "*"]
        yield "  - " + "    ".join(fields)
