"""The Static Analysis Results Interchange Format (OASIS, SARIF 2.1.0), as code scanning reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from replay.distribution import VERSION
from replay.json import JSON
from replay.report.annotate.annotation import Annotation, Annotations, FindingRule

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/"


def sarif(annotations: Annotations) -> str:
    """A log of one run: rules with their help, and results with relative URIs and fingerprints that stay the same."""
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
