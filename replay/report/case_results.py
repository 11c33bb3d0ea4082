"""Output of `replay test`: short text, JUnit XML, TAP, GitHub workflow commands, JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from xml.etree import ElementTree as ET

from replay.case.result import CaseCoverageResult, CaseReport, CaseResult, Status, not_run_text
from replay.report.annotate import clean, github_data, github_property

_MARKS = {Status.PASSED: ".", Status.FAILED: "F", Status.ERROR: "E", Status.SKIPPED: "s"}
_WIDTH = 80
_MOST_MARKS = 60


def text_lines(report: CaseReport) -> Iterator[str]:
    """Yield a mark for each case, then the differences, then a summary."""
    for suite, results in groupby(report.results, key=lambda result: result.suite):
        marks = "".join(_MARKS[result.status] for result in results)
        for start in range(0, len(marks), _MOST_MARKS):
            yield f"{suite if start == 0 else ' ' * len(suite)} {marks[start : start + _MOST_MARKS]}"
    failed = [result for result in report.results if result.status in (Status.FAILED, Status.ERROR)]
    for result in failed:
        title = "error" if result.status is Status.ERROR else "difference"
        yield ""
        yield f"{'_' * 3} {title}: {result.place} {result.name} {'_' * 3}"
        yield from (f"  {line}" for each in result.lines for line in each.splitlines())
    if report.coverage is not None:
        yield from coverage_lines(report.coverage)
    yield from _reason_lines(report)
    if failed:
        yield _ruled("short summary")
        for result in failed:
            first = result.lines[0].partition("\n")[0] if result.lines else ""
            yield f"{result.status.value.upper()} {result.place} {result.name} - {first}"
    yield _ruled(_tally(report))


def _reason_lines(report: CaseReport) -> Iterator[str]:
    """Yield the reasons for skipped cases, with the number of cases for each."""
    reasons = Counter(result.lines[0] for result in report.results if result.status is Status.SKIPPED)
    if reasons:
        yield _ruled("skipped")
        yield from (f"{count} {reason}" for reason, count in reasons.most_common())
    if report.not_run:
        yield _ruled("found and not run")
        yield not_run_text(report.not_run)


def coverage_lines(coverage: CaseCoverageResult) -> Iterator[str]:
    """Yield the parts that no case reaches."""
    share = 100 * coverage.reached // coverage.total if coverage.total else 100
    yield _ruled(f"coverage: {coverage.reached} of {coverage.total} reached ({share} %)")
    for item in coverage.unreached:
        where = f"{item.policy}: {item.label}" if item.label else f"{item.policy}: the policy"
        yield (
            f"{where} is never {item.what}" if not item.what.startswith("`") else f"{where}: never reached: {item.what}"
        )


def _ruled(text: str) -> str:
    return f" {text} ".center(_WIDTH, "=")


def _tally(report: CaseReport) -> str:
    counts = [
        (report.count(status), status.value) for status in (Status.FAILED, Status.ERROR, Status.PASSED, Status.SKIPPED)
    ]
    counts_in_words = [
        f"{count} {f'{word}s' if word == 'error' and count != 1 else word}" for count, word in counts if count
    ]
    return ", ".join(counts_in_words)


def junit_lines(report: CaseReport) -> Iterator[str]:
    """Yield the `testsuites` element that CI servers read."""
    root = ET.Element("testsuites", _counts(report.results))
    for suite, suite_results in groupby(report.results, key=lambda result: result.suite):
        results = tuple(suite_results)
        element = ET.SubElement(root, "testsuite", {"name": clean(suite), **_counts(results)})
        for result in results:
            names = {"classname": clean(suite), "name": clean(result.name), "file": clean(result.path)}
            case = ET.SubElement(element, "testcase", {**names, "line": str(result.line)})
            if result.status is Status.SKIPPED:
                ET.SubElement(case, "skipped", {"message": clean(result.lines[0])})
            elif result.status is not Status.PASSED:
                kind = "failure" if result.status is Status.FAILED else "error"
                message = clean(result.lines[0] if result.lines else "")
                ET.SubElement(case, kind, {"message": message}).text = clean("\n".join(result.lines))
    ET.indent(root)
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield ET.tostring(root, encoding="unicode")


def _counts(results: tuple[CaseResult, ...]) -> dict[str, str]:
    failures = sum(result.status is Status.FAILED for result in results)
    errors = sum(result.status is Status.ERROR for result in results)
    counts = {"tests": str(len(results)), "failures": str(failures), "errors": str(errors)}
    skipped = sum(result.status is Status.SKIPPED for result in results)
    return {**counts, "skipped": str(skipped)} if skipped else counts


def tap_lines(report: CaseReport) -> Iterator[str]:
    """Yield the Test Anything Protocol, version 14."""
    yield "TAP version 14"
    yield f"1..{len(report.results)}"
    for number, result in enumerate(report.results, 1):
        name = f"{result.place} {result.name}".replace("\\", "\\\\").replace("#", "\\#").replace("\n", " ")
        is_skipped = result.status is Status.SKIPPED
        mark = "ok" if is_skipped or result.status is Status.PASSED else "not ok"
        yield f"{mark} {number} - {name}" + (f" # SKIP {result.lines[0]}" if is_skipped else "")
        if result.lines and not is_skipped:
            yield "  ---"
            yield f"  status: {result.status.value}"
            yield "  differences:"
            yield from (f"    - {json.dumps(line, ensure_ascii=False)}" for line in result.lines)
            yield "  ..."


def github_lines(report: CaseReport) -> Iterator[str]:
    """Yield an annotation for each case that did not end as expected."""
    for result in report.results:
        if result.status in (Status.FAILED, Status.ERROR):
            where = f"file={github_property(result.path)}" + (f",line={result.line}" if result.line else "")
            title = github_property(f"replay test: {result.name}")
            yield f"::error {where},title={title}::{github_data(chr(10).join(result.lines))}"
    yield _tally(report)


def json_lines(report: CaseReport) -> Iterator[str]:
    """Yield all results as one document."""
    coverage = report.coverage
    document = {
        "counts": {
            status.value: report.count(status)
            for status in Status
            if status is not Status.SKIPPED or report.count(status)
        },
        "forms": report.forms,
        **({"notRun": report.not_run} if report.not_run else {}),
        "cases": [
            {
                "suite": result.suite,
                "name": result.name,
                "path": result.path,
                "line": result.line,
                "status": result.status.value,
                "differences": list(result.lines),
            }
            for result in report.results
        ],
    }
    if coverage is not None:
        unreached = [item._asdict() for item in coverage.unreached]
        document["coverage"] = {"reached": coverage.reached, "total": coverage.total, "unreached": unreached}
    yield json.dumps(document, indent=1, ensure_ascii=False)


FORMATS: dict[str, Callable[[CaseReport], Iterator[str]]] = {
    "terminal": text_lines,
    "junit": junit_lines,
    "tap": tap_lines,
    "github": github_lines,
    "json": json_lines,
}
