"""`replay export` as a function: one request of a log, written in one of the forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.audit.ingest import Progress
from replay.case.exported import Exported, UnrepresentableError
from replay.case.write.gator import gator_files
from replay.case.write.kat import kat_files
from replay.case.write.kubectl import kubectl_command
from replay.case.write.kyverno import kyverno_files
from replay.case.write.own import case_text
from replay.case.write.review import review
from replay.errors import ReplayError
from replay.json import JSON
from replay.pipeline.authorization.run import authorization_inputs
from replay.pipeline.forensic.past import past_job, requests_of
from replay.pipeline.log import opened, require_known
from replay.pipeline.manifests import manifests_of
from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario
from replay.pipeline.testing.export import Exporter
from replay.pipeline.testing.form import CaseForm, DecidingSet
from replay.pipeline.testing.run import CaseOptions, run_tests
from replay.pipeline.whole_file import write_files
from replay.reconstruct.request import ReplayRequest


class ExportOptions(Struct, frozen=True, kw_only=True):
    """Which request is written, how, and what the set on `side` decides; `beside` is where the file will be."""

    audit_id: str
    item: int = 0
    side: DecidingSet | None = None
    form: CaseForm = CaseForm.CASE
    minimise: bool = False
    redact: bool = True
    beside: Path | None = None


def export_request(scenario: Scenario, options: ExportOptions, progress: Progress) -> Mapping[str, str]:
    """The files by their names; those of kat, kyverno and gator make a directory, of the others there is one alone.

    Raises ReplayError for a request that is not known, or that the form cannot hold.
    """
    side = options.side or (DecidingSet.CANDIDATE if scenario.candidate_paths else DecidingSet.CURRENT)
    in_force = () if scenario.current is None else (scenario.current,)
    paths = scenario.candidate_paths if side is DecidingSet.CANDIDATE else in_force
    if not paths:
        raise ReplayError(f"no {side.value} set: give --{side.value}, which decides the request")
    manifests = manifests_of(scenario)
    authorizers = authorization_inputs(manifests, Options())
    with opened(scenario, progress) as store:
        require_known(store, "audit_id", options.audit_id)
        job = replace(past_job(store, manifests), authorizers=authorizers)
        requests = list(requests_of(store, job, [options.audit_id], is_full=True))
        if not 0 <= options.item < len(requests):
            raise ReplayError(f"the request is about {len(requests)} objects: --item is 0 to {len(requests) - 1}")
        request = requests[options.item]
        exporter = Exporter(job, list(DecidingSet).index(side), paths, redact=options.redact)
        exported, case = exporter.exported(request, title(request), minimise=options.minimise)
        exported = exporter.again(exported, case) if options.minimise else exported
    return written(exported, case, options.form, options.beside)


def title(request: ReplayRequest) -> str:
    """Return a case's name for its request."""
    attributes = request.attributes
    resource = str(attributes.resource.group_resource)
    resource = f"{resource}/{attributes.subresource}" if attributes.subresource else resource
    name = "/".join(filter(None, (attributes.namespace, attributes.name)))
    return f"{attributes.operation.value} {resource} {name} by {attributes.user_info.username}"


_FILES: Mapping[CaseForm, Callable[[Exported], Mapping[str, str]]] = {
    CaseForm.KAT: kat_files,
    CaseForm.KYVERNO: kyverno_files,
    CaseForm.GATOR: gator_files,
}
_READ_AGAIN = (CaseForm.REVIEW, *_FILES)


def written(exported: Exported, case: dict[str, JSON], form: CaseForm, beside: Path | None = None) -> Mapping[str, str]:
    """Return a form's files; raises UnrepresentableError if it cannot hold the case.

    Forms of other tools are read again and decided by their rules.
    """
    files = _written(exported, case, form, beside)
    if form in _READ_AGAIN:
        with TemporaryDirectory(prefix="replay-") as directory:
            write_files(Path(directory), files, "the case")
            policies = tuple(map(Path, exported.policy_paths))
            report = run_tests(CaseOptions(paths=(Path(directory),), policies=policies))
        for result in report.results:
            if result.lines:
                raise UnrepresentableError(f"the form has no place for something that matters: {result.lines[0]}")
    return files


def _written(exported: Exported, case: dict[str, JSON], form: CaseForm, beside: Path | None) -> Mapping[str, str]:
    if form in _FILES:
        return _FILES[form](exported)
    if form is CaseForm.REVIEW:
        return {"review.json": orjson.dumps(review(exported), option=orjson.OPT_INDENT_2).decode() + "\n"}
    if form is CaseForm.KUBECTL:
        return {"repeat.sh": kubectl_command(exported)}
    return {"case.yaml": case_text(exported, case, beside)}
