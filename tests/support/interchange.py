"""What code hosts and CI servers demand of the files that they are given, as strict types: unknown members are errors.

SARIF: OASIS, SARIF 2.1.0, sections 3.13 to 3.52, as far as it is written here; GitLab: Code Quality report format; JUnit: the elements and
attributes that Jenkins' schema has.
"""

from __future__ import annotations

from typing import Annotated, Literal
from xml.etree import ElementTree as ET

import msgspec

Text = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Relative = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._~!$&'()*+,;=@%-][A-Za-z0-9._~!$&'()*+,;=@%/-]*$")]
"""A relative reference (RFC 3986) without a scheme, as code scanning needs it to find the line."""


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """An object of which every member is named here."""


class Message(Strict):
    text: Text
    markdown: Text | None = None


class Rule(Strict):
    id: Text
    short_description: Message
    full_description: Message
    help: Message
    help_uri: Text


class Driver(Strict):
    name: Text
    version: Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+\.\d+")]
    information_uri: Text
    rules: list[Rule]


class Tool(Strict):
    driver: Driver


class ArtifactLocation(Strict):
    uri: Relative


class Region(Strict):
    start_line: Positive
    start_column: Positive | None = None


class PhysicalLocation(Strict):
    artifact_location: ArtifactLocation
    region: Region | None = None


class LogicalLocation(Strict):
    name: Text
    kind: Text


class Location(Strict):
    physical_location: PhysicalLocation | None = None
    logical_locations: list[LogicalLocation] | None = None


class Result(Strict):
    rule_id: Text
    rule_index: Annotated[int, msgspec.Meta(ge=0)]
    level: Literal["error", "warning", "note", "none"]
    message: Message
    locations: list[Location]
    partial_fingerprints: dict[str, Text]


class AutomationDetails(Strict):
    id: Text


class Run(Strict):
    tool: Tool
    results: list[Result]
    automation_details: AutomationDetails
    column_kind: Literal["utf16CodeUnits", "unicodeCodePoints"]


class Sarif(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal["2.1.0"]
    runs: list[Run]
    schema: Annotated[str, msgspec.Meta(pattern="sarif-2.1.0.json$")] = msgspec.field(name="$schema")


class Lines(Strict):
    begin: Positive


class Place(Strict):
    path: Relative
    lines: Lines


class Issue(msgspec.Struct, forbid_unknown_fields=True):
    description: Text
    check_name: Text
    fingerprint: Text
    severity: Literal["info", "minor", "major", "critical", "blocker"]
    location: Place


def sarif_results(text: str) -> list[Result]:
    """The results of a log, all of whose rules are told."""
    (run,) = msgspec.json.decode(text.encode(), type=Sarif).runs
    rules = [rule.id for rule in run.tool.driver.rules]
    assert len(set(rules)) == len(rules)
    assert all(rules[result.rule_index] == result.rule_id for result in run.results)
    prints = [result.partial_fingerprints["replay/v1"] for result in run.results]
    assert len(set(prints)) == len(prints)
    return run.results


def gitlab_issues(text: str) -> list[Issue]:
    """The issues of a report."""
    found = msgspec.json.decode(text.encode(), type=list[Issue])
    assert len({issue.fingerprint for issue in found}) == len(found)
    return found


_JUNIT = {
    "testsuites": ({"name", "tests", "failures", "errors", "time", "disabled"}, {"testsuite"}),
    "testsuite": (
        {
            "name",
            "tests",
            "failures",
            "errors",
            "time",
            "disabled",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
        },
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name", "classname", "assertions", "time", "status", "file", "line"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message", "type"}, set()),
    "system-out": (set(), set()),
}


def junit_cases(text: str) -> list[ET.Element]:
    """The cases of a report, of which all counts add up."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, children = _JUNIT[element.tag]
        assert set(element.attrib) <= attributes, element.tag
        assert {child.tag for child in element} <= children, element.tag
        if element.tag in ("testsuite", "testsuites"):
            assert int(element.attrib["tests"]) == len(list(element.iter("testcase")))
            assert int(element.attrib["failures"]) == len(list(element.iter("failure")))
            assert int(element.attrib["errors"]) == len(list(element.iter("error")))
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)
    return list(root.iter("testcase"))
