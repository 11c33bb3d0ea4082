"""Output of `replay check`: text, JSON, GitHub workflow commands and SARIF 2.1.0. With `--authorization`, text and JSON."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from replay.authorization.start import PANIC, Checked, LoadResult
from replay.json import JSON
from replay.manifests.api_object import LoadedApi
from replay.manifests.check import CheckedSet, counts
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.lint.catalogue import REASONS
from replay.manifests.loader import LoadedDirectory
from replay.report.annotate import Annotation, Annotations, FindingLevel, FindingRule

_LEVELS = {
    Severity.ERROR: FindingLevel.ERROR,
    Severity.WARNING: FindingLevel.WARNING,
    Severity.INFO: FindingLevel.NOTE,
}


def findings_text(checked: CheckedSet) -> Iterator[str]:
    """Yield lines for a terminal: each finding with its place, then what the server does with the set."""
    for finding in checked.findings:
        yield _line(finding)
    yield from checked.hints
    errors, warnings = counts(checked.findings)
    for directory in checked.directories:
        if directory.error is None and directory.path:
            kinds = ", ".join(f"{_count(directory, kind)} {kind}" for kind in directory.plugin.kinds)
            digest = directory.hash or ("" if directory.objects else "no data")
            yield f"{directory.path}: {directory.plugin.value} loads {kinds}{f'; {digest}' if digest else ''}"
    if checked.api is not None and checked.api.error is None:
        numbers = Counter(loaded.kind for loaded in checked.api.objects)
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(numbers.items())) or "nothing"
        yield f"{checked.api.path}: the API accepts {listed}"
    tally = f"{_plural(errors, 'error')}, {_plural(warnings, 'warning')}"
    if checked.silenced:
        tally += f", {checked.silenced} silenced"
    if checked.error is None:
        yield f"{checked.path}: accepted, {tally}"
    else:
        yield f"{checked.path}: refused, {tally}; the server prints:"
        yield from (f"    {line}" for line in checked.error.splitlines())


def _line(finding: Finding) -> str:
    mark = " (the server stops here)" if finding.first else ""
    subject = f"{finding.object}: " if finding.object else ""
    first_line, *others = finding.message.split("\n")
    message = "\n    ".join((first_line, *others))
    if finding.severity is Severity.INFO:
        message = f"{first_line} (needs no action)"
    fix = f"\n    fix: {finding.fix}" if finding.fix else ""
    return f"{_place(finding)}: {finding.severity.value}: {subject}{message} [{finding.name}]{mark}{fix}"


def _place(finding: Finding) -> str:
    line, column = finding.position
    return f"{finding.path}:{line}:{column}" if line else finding.path


def _count(directory: LoadedDirectory, kind: str) -> int:
    return sum(loaded.kind == kind for loaded in directory.objects)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def directory_json(directory: LoadedDirectory) -> dict[str, JSON]:
    """Return one directory as one plugin loads it, in the form of the manifests corpus (`DIR` stands for the directory)."""
    error = directory.error
    return {
        "ok": error is None,
        "error": None if error is None else _without_directory(error, directory.path),
        "hash": directory.hash if error is None and directory.path else None,
        "objects": [
            {"kind": loaded.kind, "name": loaded.name, "defaulted": loaded.value} for loaded in directory.objects
        ]
        if error is None
        else [],
    }


def checked_json(checked: CheckedSet) -> dict[str, JSON]:
    """Return a checked set: `directory_json` for a single directory, otherwise the plugins in the order of the chain."""
    findings = [finding_json(finding) for finding in checked.findings]
    if checked.configuration is not None:
        return {**_configuration_json(checked), "findings": findings}
    plugins = [
        {"plugin": directory.plugin.value, "path": directory.path, **directory_json(directory)}
        for directory in checked.directories
    ]
    if len(plugins) == 1 and checked.api is None:
        return {**plugins[0], "findings": findings}
    api = {} if checked.api is None else {"api": _api_json(checked.api)}
    return {"path": checked.path, "ok": checked.is_accepted, "plugins": plugins, **api, "findings": findings}


def _api_json(api: LoadedApi) -> dict[str, JSON]:
    """Return a set's `api/` in the form of a directory, but without a hash."""
    objects = [{"kind": loaded.kind, "name": loaded.name, "defaulted": loaded.value} for loaded in api.objects]
    refused = None if api.error is None else _without_directory(api.error, api.path)
    return {"path": api.path, "ok": refused is None, "error": refused, "objects": [] if refused else objects}


def _configuration_json(checked: CheckedSet) -> dict[str, JSON]:
    configuration = checked.configuration
    assert configuration is not None
    base = os.path.dirname(configuration.path) or "."  # noqa: PTH120 - a text to be replaced in a text
    plugins: list[JSON] = []
    for directory in configuration.directories if checked.is_accepted else ():
        placed = {"staticManifestsDir": _without_directory(directory.path, base)} if directory.path else {}
        shown = {key: value for key, value in directory_json(directory).items() if key != "error"}
        plugins.append({"name": directory.plugin.value, **placed, **shown})
    return {
        "ok": checked.is_accepted,
        "error": None if checked.error is None else _without_directory(checked.error, base),
        "stage": configuration.stage or None,
        "plugin": configuration.plugin or None,
        "plugins": plugins,
    }


def _without_directory(text: str, directory: str) -> str:
    return text.replace(directory, "DIR") if directory not in ("", ".", "/") else text


def finding_json(finding: Finding) -> dict[str, JSON]:
    """Return a finding with its place. `first` marks the server's own refusal."""
    return {
        "severity": finding.severity.value,
        "name": finding.name,
        "message": finding.message,
        "path": finding.path,
        "line": finding.position.line,
        "column": finding.position.column,
        "fieldPath": finding.field_path,
        "object": finding.object,
        "first": finding.first,
    }


def findings_annotations(checked: Iterable[CheckedSet]) -> Annotations:
    """Return the findings of sets at their places. Files of a set without findings are clean."""
    sets = list(checked)
    annotations = [_annotation(finding) for each in sets for finding in each.findings]
    rules = {
        each.rule: FindingRule(
            each.rule,
            REASONS.get(each.rule, "the API server refuses this" if each.rule == SERVER else each.rule),
            _help(each.rule),
        )
        for each in annotations
    }
    return Annotations(
        "replay check", annotations, rules, [(each.path, each.path) for each in sets if not each.findings]
    )


def _help(name: str) -> str:
    if name == SERVER:
        return "The API server refuses this, and does not start with it. The message is that of the server."
    return (
        f"The API server accepts this: {REASONS.get(name, name)}. If this is intended, add `# replay: silence {name}` to the "
        "document."
    )


def _annotation(finding: Finding) -> Annotation:
    line, column = finding.position
    level = _LEVELS[finding.severity]
    detail = f"{finding.field_path} {finding.message}"
    return Annotation(finding.name, level, finding.message, finding.object, finding.path, line, column, detail)


def configuration_check_text(name: str, checked: Checked) -> Iterator[str]:
    """Yield one line per error, then our warnings, then the server's action."""
    if checked.problems:
        place = checked.problems[0].position
        yield f"{name}:{place.line}:{place.column}: {checked.error}"
    elif checked.field_errors:
        yield from (f"{name}: {error}" for error in checked.field_errors)
    elif checked.error:
        yield f"{name}: {checked.explained}"
    yield from (f"{name}: warning: {warning}" for warning in checked.warnings)
    yield f"{name}: {checked.result.value}"


def configuration_check_json(checked: Checked) -> JSON:
    """Return `ok`, `error` and `result`. `panic` is there if the server panics, `warnings` if there are any."""
    fields: JSON = {"ok": checked.is_accepted, "error": checked.error or "", "result": checked.result.value}
    if checked.result is LoadResult.PANIC:
        fields["panic"] = PANIC
    if checked.warnings:
        fields["warnings"] = list(checked.warnings)
    return fields
