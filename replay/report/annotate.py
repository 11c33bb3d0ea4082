"""Findings at a file and line, in the formats of code hosts and CI servers: GitHub, GitLab, JUnit and SARIF.

Those of a run stand at the lines of the policies that cause them, for pull requests.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

from msgspec import Struct, field

from replay.compare.outcome import MUTATIONS, WORDS, OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import Cell, CellKey
from replay.distribution import VERSION
from replay.json import JSON
from replay.report.render.document import inert, number, plural
from replay.report.run.views import by_policy, cells_with, direct, grouped, lockout


class FindingLevel(StrEnum):
    """Severity of a finding, in the words of SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingRule(Struct, frozen=True):
    """A class of findings, with a description and advice."""

    id: str
    summary: str
    help: str = ""


class Annotation(Struct, frozen=True):
    """Finding. `subject` is a policy or object. `path` is empty if no file holds it.

    Rule, file, `subject` and `detail` form the fingerprint, because counts in `message` and lines change.
    """

    rule: str
    level: FindingLevel
    message: str
    subject: str = ""
    path: str = ""
    line: int = 0
    column: int = 0
    detail: str = ""

    @property
    def text(self) -> str:
        """Return the subject with its detail. Bytes that are not UTF-8 are spelled out."""
        text = f"{self.subject}: {self.message}" if self.subject else self.message
        return text.encode("utf-8", "backslashreplace").decode()

    @property
    def uri(self) -> str:
        """The file relative to the working directory, as a URI. A file elsewhere has an absolute `file:` URI."""
        path = _relative(self.path)
        return Path(path).as_uri() if Path(path).is_absolute() else quote(path)

    @property
    def fingerprint(self) -> str:
        """Hash of 32 hexadecimal digits that stays the same from run to run."""
        parts = (self.rule, _relative(self.path), self.subject, self.detail)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Annotations(Struct, frozen=True):
    """All findings of a command, their rules, and subjects without findings."""

    title: str
    findings: Sequence[Annotation]
    rules: Mapping[str, FindingRule] = field(default_factory=dict)
    clean: Sequence[tuple[str, str]] = ()


def _relative(path: str) -> str:
    """Return a path relative to the working directory, with `/`. A path elsewhere stays as it is."""
    if not path:
        return ""
    path_from_here = os.path.relpath(path)
    return Path(path).as_posix() if path_from_here.startswith("..") else Path(path_from_here).as_posix()


_COMMANDS = {FindingLevel.ERROR: "error", FindingLevel.WARNING: "warning", FindingLevel.NOTE: "notice"}


def _github_lines(annotations: Annotations) -> Iterator[str]:
    """Yield one command per finding, the most severe first, because GitHub shows ten per severity and step."""
    for each in annotations.findings:
        place = f"file={github_property(_relative(each.path))}," if each.path else ""
        place += f"line={each.line}," if each.line else ""
        place += f"col={each.column}," if each.column else ""
        title = github_property(f"{annotations.title}: {each.rule}")
        yield f"::{_COMMANDS[each.level]} {place}title={title}::{github_data(each.text)}"


def github_data(text: str) -> str:
    """Return the message of a workflow command, escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def github_property(text: str) -> str:
    """Return a property of a workflow command, escaped."""
    return github_data(text).replace(":", "%3A").replace(",", "%2C")


_SEVERITIES = {FindingLevel.ERROR: "major", FindingLevel.WARNING: "minor", FindingLevel.NOTE: "info"}


def _gitlab(annotations: Annotations) -> str:
    """Return a list of issues. A finding without a file is shown at the file `cluster`."""
    issues = [
        {
            "description": each.text,
            "check_name": each.rule,
            "fingerprint": each.fingerprint,
            "severity": _SEVERITIES[each.level],
            "location": {"path": _relative(each.path) or "cluster", "lines": {"begin": max(each.line, 1)}},
        }
        for each in annotations.findings
    ]
    return json.dumps(issues, indent=1, ensure_ascii=False) + "\n"


def _junit(annotations: Annotations) -> str:
    """Return one suite with a case per subject, failed by its errors. Subjects without findings pass."""
    by_place = sorted(annotations.findings, key=lambda each: (each.path, each.subject))
    groups = [(subject, list(each)) for subject, each in groupby(by_place, key=lambda each: (each.path, each.subject))]
    failures = sum(any(each.level is FindingLevel.ERROR for each in group) for _, group in groups)
    tests = len(groups) + len(annotations.clean)
    counts = {"tests": str(tests), "failures": str(failures), "errors": "0"}
    root = ET.Element("testsuites", {"name": annotations.title, **counts})
    suite = ET.SubElement(root, "testsuite", {"name": annotations.title, **counts})
    for (path, subject), group in groups:
        _case(suite, path, subject or path, group)
    for path, subject in annotations.clean:
        _case(suite, path, subject, ())
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, path: str, name: str, group: Iterable[Annotation]) -> None:
    case = ET.SubElement(suite, "testcase", {"classname": clean(path or "cluster"), "name": clean(name)})
    annotations = list(group)
    errors = [each for each in annotations if each.level is FindingLevel.ERROR]
    if errors:
        failure = ET.SubElement(case, "failure", {"message": clean(errors[0].message), "type": errors[0].rule})
        failure.text = clean("\n".join(f"{each.rule}: {each.message}" for each in errors))
    others = [each for each in annotations if each.level is not FindingLevel.ERROR]
    if others:
        ET.SubElement(case, "system-out").text = clean("\n".join(f"{each.rule}: {each.message}" for each in others))


def clean(text: str) -> str:
    """Return text with U+FFFD for the characters that XML 1.0 does not allow."""
    return "".join(
        each
        if each in "\t\n" or (each >= " " and each not in "\ufffe\uffff" and not "\ud800" <= each <= "\udfff")
        else "\ufffd"
        for each in text
    )


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/"


def _sarif(annotations: Annotations) -> str:
    """Return a log of one run: rules with their help, and results with relative URIs and stable fingerprints."""
    names = sorted({each.rule for each in annotations.findings})
    driver = {
        "name": "replay",
        "version": VERSION,
        "informationUri": _HOME,
        "rules": [_rule(annotations.rules.get(name, FindingRule(name, name))) for name in names],
    }
    results = [_result(each, names.index(each.rule)) for each in annotations.findings]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"{annotations.title.replace(' ', '-')}/"},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: FindingRule) -> dict[str, JSON]:
    help_text = rule.help or rule.summary
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": help_text},
        "help": {"text": help_text, "markdown": help_text},
        "helpUri": _HOME,
    }


def _result(each: Annotation, index: int) -> dict[str, JSON]:
    return {
        "ruleId": each.rule,
        "ruleIndex": index,
        "level": each.level.value,
        "message": {"text": each.text},
        "locations": [dict(_location(each))],
        "partialFingerprints": {"replay/v1": each.fingerprint},
    }


def _location(each: Annotation) -> Iterator[tuple[str, JSON]]:
    """Yield the location: a place in a file, and the subject."""
    if each.path:
        place: dict[str, JSON] = {"artifactLocation": {"uri": each.uri}}
        if each.line:
            place["region"] = {"startLine": each.line, **({"startColumn": each.column} if each.column else {})}
        yield "physicalLocation", place
    if each.subject:
        yield (
            "logicalLocations",
            [{"name": each.subject.encode("utf-8", "backslashreplace").decode(), "kind": "resource"}],
        )


def _github(annotations: Annotations) -> str:
    return "".join(f"{line}\n" for line in _github_lines(annotations))


ANNOTATED: Mapping[str, Callable[[Annotations], str]] = {
    "github": _github,
    "sarif": _sarif,
    "junit": _junit,
    "gitlab": _gitlab,
}


MOST_WORKLOADS = 5
_EXPLAIN = "`replay run` with the same arguments lists the affected workloads. `replay explain AUDIT-ID` shows why."
_RULES = (
    FindingRule(
        "lockout",
        "The cluster's own components would be denied",
        "This policy would deny real requests of the control plane, a node or a controller. The cluster may be unable to undo"
        f" the change. Exclude these users or namespaces with a match condition before the rollout. {_EXPLAIN}",
    ),
    FindingRule(
        "newly-denied",
        "Real requests would newly be denied",
        "This policy would deny requests that the baseline admits. Talk to the owners of these workloads, narrow the policy, or"
        f" record intended denials with `replay accept`. {_EXPLAIN}",
    ),
    *(
        FindingRule(
            kind.value.replace("_", "-"),
            f"Real requests would be {WORDS[kind]}",
            f"This policy mutates requests differently from the baseline. {_EXPLAIN}",
        )
        for kind in MUTATIONS
    ),
    FindingRule(
        "undecided",
        "Requests are undetermined",
        "The audit log does not hold what this policy reads. `replay coverage` lists what to record.",
    ),
)
RULES = {rule.id: rule for rule in _RULES}
_LEVELS = {"lockout": FindingLevel.ERROR, "newly-denied": FindingLevel.ERROR, "undecided": FindingLevel.NOTE}
_ENDS = {
    "lockout": "of the cluster's own components would be denied",
    "newly-denied": "would newly be denied",
    **{kind.value.replace("_", "-"): f"would be {WORDS[kind]}" for kind in MUTATIONS},
    "undecided": "are undetermined",
}
_CellItems = list[tuple[CellKey, Cell]]


def run_annotations(result: RunResult) -> Annotations:
    """Return one finding per rule and policy, the most severe first. Other policies of the candidate are clean."""
    annotations = list(_annotations(result))
    hit = {each.subject for each in annotations}
    clean = [(origin.file, policy) for policy, origin in sorted(result.candidate.origins.items()) if policy not in hit]
    return Annotations("replay run", annotations, RULES, clean)


def _annotations(result: RunResult) -> Iterator[Annotation]:
    denied = cells_with(result.summary, OutcomeKind.NEWLY_DENIED)
    locked = [item for item in denied if lockout(item[0])]
    yield from _rule_annotations(result, "lockout", locked, locked)
    yield from _rule_annotations(result, "newly-denied", [item for item in denied if item not in locked], denied)
    for kind in MUTATIONS:
        cells = cells_with(result.summary, kind)
        yield from _rule_annotations(result, kind.value.replace("_", "-"), cells, cells)
    cells = cells_with(result.summary, OutcomeKind.UNDETERMINED)
    yield from _rule_annotations(result, "undecided", cells, cells)


def _rule_annotations(result: RunResult, rule: str, cells: _CellItems, among: _CellItems) -> Iterator[Annotation]:
    """Yield a finding for each policy of some cells. Consequences are counted apart."""
    consequences = {each.label: each.consequences for each in grouped(among, by_policy) if each.consequences}
    for group in grouped(direct(cells), by_policy):
        workloads = sorted(map(inert, group.workloads))
        listed = ", ".join(workloads[:MOST_WORKLOADS])
        more = f" and {number(len(workloads) - MOST_WORKLOADS)} more" if len(workloads) > MOST_WORKLOADS else ""
        then = (
            f"; {number(consequences[group.label])} more fail as a consequence" if group.label in consequences else ""
        )
        yield Annotation(
            rule,
            _LEVELS.get(rule, FindingLevel.WARNING),
            f"{plural(group.requests, 'request')} {_ENDS[rule]}: {listed}{more}{then}",
            inert(group.label),
            *_place(result, group.label),
        )


def _place(result: RunResult, policy: str) -> tuple[str, int]:
    """Return the file and line of a policy: in the candidate, else in the baseline. It is empty for a policy of the cluster."""
    origin = result.origin(policy)
    return (origin.file, origin.line) if origin is not None else ("", 0)
