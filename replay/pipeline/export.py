"""Requests of a log as cases: `replay export` writes one, `replay run --save-cases` one per distinct finding.

The lookups of a decision are recorded while it is made. The case is then decided again and must give the same.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.audit.ingest import Progress
from replay.audit.store import Store
from replay.case.case import Case, CaseError, Unusable
from replay.case.decide import CaseDecider
from replay.case.difference import differences, plain
from replay.case.document import CaseDocument
from replay.case.exported import Exported, UnrepresentableError, case_text
from replay.case.form.own import read_document
from replay.case.form.table import BY_NAME
from replay.case.policies import PolicyLoader, is_policy
from replay.case.recorded import RecordingLister, minimised, recording_authorizer
from replay.cellib.version import KubernetesVersion
from replay.compare.outcome import OutcomeKind
from replay.compare.summary import CellKey, Example, Summary
from replay.errors import UNFORESEEN, ReplayError
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.redact import REDACTED, SECRET_FIELDS, SECRETS, Redactor
from replay.manifests.read.node import node_from_json
from replay.manifests.set_loader import SetObjects, set_objects
from replay.pipeline.authorization.run import authorization_inputs
from replay.pipeline.cases import CaseOptions, run_tests
from replay.pipeline.forensic.past import past_job, requests_of
from replay.pipeline.log import opened, require_known
from replay.pipeline.manifests import manifests_of
from replay.pipeline.options import Options
from replay.pipeline.project.format import CaseForm, DecidingSet
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.redaction import redacted_decision, redactor_of
from replay.pipeline.scenario import Scenario
from replay.pipeline.whole_file import write_files
from replay.reconstruct.request import Reached, ReplayRequest

CRD = "CustomResourceDefinition"
_ENCODED = base64.b64encode(REDACTED.encode()).decode()


class Exporter(Struct, frozen=True, dict=True):
    """Creates cases from the requests of one log, as the set at `index` of a job decides them.

    `paths` are the set's directories, each on top of the one before.
    """

    job: Job
    index: int
    paths: tuple[Path, ...]
    redact: bool = True

    @cached_property
    def _chain(self) -> Chain:
        job = self.job
        if job.workspaces is not None:
            raise ReplayError("a case has one set of policies, so a request to a kcp workspace cannot be exported")
        authorizer = recording_authorizer(job.server.authorizer)
        sets, discovery = job.distinct_sets, job.cluster.discovery
        return Chain(sets, job.version, discovery, job.server.schemas, authorizer=authorizer, versions=job.versions)

    @property
    def _version(self) -> KubernetesVersion:
        return self.job.versions[self.index]

    @cached_property
    def _loader(self) -> PolicyLoader:
        return PolicyLoader(self._version)

    @cached_property
    def _decider(self) -> CaseDecider:
        return CaseDecider(self._version)

    @cached_property
    def _set(self) -> SetObjects:
        version = self._version
        objects = set_objects(self.paths[0], version)
        for path in self.paths[1:]:
            objects = objects.with_added(set_objects(path, version), version, filter(is_policy, self.job.snapshot))
        return objects

    def exported(
        self, request: ReplayRequest, name: str, *, minimise: bool = False
    ) -> tuple[Exported, dict[str, JSON]]:
        """Return a request and its case, which has the same decision.

        Raise UnrepresentableError if no case can express it.
        """
        if request.reached is not Reached.VALIDATION:
            raise UnrepresentableError(f"the request reached no policy: {request.reached_reason}")
        if request.alternative is not None:
            raise UnrepresentableError("the log does not show whether the request created or updated its object")
        lister = RecordingLister(self.job.cluster.at(request.record))
        original, attributes = _both(request)
        decision = self._chain.decide(original, attributes, lister)[self.index]
        validated = self._chain.validated(original, attributes, lister)[self.index]
        if lister.missing and not self._is_certain(decision):
            raise UnrepresentableError(
                f"a case cannot describe unknown parts of other objects: {lister.missing[0].reason}"
            )
        redactor = redactor_of(request, redact=self.redact)
        exported = Exported(
            name=name,
            original=_shown(original, redactor),
            validated=_shown(validated, redactor),
            decision=redacted_decision(redactor, decision),
            objects=tuple(self._objects(lister, attributes)),
            answers=lister.replies(),
            policies=(*self._set.static, *(self._set.api or ()), *self._api_policies),
            policy_paths=tuple(str(path.absolute()) for path in self.paths),
            api_policies=self._api_policies,
            engine_objects=self.job.sets[self.index].engine_objects,
            uid=request.record.audit_id,
        )
        exported = self._with_object(exported)
        case = exported.case()
        self._check(exported, case)
        if minimise:
            case = minimised(case, lambda each: not self._differences(exported, each))
        return exported, case

    def _with_object(self, exported: Exported) -> Exported:
        """Return it with a validated object, if the object before mutation is unknown and the decision is the same."""
        if not isinstance(exported.original.object, Missing) or isinstance(exported.validated.object, Missing):
            return exported
        assumed = replace(exported, original=exported.original.with_object(exported.validated.object))
        return exported if self._differences(assumed, assumed.case()) else assumed

    @staticmethod
    def _is_certain(decision: Decision) -> bool:
        return not decision.undetermined

    @cached_property
    def _api_policies(self) -> tuple[JSON, ...]:
        """The policies that the set takes from the snapshot."""
        if self._set.api is not None:
            return ()
        return tuple(obj for obj in self.job.snapshot if is_policy(obj))

    def _objects(self, lister: RecordingLister, attributes: Attributes) -> Iterable[JSON]:
        """Yield looked-up objects, and the definitions of custom kinds that the request and its parameters use."""
        namespace = ("", "Namespace", "", attributes.namespace)
        objects = {key: value for key, value in lister.objects.items() if key[1] != CRD and key != namespace}
        groups = {key[0] for key in objects} | {attributes.resource.group}
        for crd in self.job.cluster.crds:
            if crd["spec"]["group"] in groups:
                yield _without_managed_fields(crd)
        for (_, kind, _, _), value in objects.items():
            shown = plain(value)
            redactor = Redactor(SECRETS if kind == "Secret" else "", redact=self.redact)
            yield _hidden(_without_managed_fields(shown), redactor)

    def _check(self, exported: Exported, case: dict[str, JSON]) -> None:
        """Raise UnrepresentableError unless the case has the same decision as the request."""
        differences = self._differences(exported, case)
        if differences:
            hint = "; it depends on a redacted value, use --no-redact" if self._depends_on_redacted(exported) else ""
            raise UnrepresentableError(f"the case would have another decision: {differences[0]}{hint}")

    def _depends_on_redacted(self, exported: Exported) -> bool:
        return self.redact and exported.original.resource.resource == SECRETS

    def _differences(self, exported: Exported, case: dict[str, JSON]) -> list[str]:
        case_read = self.read(exported, case)
        if isinstance(case_read, Unusable):
            return [case_read.error.message]
        try:
            return differences(self._decider.decided(case_read))
        except UnrepresentableError:
            raise
        except (CaseError, *UNFORESEEN) as error:
            return [str(error)]

    def smaller_case(self, exported: Exported, case: dict[str, JSON]) -> Exported:
        """Return a smaller case's content, for other forms."""
        case_read = self.read(exported, case)
        assert isinstance(case_read, Case)
        attributes = self._decider.decided(case_read).attributes
        objects = tuple(obj for obj in case_read.objects if not is_policy(obj))
        return replace(
            exported,
            original=attributes.original,
            validated=attributes.validated,
            objects=objects,
            answers=case_read.answers or (),
        )

    def read(self, exported: Exported, case: dict[str, JSON]) -> Case | Unusable:
        """Return the case as `replay test` reads it."""
        value = exported.document(case)
        return read_document(CaseDocument(Path("case.yaml"), value, node_from_json(value)), self._loader)[0]


def _both(request: ReplayRequest) -> tuple[Attributes, Attributes]:
    original, attributes = request.before_mutation, request.attributes
    return (attributes.with_object(original) if isinstance(original, Missing) else original), attributes


def _shown(attributes: Attributes, redactor: Redactor) -> Attributes:
    """Return redacted attributes, without parts that policies read only on request."""
    parts_shown = {name: _redacted(getattr(attributes, name), redactor) for name in ("object", "old_object")}
    return replace(attributes, **parts_shown)


def _redacted(value: JSON, redactor: Redactor) -> JSON:
    if value is None or isinstance(value, Missing):
        return value
    if isinstance(value, PartialObject):
        return PartialObject(_hidden(value.value, redactor), value.missing)
    return _hidden(value, redactor)


def _hidden(value: JSON, redactor: Redactor) -> JSON:
    """Return an object without its secrets that can still be decoded: the data of a Secret stay base64."""
    shown = redactor.object(value)
    if redactor.resource != SECRETS or not isinstance(shown, dict):
        return shown
    # A value that is not a map was null or is unknown.
    shown = {name: part for name, part in shown.items() if name not in SECRET_FIELDS or isinstance(part, dict)}
    if "data" in shown:
        shown["data"] = {key: _ENCODED if each == REDACTED else each for key, each in shown["data"].items()}
    return shown


def _without_managed_fields(obj: JSON) -> JSON:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


class ExportOptions(Struct, frozen=True, kw_only=True):
    """Selects the request, the set on `side` that decides it, and the form. `beside` is the directory of the file."""

    audit_id: str
    item: int = 0
    side: DecidingSet | None = None
    form: CaseForm = CaseForm.CASE
    minimise: bool = False
    redact: bool = True
    directory: Path | None = None


_WITHOUT_SET = {
    DecidingSet.CURRENT: "no baseline: give it with --current, or let the candidate decide with --side candidate",
    DecidingSet.CANDIDATE: "no candidate: give it with --candidate, or let the baseline decide with --side current",
}


def export_request(scenario: Scenario, options: ExportOptions, progress: Progress) -> Mapping[str, str]:
    """Return the files by name: several for some forms, a single one for others.

    Raise ReplayError for an unknown request, or one that the form cannot express.
    """
    side = options.side or (DecidingSet.CANDIDATE if scenario.candidate_paths else DecidingSet.CURRENT)
    in_force = () if scenario.current is None else (scenario.current,)
    paths = scenario.candidate_paths if side is DecidingSet.CANDIDATE else in_force
    if not paths:
        has_other = scenario.current is not None or scenario.candidate_paths
        raise ReplayError(_WITHOUT_SET[side] if has_other else "no manifests: give --current or --candidate")
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
        exported = exporter.smaller_case(exported, case) if options.minimise else exported
    return written(exported, case, options.form, options.directory)


def title(request: ReplayRequest) -> str:
    """Return a case's name for its request."""
    attributes = request.attributes
    resource = str(attributes.resource.group_resource)
    resource = f"{resource}/{attributes.subresource}" if attributes.subresource else resource
    name = "/".join(filter(None, (attributes.namespace, attributes.name)))
    return f"{attributes.operation.value} {resource} {name} by {attributes.user_info.username}"


def written(exported: Exported, case: dict[str, JSON], name: CaseForm, beside: Path | None = None) -> Mapping[str, str]:
    """Return the files of a form. Raise UnrepresentableError if it cannot hold the case.

    Forms of other tools are read again and decided by their rules.
    """
    form = BY_NAME.get(name)
    if form is None or form.files is None:
        return {"case.yaml": case_text(exported, case, beside)}
    files = form.files(exported)
    if form.read is not None:
        with TemporaryDirectory(prefix="replay-") as directory:
            write_files(Path(directory), files, "the case")
            policies = tuple(map(Path, exported.policy_paths))
            report = run_tests(CaseOptions(paths=(Path(directory),), policies=policies))
        for result in report.results:
            if result.lines:
                raise UnrepresentableError(f"this form cannot hold the case: {result.lines[0]}")
    return files


_CANDIDATE = 1
_LONGEST = 100


class _Finding(Struct, frozen=True):
    """Key of a distinct finding, and the first request that shows it."""

    outcome: OutcomeKind
    policies: tuple[str, ...]
    resource: str
    example: Example


def save_cases(store: Store, job: Job, summary: Summary, paths: tuple[Path, ...], options: Options) -> list[str]:
    """Write the cases; return how many there are, and which findings no case can express.

    `paths` are the candidate's directories. `job` has the history of the log. Raise ReplayError if the directory cannot
    be written.
    """
    directory = options.save_cases
    assert directory is not None
    exporter = Exporter(job, _CANDIDATE, paths, redact=options.redact)
    files: dict[str, str] = {}
    unheld: Counter[str] = Counter()
    for finding in _distinct(summary):
        requests = list(requests_of(store, job, [finding.example.audit_id], is_full=True))
        request = requests[finding.example.item]
        try:
            exported, case = exporter.exported(request, f"{finding.outcome.value}: {title(request)}", minimise=True)
        except UnrepresentableError as error:
            unheld[error.message] += 1
            continue
        files[_name(finding, files)] = case_text(exported, case, directory)
    write_files(directory, files, "the cases")
    lines = [f"{len(files)} cases of distinct findings were saved in {directory}"]
    return lines + [f"{count} distinct findings are no cases: {reason}" for reason, count in unheld.most_common()]


def _distinct(summary: Summary) -> Iterator[_Finding]:
    """Yield findings that differ in outcome, policies, resource or change, in log order."""
    first: dict[tuple[object, ...], tuple[CellKey, Example]] = {}
    for key, cell in summary.cells.items():
        if key.follows:
            continue
        group = (key.outcome, key.policies, key.resource, key.shapes)
        example = cell.examples[0]
        if group not in first or (example.seq, example.item) < (first[group][1].seq, first[group][1].item):
            first[group] = key, example
    for key, example in sorted(first.values(), key=lambda each: (each[1].seq, each[1].item)):
        yield _Finding(key.outcome, key.policies, key.resource, example)


def _name(finding: _Finding, names: dict[str, str]) -> str:
    """Return a file name that describes the finding."""
    policy = finding.policies[0].removesuffix(".static.k8s.io") if finding.policies else ""
    text = "-".join(filter(None, (finding.outcome.value, policy, finding.resource)))
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST]
    numbered = (base if number == 1 else f"{base}-{number}" for number in range(1, len(names) + 2))
    return next(f"{name}.yaml" for name in numbered if f"{name}.yaml" not in names)
