"""`replay lookup` as a function: decisions of policies and webhooks.

They come from the log or, where it shows none, from a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.admission.builtin.pod_security.plugin import PodSecurity
from replay.admission.decision import Decision, Denial, Verdict
from replay.audit.answer import ObservedDenial, observe
from replay.audit.ingest import Progress
from replay.audit.store import Store
from replay.compare.subject import Owners, RequestTarget, workload, workload_of_body
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from replay.kube.denial import PolicyWarning, policy_warning
from replay.kube.gvk import split_api_version
from replay.kube.redact import ObjectRedactors
from replay.manifests.plugin import ALL_PLUGINS
from replay.pipeline.forensic.past import Chosen, decided, past_job, past_requests, requests_of
from replay.pipeline.log import opened, require_known, set_variables
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.options import period, sql_time
from replay.pipeline.project.focus import WILDCARDS, contains_name, names_of, resolve_policy_names
from replay.pipeline.replay.redaction import redactor_of, store_redactors
from replay.pipeline.scenario import Scenario
from replay.pipeline.shard import WorkspacePlaces, places_of
from replay.reconstruct.request import ReplayRequest
from replay.report.lookup_report import REPLAYED, Lookup, PastDecision
from replay.report.render.document import MICROSECONDS

STATIC_SUFFIX = ".static.k8s.io"
_OF_RULES = ("ClusterPolicy", "Policy")
_NO_TRACE = "warnings leave no trace in an audit log"


class LookupFilter(Struct, frozen=True):
    """Search criteria; None matches everything. Names may have `*` and `?`; times are the user's texts."""

    policy: str | None = None
    user: str | None = None
    namespace: str | None = None
    object: str | None = None
    since: str | None = None
    until: str | None = None
    action: str | None = None
    audit_id: str | None = None
    static: bool = False
    workspace: str | None = None


def look_up(
    scenario: Scenario, question: LookupFilter, progress: Progress, *, zone: tzinfo = UTC, redact: bool = True
) -> Lookup:
    """Return the decisions that match a question. Raise ReplayError for unknown names and for a period without events.

    A unique part of a policy's name is enough (`resolve_policy_names`).
    """
    manifests = manifests_of(scenario)
    with opened(scenario, progress) as store:
        period, variables = _parameters(store, question, zone)
        set_variables(store, variables.items())
        owners: Owners = {(row[0], row[1], row[2]): (row[3], row[4]) for row in store.answer("owners")}
        observed = _observed(store, owners, redact=redact)
        if not observed:
            question = _with_known_policy(store, question, manifests)
            _require_names(store, question, manifests)
            variables["policy"] = _in_log(question.policy)
            set_variables(store, variables.items())
            observed = _observed(store, owners, redact=redact)
        summary = store.query("lookup_summary").row(0, named=True)
        lookup = _Lookup(store, question, variables, manifests, redact, owners)
        replayed, undetermined, notes = lookup.replayed()
        notes += _silence(store)
        places = places_of(store, manifests, {each.audit_id for each in (*observed, *replayed)})
    return Lookup(
        log=scenario.name,
        question={name: value for name, value in _question_fields(question) if value},
        period=period,
        observed=tuple(_within_workspaces(question.workspace, observed, places)),
        replayed=tuple(
            _within_workspaces(question.workspace, sorted(replayed, key=lambda each: (each.seq, each.audit_id)), places)
        ),
        undetermined=undetermined,
        denied_with_failures=summary["denied_with_failures"] if question.action == "audit" else 0,
        notes=notes,
    )


def _observed(store: Store, owners: Owners, *, redact: bool) -> tuple[PastDecision, ...]:
    """Return the decisions that the log itself shows."""
    rows = store.query("lookup")
    if rows.is_empty():
        return ()
    redactors = store_redactors(store, redact=redact)
    bodies = {row[0]: orjson.loads(row[1]) for row in store.query("lookup_bodies").iter_rows()}
    return tuple(
        _row(row, redactors, _workload(row, bodies.get(row["audit_id"]), owners)) for row in rows.iter_rows(named=True)
    )


def _with_known_policy(store: Store, question: LookupFilter, manifests: Manifests) -> LookupFilter:
    """Return the question with the policy's full name. Raise ReplayError for an ambiguous part."""
    name = question.policy
    if not name or WILDCARDS & set(name):
        return question
    set_variables(store, [("kind", "policy")])
    sets = [each for each in (manifests.current, manifests.candidate) if each is not None]
    names = {*store.query("log_names")["name"].to_list(), *(name for each in sets for name in names_of(each))}
    if name in names or not contains_name(name, names):
        return question
    (full_name,) = resolve_policy_names(name, names)
    return replace(question, policy=full_name)


def _within_workspaces(
    pattern: str | None, rows: Iterable[PastDecision], places: WorkspacePlaces
) -> Iterator[PastDecision]:
    """Yield decisions with their kcp workspaces, limited to those that a pattern selects."""
    for row in rows:
        workspace, policy_workspace = places.pair_for(row.audit_id)
        if pattern is None or fnmatchcase(workspace, pattern):
            yield replace(row, workspace=workspace, policy_workspace=policy_workspace) if workspace else row


def _question_fields(question: LookupFilter) -> Iterator[tuple[str, str]]:
    for name in ("policy", "user", "namespace", "workspace", "object", "since", "until", "action"):
        yield name, getattr(question, name) or ""
    yield "auditID", question.audit_id or ""
    yield "static", "only" if question.static else ""


def _parameters(
    store: Store, question: LookupFilter, zone: tzinfo
) -> tuple[tuple[int, int], dict[str, str | bool | None]]:
    """Return the period in microseconds, and the parameters of the queries."""
    begin, end = period(store, question.since, question.until, zone)
    names = ("policy", "user", "namespace", "object", "action", "audit_id")
    variables: dict[str, str | bool | None] = {name: getattr(question, name) for name in names}
    variables["policy"] = _in_log(question.policy)
    variables["since"] = sql_time(begin) if question.since else None
    variables["until"] = sql_time(end) if question.until else None
    variables["static"] = question.static or None
    return (_microseconds(begin), _microseconds(end)), variables


def _in_log(name: str | None) -> str | None:
    """Return a policy's name as the log has it.

    Messages contain the name of a constraint or policy without its kind and namespace, that of a rule with its policy.
    """
    if not name or not name[0].isupper():
        return name
    kind, *parts = name.split("/")
    return "/".join(parts[-2:] if kind in _OF_RULES else parts[-1:]) or kind


def _is_same(denial: Denial, told: ObservedDenial) -> bool:
    """Return whether a denial is one that the client saw. An engine's policy is identified by name only."""
    if denial.of_webhook and told.webhook:
        return (_in_log(denial.policy), denial.binding) == (told.policy, told.binding)
    return (denial.policy, denial.binding, denial.message) == (told.policy, told.binding, told.message)


def _microseconds(at: datetime) -> int:
    return int(at.timestamp()) * MICROSECONDS + at.microsecond


def _require_names(store: Store, question: LookupFilter, manifests: Manifests) -> None:
    """Raise an error if nothing was found because a name is unknown."""
    policies = {name for each in manifests.sets for name in names_of(each)} | {each.name for each in ALL_PLUGINS}
    for kind in ("policy", "user", "namespace", "audit_id"):
        name = getattr(question, kind)
        if name and not WILDCARDS & set(name):
            require_known(store, kind, name, policies if kind == "policy" else ())
    if question.object and not WILDCARDS & set(question.object):
        require_known(store, "object", question.object.rpartition("/")[2])


def _silence(store: Store) -> tuple[str, ...]:
    """Return the parts of the question that the log cannot answer."""
    if store.sql("select count(*) from request where annotations is not null").row(0)[0]:
        return ()
    return ("the log has no annotations: audited failures, webhooks' mutations and ignored failures are not in it",)


def _workload(row: dict[str, Any], body: JSON | None, owners: Owners) -> str:
    kind = str((body or {}).get("kind") or "")
    group, _ = split_api_version(str((body or {}).get("apiVersion") or ""))
    about = RequestTarget(
        row["namespace"], kind, row["resource"], row["subresource"], row["object_name"], row["api_group"], group
    )
    return workload_of_body(body, about, owners)


def _row(row: dict[str, Any], redactors: ObjectRedactors, workload: str) -> PastDecision:
    at = row["at"].replace(tzinfo=UTC)
    patch = orjson.loads(row["patch"]) if row["patch"] else None
    resource = row["resource"]
    redactor = redactors.redactor_for(resource, row["namespace"], row["object_name"])
    patch = list(redactor.patch(patch)) if isinstance(patch, list) else patch
    return PastDecision(
        at=_microseconds(at),
        seq=row["seq"],
        action=row["action"],
        plugin=row["plugin"],
        policy=row["policy"] or "",
        binding=row["binding"] or "",
        expression_index=row["expression_index"],
        message=redactor.text(row["message"] or ""),
        validation_actions=tuple(each for each in row["validation_actions"] or () if each),
        patch=patch,
        source=row["source"],
        audit_id=row["audit_id"],
        verb=row["verb"],
        username=row["username"],
        resource=_resource(row["api_group"], resource, row["subresource"]),
        namespace=row["namespace"],
        object_name=row["object_name"],
        code=row["code"],
        is_static=row["is_static"],
        place=f"{row['file']}:{row['line']}",
        workload=workload,
    )


def _resource(group: str, resource: str, subresource: str) -> str:
    name = f"{resource}.{group}" if group else resource
    return f"{name}/{subresource}" if subresource else name


class _Lookup(Struct, frozen=True):
    """A question for the replay of decisions that the log does not show."""

    store: Store
    question: LookupFilter
    variables: dict[str, str | bool | None]
    manifests: Manifests
    redact: bool
    owners: Owners

    def replayed(self) -> tuple[list[PastDecision], int, tuple[str, ...]]:
        """Return the decisions that only a replay shows, the number of undetermined requests, and notes."""
        current, action = self.manifests.current, self.question.action
        if action == "warn":
            if current is None:
                return [], 0, (f"{_NO_TRACE}; give the set in force (--current), and they are replayed",)
            rows, unknown = self._decisions_of(self._requests(_warning(current)), self._warned)
            return rows, unknown, (f"{_NO_TRACE}: {len(rows)} are replayed with the given set",)
        if action == "mutate":
            if current is None:
                return [], 0, ("mutating policies leave no trace in an audit log; with --current they are replayed",)
            rows, unknown = self._decisions_of(self._requests(current.only("mutating")), self._mutated)
            return rows, unknown, ("mutating policies leave no trace in an audit log: what they did is replayed",)
        if action in (None, "deny"):
            return self._masked_denials(current)
        return [], 0, ()

    def _masked_denials(self, current: ManifestSet | None) -> tuple[list[PastDecision], int, tuple[str, ...]]:
        set_variables(self.store, [("policy", None), ("action", "deny"), ("static", None)])
        decision_rows = self.store.query("lookup").iter_rows(named=True)
        # The first built-in plugin that denies ends the request, so no other denial follows.
        audit_ids = sorted({row["audit_id"] for row in decision_rows if row["plugin"] != "builtin"})
        set_variables(self.store, self.variables.items())
        if not audit_ids:
            return [], 0, ()
        if current is None:
            return [], 0, ("a client sees the first denial only; with --current the others are replayed",)
        job = past_job(self.store, replace(self.manifests, current=current, candidate=None))
        requests = ((request, decided(job, request)[0]) for request in requests_of(self.store, job, audit_ids))
        rows, unknown = self._decisions_of(requests, self._masked)
        return rows, unknown, ()

    def _requests(self, part: ManifestSet) -> Iterator[tuple[ReplayRequest, Decision]]:
        """Yield the requests of a part that the baseline may match, within the question, with their decisions."""
        job = past_job(self.store, replace(self.manifests, current=part, candidate=None), with_plugins=True)
        chosen = Chosen(job.predicate.sql, tuple(job.predicate.parameters))
        for request in past_requests(self.store, job, chosen):
            if self._is_asked(request):
                yield request, decided(job, request)[0]

    def _is_asked(self, request: ReplayRequest) -> bool:
        record, request_variable = request.record, self.variables
        at = sql_time(datetime.fromtimestamp(record.stage_time / MICROSECONDS, tz=UTC))
        name = record.name or request.attributes.name
        return (
            _matches(request_variable["user"], record.user.username)
            and _matches(request_variable["namespace"], record.namespace)
            and (
                _matches(request_variable["object"], name)
                or _matches(request_variable["object"], f"{record.resource}/{name}")
            )
            and (request_variable["audit_id"] in (None, record.audit_id))
            and (request_variable["since"] is None or at >= str(request_variable["since"]))
            and (request_variable["until"] is None or at < str(request_variable["until"]))
        )

    def _decisions_of(
        self, requests: Iterable[tuple[ReplayRequest, Decision]], rows_of: Any
    ) -> tuple[list[PastDecision], int]:
        rows: list[PastDecision] = []
        undetermined = 0
        for request, decision in requests:
            undetermined += decision.verdict is Verdict.UNDETERMINED
            rows += (row for row in rows_of(request, decision) if self._is_wanted(row))
        return rows, undetermined

    def _is_wanted(self, row: PastDecision) -> bool:
        name = self.question.policy
        is_meant = _matches(name, row.policy) or _matches(name, row.policy.rpartition("/")[2])
        return is_meant and (row.is_static or not self.question.static)

    def _masked(self, request: ReplayRequest, decision: Decision) -> Iterator[PastDecision]:
        """Yield the denials that the client did not see."""
        denial_seen = observe(request.record).denial
        told = () if denial_seen is None else denial_seen.by_policy
        for denial in decision.denials:
            if not any(map(partial(_is_same, denial), told)):
                row = self._row(request, "deny", denial.policy, denial.binding, denial.message)
                yield replace(row, expression_index=denial.expression_index, code=denial.code)

    def _warned(self, request: ReplayRequest, decision: Decision) -> Iterator[PastDecision]:
        """Yield the warnings. The server's text names policy and binding; warnings of PodSecurity name neither."""
        for warning in decision.warnings:
            policy, binding, _ = policy_warning(warning) or PolicyWarning("", "", "")
            row = self._row(request, "warn", policy or PodSecurity.name, binding, warning)
            yield row if policy else replace(row, plugin="builtin")

    def _mutated(self, request: ReplayRequest, decision: Decision) -> Iterator[PastDecision]:
        for entry in decision.mutated:
            patch = redactor_of(request, redact=self.redact).patch(entry.patch)
            yield replace(self._row(request, "mutate", entry.policy, entry.binding, ""), patch=list(patch))

    def _row(self, request: ReplayRequest, action: str, policy: str, binding: str, message: str) -> PastDecision:
        record, attributes = request.record, request.attributes
        return PastDecision(
            at=record.stage_time,
            seq=record.seq,
            action=action,
            plugin="policy",
            policy=policy,
            binding=binding,
            expression_index=None,
            message=redactor_of(request, redact=self.redact).text(message),
            validation_actions=(),
            patch=None,
            source="replay",
            audit_id=record.audit_id,
            verb=record.verb,
            username=record.user.username,
            resource=_resource(record.api_group, record.resource, record.subresource),
            namespace=record.namespace,
            object_name=record.name or attributes.name,
            code=record.code,
            is_static=policy.endswith(STATIC_SUFFIX),
            place=f"{record.file}:{record.line}",
            workload=workload(attributes, self.owners),
            basis=REPLAYED,
        )


def _matches(pattern: str | bool | None, name: str) -> bool:
    return pattern is None or fnmatchcase(name, str(pattern))


def _warning(manifests: ManifestSet) -> ManifestSet:
    """Return the parts of a set that can warn: validating policies with a warning binding, and PodSecurity."""
    bindings = [each for each in manifests.of(ValidatingAdmissionPolicyBinding) if "Warn" in each.validation_actions]
    names = {each.policy_name for each in bindings}
    policies = (each for each in manifests.of(ValidatingAdmissionPolicy) if each.name in names)
    return ManifestSet(
        (*policies, *bindings),
        builtin=tuple(each for each in manifests.builtin if each.name == PodSecurity.name),
        objects=manifests.objects,
    )
