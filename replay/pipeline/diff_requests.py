"""Requests that two sets or two sources decide differently.

`replay diff --log` compares pairs of policies, `--engines` the Rego and CEL of a template.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from msgspec.structs import replace

from replay.admission.decision import Verdict
from replay.audit.ingest import Progress
from replay.cellib.version import KubernetesVersion
from replay.compare.policy_pairs import (
    DifferingRequest,
    PairComparison,
    PolicyPair,
    SourceAnswers,
    SourceComparison,
    comparison,
    is_denied_by,
    paired,
)
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, ValidatingAdmissionPolicy
from replay.kube.denial import without_webhook
from replay.kube.discovery import builtin_discovery
from replay.kube.engine_policy import ENGINES, engine_policies, engine_with, function_of, is_of_engine, policy_names
from replay.manifests.engine_object import TwoSources, engine_documents
from replay.manifests.read.values import yaml_values
from replay.manifests.set_loader import load_manifest_set
from replay.pipeline.options import Options
from replay.pipeline.plugin import engine_cases
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.reconstruct.snapshot import read_snapshot
from replay.storage.scratch import scratch

_PODS: Final = "/pods"
_OF_PODS: Final = frozenset(
    {
        *(
            "apps/daemonsets",
            "apps/deployments",
            "apps/replicasets",
            "apps/statefulsets",
            "batch/cronjobs",
            "batch/jobs",
        ),
        *("/replicationcontrollers", "/pods/ephemeralcontainers"),
    }
)
"""Resources that count as pods in a policy for pods: it may name them, or leave them to its engine."""


def matched_resources(manifests: ManifestSet) -> dict[str, frozenset[str]]:
    """Return the `group/resource` names that each policy matches. A policy in another form has none."""
    found = {
        each.name: _resources((rule.api_groups, rule.resources) for rule in each.match_constraints.resource_rules)
        for each in manifests.of(ValidatingAdmissionPolicy)
        if each.match_constraints is not None
    }
    discovery = builtin_discovery()
    for engine in ENGINES:
        own = [each for each in manifests.engine_objects if is_of_engine(each, engine) and policy_names(each)]
        for value in own if engine.matched else ():
            matched = function_of(engine.matched)(value, discovery)
            found.update((name, _resources(rules)) for name, rules in matched)
    return found


def _resources(rules: Iterable[tuple[Iterable[str], Iterable[str]]]) -> frozenset[str]:
    found = frozenset(
        f"{group}/{resource}" for groups, resources in rules for group in groups for resource in resources
    )
    return found - _OF_PODS if _PODS in found else found


def compare_pairs(
    scenario: Scenario, written: Path | None, options: Options, progress: Progress, version: KubernetesVersion
) -> list[PairComparison]:
    """Decide the requests of a log with both sets of a scenario, and compare pair by pair.

    `written` is a file of pairs.

    Raise ReplayError for unusable input.
    """
    sets = [load_manifest_set(path, version=version) for path in (scenario.current, scenario.candidate) if path]
    old, new = map(_policies, sets)
    matched = {name: resources for each in sets for name, resources in matched_resources(each).items()}
    pairs = paired(old, new, () if written is None else _read(written, old, new), matched)
    compared = [PairComparison(pair) for pair in pairs]
    with scratch() as directory:
        outcomes = directory / "outcomes.jsonl"
        run(scenario, replace(options, outcomes=outcomes), progress)
        with outcomes.open("rb") as lines:
            for line in lines:
                value = orjson.loads(line)
                if value["current"]["verdict"] != Verdict.NOT_REACHED:
                    _count(compared, value)
    return compared


def _policies(manifests: ManifestSet) -> tuple[str, ...]:
    """Return the names of all validating policies: those of engines, and native ones."""
    native = (each.name for each in manifests.of(ValidatingAdmissionPolicy))
    return tuple(dict.fromkeys((*engine_policies(manifests.engine_objects), *native)))


def _read(path: Path, old: Sequence[str], new: Sequence[str]) -> list[PolicyPair]:
    """Return the pairs of a file: a list of `{old, new}`, each a name or a list of names."""
    entries = next(iter(yaml_values(path)), None)
    if not isinstance(entries, list):
        raise ReplayError("is not a list of pairs: write `- {old: NAME, new: NAME}`", path=str(path))
    return [_pair(each, index, path, old, new) for index, each in enumerate(entries)]


def _pair(entry: Any, index: int, path: Path, old: Sequence[str], new: Sequence[str]) -> PolicyPair:
    names: dict[str, tuple[str, ...]] = {}
    for field, known in (("old", old), ("new", new)):
        value = entry.get(field) if isinstance(entry, dict) else None
        own = tuple(map(str, value)) if isinstance(value, list) else (str(value),) if value else ()
        unknown = next((name for name in own if name not in known), None)
        if not own or unknown is not None:
            what = f"`{unknown}` is not a policy of its set" if unknown is not None else f"has no `{field}`"
            raise ReplayError(f"pair {index + 1}: {what}: name a policy as `replay run` does", path=str(path))
        names[field] = own
    return PolicyPair(names["old"], names["new"])


def _count(compared: Iterable[PairComparison], value: Mapping[str, Any]) -> None:
    sides = value["current"], value["candidate"]
    denials = [{str(each["policy"]): str(each["message"]) for each in side["denials"]} for side in sides]
    unknown = {str(each["policy"]) for side in sides for each in side["undetermined"]}
    if not unknown and not any(denials):
        return
    for each in compared:
        if is_denied_by((*each.pair.old, *each.pair.new), unknown):
            each.undetermined += 1
            continue
        old, new = is_denied_by(each.pair.old, denials[0]), is_denied_by(each.pair.new, denials[1])
        each.both += old and new
        if old is not new:
            names, said = (each.pair.old, denials[0]) if old else (each.pair.new, denials[1])
            message = next(said[name] for name in names if name in said)
            (each.old_only if old else each.new_only).append(
                DifferingRequest(value["auditID"], _request_text(value), message)
            )


def _request_text(value: Mapping[str, Any]) -> str:
    """Return the request of a line of `--outcomes` in words."""
    resource, name = value["resource"], "/".join(filter(None, (value["namespace"], value["name"])))
    kind = "/".join(filter(None, (resource["resource"], resource["subresource"])))
    return f"{value['operation']} {kind} {name} by {value['user']}"


def compare_sources(
    path: Path, scenario: Scenario, cases: Sequence[Path], options: Options, progress: Progress
) -> SourceComparison:
    """Compare the answers of both sources of templates to the requests of a log and of cases.

    `scenario` names the log and the snapshot. Raise ReplayError for unusable input.
    """
    if not path.exists():
        raise ReplayError("no such file or directory", path=str(path))
    sources = function_of(engine_with("sources").sources)((each.value for each in engine_documents(path)), str(path))
    has_log = bool(scenario.logs or scenario.store is not None)
    if not has_log and not cases:
        raise ReplayError("no requests: give a log after the template, or AdmissionRequests with --cases")
    answers = [*(_answers_of_log(sources, scenario, options, progress) if has_log else ())]
    cluster = [dict(obj) for obj in read_snapshot(scenario.cluster)] if cases and scenario.cluster is not None else []
    answers += _answers_of_cases(sources, cases, cluster)
    return comparison(sources.templates, answers)


def _answers_of_log(
    sources: TwoSources, scenario: Scenario, options: Options, progress: Progress
) -> Iterator[SourceAnswers]:
    """Yield the answers for requests of the log.

    It is run with one source as the baseline and the other as the candidate.
    """
    with scratch() as directory:
        sides = [directory / "rego", directory / "cel"]
        for side, objects in zip(sides, (sources.rego, sources.cel), strict=True):
            own = side / engine_with("sources").name
            own.mkdir(parents=True)
            text = "---\n".join(f"{json.dumps(each)}\n" for each in objects)
            (own / "objects.yaml").write_text(text, "utf-8")
        outcomes = directory / "outcomes.jsonl"
        asked = replace(scenario, current=sides[0], candidate=sides[1], add=())
        run(asked, replace(options, outcomes=outcomes), progress)
        with outcomes.open("rb") as lines:
            for line in lines:
                value = orjson.loads(line)
                if value["current"]["verdict"] != Verdict.NOT_REACHED:
                    yield _answers_of_line(value)


def _answers_of_line(value: Mapping[str, Any]) -> SourceAnswers:
    sides = value["current"], value["candidate"]
    unknown = next((gap["reason"] for side in sides for gap in side["undetermined"]), "")
    rego, cel = (_messages(side["denials"]) for side in sides)
    return SourceAnswers(value["auditID"], _request_text(value), rego, cel, unknown)


def _messages(denials: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the client's messages. All denials of one webhook share a message."""
    return tuple(dict.fromkeys(without_webhook(str(each["message"])) for each in denials))


def _answers_of_cases(sources: TwoSources, cases: Sequence[Path], cluster: Sequence[JSON]) -> Iterator[SourceAnswers]:
    """Yield the answers for the validating requests of cases."""
    deciders = [sources.decider(objects, cluster) for objects in (sources.rego, sources.cel)]
    for path in cases:
        for case in engine_cases(path):
            if case.validating is None:
                continue
            lines = [decide(case.validating) for decide in deciders]
            unknown = next((str(line["undetermined"][0]) for line in lines if "undetermined" in line), "")
            said = [() if unknown else _denials(line["validate"]) for line in lines]
            yield SourceAnswers(case.id, _described(case.validating), said[0], said[1], unknown)


def _denials(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the denials of an answer, or the error of the webhook."""
    message = answer.get("message")
    return tuple(answer.get("denials") or ([message] if message else ()))


def _described(request: Mapping[str, Any]) -> str:
    kind = (request.get("kind") or {}).get("kind") or ""
    name = "/".join(filter(None, (request.get("namespace"), request.get("name"))))
    user = (request.get("userInfo") or {}).get("username") or ""
    return " ".join(filter(None, (request.get("operation"), kind, name, f"by {user}" if user else "")))
