"""What `replay check` prints: as text, as JSON, as workflow commands of GitHub, as SARIF 2.1.0."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator

from replay.json import JSON
from replay.manifests.api_object import LoadedApi
from replay.manifests.check import CheckedSet, counts
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.lint.catalogue import REASONS
from replay.manifests.loader import LoadedDirectory

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def findings_text(checked: CheckedSet) -> Iterator[str]:
    """Lines for a terminal: each finding with its place, then what the server does with the set."""
    for finding in checked.findings:
        yield _line(finding)
    errors, warnings = counts(checked.findings)
    for directory in checked.directories:
        if directory.error is None and directory.path:
            kinds = ", ".join(f"{_count(directory, kind)} {kind}" for kind in directory.plugin.kinds)
            yield f"{directory.path}: {directory.plugin.value} loads {kinds}; {directory.hash or 'no data'}"
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
    message = finding.message.replace("\n", "\n    ")
    return f"{_place(finding)}: {finding.severity.value}: {subject}{message} [{finding.name}]{mark}"


def _place(finding: Finding) -> str:
    line, column = finding.position
    return f"{finding.path}:{line}:{column}" if line else finding.path


def _count(directory: LoadedDirectory, kind: str) -> int:
    return sum(loaded.kind == kind for loaded in directory.objects)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def directory_json(directory: LoadedDirectory) -> dict[str, JSON]:
    """One directory as one plugin loads it, in the form of the manifests corpus (`DIR` stands for the directory)."""
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
    """A checked set: of one directory what `directory_json` says, else the plugins in the order of the chain."""
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
    """A set's `api/` in the form of a directory, which has a hash besides."""
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
    """A finding with its place; `first` marks what the server itself tells."""
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


def findings_github(findings: Iterable[Finding]) -> Iterator[str]:
    """Workflow commands, which annotate the lines of a pull request."""
    for finding in findings:
        command = "error" if finding.severity is Severity.ERROR else "warning"
        line, column = finding.position
        place = f"file={github_property(finding.path)}" + (f",line={line},col={column}" if line else "")
        subject = f"{finding.object}: " if finding.object else ""
        yield f"::{command} {place},title={github_property(f'replay: {finding.name}')}::{github_data(subject + finding.message)}"


def github_data(text: str) -> str:
    """The message of a workflow command, escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def github_property(text: str) -> str:
    """A property of a workflow command, escaped."""
    return github_data(text).replace(":", "%3A").replace(",", "%2C")


def findings_sarif(findings: Iterable[Finding]) -> str:
    """A SARIF log of one run; the rules are the lints and `server`."""
    listed = list(findings)
    names = sorted({finding.name for finding in listed})
    rules = [
        {"id": name, "shortDescription": {"text": REASONS.get(name, "the API server refuses this")}} for name in names
    ]
    driver = {
        "name": "replay",
        "informationUri": "https://kubernetes.io/docs/reference/access-authn-authz/",
        "rules": rules,
    }
    run = {"tool": {"driver": driver}, "results": [_sarif_result(finding) for finding in listed]}
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif_result(finding: Finding) -> dict[str, JSON]:
    location: dict[str, JSON] = {"artifactLocation": {"uri": finding.path}}
    if finding.position.line:
        location["region"] = {"startLine": finding.position.line, "startColumn": finding.position.column}
    subject = f"{finding.object}: " if finding.object else ""
    return {
        "ruleId": finding.name,
        "level": "error" if finding.name == SERVER else "warning",
        "message": {"text": subject + finding.message},
        "locations": [{"physicalLocation": location}],
    }
