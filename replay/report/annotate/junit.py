"""JUnit XML, as CI servers read it: a test case for each thing that was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from xml.etree import ElementTree as ET

from replay.report.annotate.annotation import Annotation, Annotations, FindingLevel


def junit(annotations: Annotations) -> str:
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
    """Text without the characters that XML 1.0 has no place for."""
    return "".join(
        each
        if each in "\t\n" or (each >= " " and each not in "\ufffe\uffff" and not "\ud800" <= each <= "\udfff")
        else "\ufffd"
        for each in text
    )
