"""`replay diff --engines` as a function: requests that Rego and CEL of one template decide differently."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from msgspec.structs import replace

from replay.admission.decision import Verdict
from replay.audit.ingest import Progress
from replay.compare.template_sources import SourceAnswers, SourceComparison, comparison
from replay.errors import ReplayError
from replay.gatekeeper.engine import GatekeeperEngine
from replay.gatekeeper.two_sources import TwoSources, two_sources
from replay.json import JSON
from replay.kube.engine_policy import VALIDATION
from replay.manifests.engine_object import engine_documents
from replay.pipeline.options import Options
from replay.pipeline.plugin.engine import engine_cases
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.reconstruct.snapshot import read_snapshot
from replay.storage.scratch import scratch

_DENIED_BY: Final = f'admission webhook "{VALIDATION}" denied the request: '


def compare_sources(
    path: Path, scenario: Scenario, cases: Sequence[Path], options: Options, progress: Progress
) -> SourceComparison:
    """Ask both sources of the templates in a file or directory about the requests of a log and of cases.

    `scenario` names the log and the snapshot. Raises ReplayError for what cannot be used.
    """
    if not path.exists():
        raise ReplayError("no such file or directory", path=str(path))
    sources = two_sources((each.value for each in engine_documents(path)), str(path))
    has_log = bool(scenario.logs or scenario.store is not None)
    if not has_log and not cases:
        raise ReplayError("no requests: give a log after the template, or AdmissionRequests with --cases")
    answers = [*(_of_log(sources, scenario, options, progress) if has_log else ())]
    cluster = [dict(obj) for obj in read_snapshot(scenario.cluster)] if cases and scenario.cluster is not None else []
    answers += _of_cases(sources, cases, cluster)
    return comparison(sources.templates, answers)


def _of_log(sources: TwoSources, scenario: Scenario, options: Options, progress: Progress) -> Iterator[SourceAnswers]:
    """The requests of the log that admission saw, as a run with one source before and the other after decides them."""
    with scratch() as directory:
        sides = [directory / "rego", directory / "cel"]
        for side, objects in zip(sides, (sources.rego, sources.cel), strict=True):
            (side / "gatekeeper").mkdir(parents=True)
            text = "---\n".join(f"{json.dumps(each)}\n" for each in objects)
            (side / "gatekeeper" / "objects.yaml").write_text(text, "utf-8")
        outcomes = directory / "outcomes.jsonl"
        asked = replace(scenario, current=sides[0], candidate=sides[1], add=())
        run(asked, replace(options, outcomes=outcomes), progress)
        with outcomes.open("rb") as lines:
            for line in lines:
                value = orjson.loads(line)
                if value["current"]["verdict"] != Verdict.NOT_REACHED:
                    yield _of_line(value)


def _of_line(value: Mapping[str, Any]) -> SourceAnswers:
    sides = value["current"], value["candidate"]
    unknown = next((gap["reason"] for side in sides for gap in side["undetermined"]), "")
    resource, name = value["resource"], "/".join(filter(None, (value["namespace"], value["name"])))
    kind = "/".join(filter(None, (resource["resource"], resource["subresource"])))
    rego, cel = (_messages(side["denials"]) for side in sides)
    return SourceAnswers(value["auditID"], f"{value['operation']} {kind} {name} by {value['user']}", rego, cel, unknown)


def _messages(denials: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the client's messages. All denials of one webhook share a message."""
    return tuple(dict.fromkeys(str(each["message"]).removeprefix(_DENIED_BY) for each in denials))


def _of_cases(sources: TwoSources, cases: Sequence[Path], cluster: Sequence[JSON]) -> Iterator[SourceAnswers]:
    """The validating requests of cases."""
    rego, cel = (GatekeeperEngine(objects, cluster) for objects in (sources.rego, sources.cel))
    for path in cases:
        for case in engine_cases(path):
            if case.validating is None:
                continue
            lines = [engine.results(None, case.validating) for engine in (rego, cel)]
            unknown = next((str(line["undetermined"][0]) for line in lines if "undetermined" in line), "")
            said = [() if unknown else _denials(line["validate"]) for line in lines]
            yield SourceAnswers(case.id, _described(case.validating), said[0], said[1], unknown)


def _denials(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """The denials of an answer, or why the webhook fails."""
    message = answer.get("message")
    return tuple(answer.get("denials") or ([message] if message else ()))


def _described(request: Mapping[str, Any]) -> str:
    kind = (request.get("kind") or {}).get("kind") or ""
    name = "/".join(filter(None, (request.get("namespace"), request.get("name"))))
    user = (request.get("userInfo") or {}).get("username") or ""
    return " ".join(filter(None, (request.get("operation"), kind, name, f"by {user}" if user else "")))
