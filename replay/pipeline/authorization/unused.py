"""Unused permissions: the rules of each binding that the requests of a period needed, by the RBAC of their time.

For one user, this gives the smallest Role that would have sufficed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from fnmatch import fnmatchcase
from typing import NamedTuple

import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from replay.audit.ingest import Progress
from replay.audit.period import Period
from replay.audit.store import Store
from replay.authorization.access import Subject
from replay.authorization.chains import NO_GRAPH, Chains, sides
from replay.authorization.manifest import RBACKey, rbac_key
from replay.compare.permission_use import BindingUse, PermissionUse, PermissionUses, SubjectUse
from replay.errors import AuditLogError, ReplayError
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac.aggregation import is_collected
from replay.kube.rbac.authorizer import Grant, Grants, rule_allows, source_text
from replay.kube.rbac.binding import SERVICE_ACCOUNT, missing_in, subject_key
from replay.kube.rbac.kind import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC_GROUP
from replay.kube.rbac.rule import Permission, compacted, permission_asked, permissions_of, rule_of
from replay.on_demand import pl
from replay.pipeline.authorization.replay import AuthorizedRequest, read_questions
from replay.pipeline.forensic.past import past_job
from replay.pipeline.log import store_of
from replay.pipeline.manifests import Manifests, manifests_of
from replay.pipeline.period import microseconds, period
from replay.pipeline.scenario import Scenario

_BOOTSTRAPPING = "kubernetes.io/bootstrapping"
_BY_RBAC = "RBAC: allowed by "
_REFUSED = (401, 403)
_CREATED = 201
_CREATING = frozenset(["patch", "update"])
_STREAMS = frozenset(["attach", "exec", "portforward"])


class UnusedQuestion(Struct, frozen=True):
    """The selected bindings: those of this user, service account or group, in these namespaces; all by default.

    `since` and `until` are the period, as for `replay report`.
    """

    subject: str | None = None
    namespaces: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None

    def asks(self, binding: JSON) -> bool:
        """Return whether the question selects a binding."""
        namespace = binding["metadata"].get("namespace") or ""
        if self.namespaces and not any(fnmatchcase(namespace, pattern) for pattern in self.namespaces):
            return False
        return self.subject is None or any(each.name == self.subject for each in _subjects(binding))


def unused_permissions(
    scenario: Scenario, question: UnusedQuestion, progress: Progress, zone: tzinfo
) -> PermissionUses:
    """Return the permissions that a scenario's bindings give and its log needed.

    Raise ReplayError for unusable input.
    """
    manifests = manifests_of(scenario)
    with store_of(scenario, progress) as store:
        start, end = period(store, question.since, question.until, zone)
        asked_period = Period(microseconds(start), microseconds(end) + 1)
        return permission_uses(store, manifests, asked_period, question, scenario.name)


def permission_uses(
    store: Store, manifests: Manifests, within: Period, question: UnusedQuestion, log: str
) -> PermissionUses:
    """Return the permissions that each binding gives and the period needed.

    Raise ReplayError if no RBAC objects are known or none is selected, and AuditLogError for a period without
    requests.
    """
    if manifests.folders is not None:
        raise ReplayError(
            "workspaces of kcp have their own RBAC, and the log does not record enough of it", path="--unused"
        )
    job = past_job(store, manifests)
    chains = Chains(job.cluster, sides(manifests.authorization)[:1], began=job.began)
    objects = chains.objects_at(within.end)
    if not any(obj["kind"].endswith("Binding") for obj in objects):
        raise ReplayError("nothing is known of roles and bindings: give a snapshot of the cluster", path="--cluster")
    frame = _allowed(store, within)
    if frame.is_empty():
        raise AuditLogError("RBAC allowed no request of the period", path=log)
    needs = _Needs(chains, dict(_told_grants(objects)))
    questions = read_questions(store)
    for asked, rbac, created, reason, requests, first, last in _equal_questions(frame, chains).iter_rows():
        needs.count(questions[asked], rbac, (created, reason), (requests, first, last))
    uses = PermissionUses(log, within, len(frame), unexplained=needs.unexplained)
    uses.reviews = _reviews(store, within)
    return _with_bindings(uses, objects, needs.uses, question)


def _allowed(store: Store, within: Period) -> pl.DataFrame:
    """Return the requests that RBAC allowed. Without authorization annotations, the response codes decide."""
    frame = store.query("authorization_requests", within=True)
    frame = frame.filter(pl.col("stage_time").is_between(within.start, within.end, closed="left"))
    if frame["decision"].is_not_null().any():
        return frame.filter((pl.col("decision") == "allow") & pl.col("reason").str.starts_with(_BY_RBAC))
    return frame.filter(~pl.col("code").is_in(_REFUSED))


def _equal_questions(frame: pl.DataFrame, chains: Chains) -> pl.DataFrame:
    """Return groups of equal questions with equal RBAC: their number, and their first and last time."""
    states = frame.with_columns(
        rbac=chains.rbac_states(frame["received"], frame["stage_time"]), created=pl.col("code") == _CREATED
    )
    times = (pl.len(), pl.col("stage_time").min().alias("first"), pl.col("stage_time").max().alias("last"))
    return states.group_by("question", "rbac", "created", "reason", maintain_order=True).agg(*times)


def _reviews(store: Store, within: Period) -> int:
    """Return how many access reviews other servers sent."""
    row = store.sql(
        "select count(*) from request where api_group = 'authorization.k8s.io' and "
        "resource in ('subjectaccessreviews', 'localsubjectaccessreviews') and "
        "epoch_us(stage_time) >= $start and epoch_us(stage_time) < $end",
        start=within.start,
        end=within.end,
    ).row(0)
    return int(row[0])


class _Mark(NamedTuple):
    """A permission of a subject of a binding."""

    binding: RBACKey
    subject: Subject
    permission: Permission


class _Needed(NamedTuple):
    """Permissions that allow a request, and the names of their bindings and of others that would have allowed it."""

    marks: tuple[_Mark, ...]
    sources: frozenset[str]
    others: frozenset[tuple[RBACKey, Subject]]


class _Needs(Struct):
    """The needed permissions of each binding and subject.

    `told` are grants by their name in a reason of the log. While RBAC was changing, the log shows more than its own
    writes.
    """

    chains: Chains
    told: Mapping[str, Grant]
    uses: dict[tuple[RBACKey, Subject], SubjectUse] = field(default_factory=dict)
    unexplained: Counter[str] = field(default_factory=Counter)
    _needed: dict[tuple[object, ...], _Needed] = field(default_factory=dict)

    def count(
        self,
        attributes: AuthorizationAttributes,
        rbac: int,
        told: tuple[bool, str | None],
        times: tuple[int, int, int],
    ) -> None:
        """Count equal requests. `told` says whether they created an object, and holds the reason in the log."""
        created, reason = told
        grants = self.chains.grants_of((rbac, NO_GRAPH), attributes.user, attributes.namespace)[0]
        marks, sources, others = self._needed_permissions(grants, attributes)
        source = (reason or "").removeprefix(_BY_RBAC)
        # The log names a grant that the RBAC objects known for that time do not have.
        if source and source not in sources:
            grant = self.told.get(source)
            own = list(dict.fromkeys(_marks(grant, attributes))) if grant is not None else []
            marks = (*marks, *own)
            if not own:
                self.unexplained[source] += times[0]
        counted: set[tuple[RBACKey, Subject]] = set()
        for mark in marks:
            self._add(mark, attributes, times, counted)
        for other in _further_checks(attributes, created=created):
            for mark in self._needed_permissions(grants, other)[0]:
                self._add(mark, other, times, counted)
        for place in others - counted:
            self.uses.setdefault(place, SubjectUse(place[1])).allowed_before += times[0]

    def _add(
        self,
        mark: _Mark,
        attributes: AuthorizationAttributes,
        times: tuple[int, int, int],
        counted: set[tuple[RBACKey, Subject]],
    ) -> None:
        place = (mark.binding, mark.subject)
        own = self.uses.setdefault(place, SubjectUse(mark.subject))
        own.used.setdefault(mark.permission, PermissionUse()).add(*times, permission_asked(attributes))
        # Several permissions of one binding count as one request.
        if place not in counted:
            counted.add(place)
            own.requests += times[0]
            own.users.add(attributes.user.username)

    def _needed_permissions(self, grants: Grants, attributes: AuthorizationAttributes) -> _Needed:
        """Return the permissions among some grants that allow a request.

        Grants in a namespace count only if no cluster-wide grant allows it, in the server's order.
        """
        name = attributes.name if attributes.name in grants.names else ""
        key = (id(grants), permission_asked(attributes), name)
        entry = self._needed.get(key)
        if entry is None:
            own = [(grant, mark) for grant in grants.grants for mark in _marks(grant, attributes)]
            first = [each for each in own if each[0].binding[0] == CLUSTER_ROLE_BINDING.kind] or own
            others = frozenset((mark.binding, mark.subject) for grant, mark in own if (grant, mark) not in first)
            entry = self._needed[key] = _Needed(
                tuple(dict.fromkeys(mark for _, mark in first)), frozenset(grant.source for grant, _ in first), others
            )
        return entry


def _told_grants(objects: Sequence[JSON]) -> Iterator[tuple[str, Grant]]:
    """Yield every subject of every binding as a grant, with the name that a reason gives it."""
    roles = {rbac_key(obj): obj for obj in objects}
    for binding in objects:
        role = roles.get(_role_key(binding)) if binding["kind"].endswith("Binding") else None
        namespace = binding["metadata"].get("namespace") or ""
        for subject in binding.get("subjects") or () if role is not None else ():
            source = source_text(binding["kind"], binding, subject, namespace)
            own = subject_key(subject, namespace)
            yield source, Grant((role or {}).get("rules") or (), source, binding=rbac_key(binding), subject=own)


def _marks(grant: Grant, attributes: AuthorizationAttributes) -> Iterator[_Mark]:
    """Yield the permissions of a grant that allow a request, nothing if it is uncertain that the user has them."""
    if grant.subject is None or grant.unless is not None:
        return
    for rule in grant.rules:
        if isinstance(rule, Missing) or (grant.is_partial and missing_in(rule) is not None):
            continue
        if rule_allows(rule, attributes):
            for permission in permissions_of(rule):
                # A rule gives many permissions. Only those count that allow the request by themselves.
                if rule_allows(rule_of(permission), attributes):
                    yield _Mark(grant.binding, Subject(*grant.subject), permission)


def _further_checks(attributes: AuthorizationAttributes, *, created: bool) -> Iterator[AuthorizationAttributes]:
    """Yield further permission checks of the server for a request, which have no event of their own.

    A user who creates an object by an apply or an update needs permission to create it
    (`k8s.io/apiserver/pkg/endpoints/handlers`). A user who opens a stream by GET needs permission to create one
    (`AuthorizePodWebsocketUpgradeCreatePermission`).
    """
    is_stream = attributes.verb == "get" and attributes.subresource in _STREAMS
    if is_stream or (created and attributes.verb in _CREATING):
        yield replace(attributes, verb="create")


def _with_bindings(
    uses: PermissionUses,
    objects: Sequence[JSON],
    needed: dict[tuple[RBACKey, Subject], SubjectUse],
    question: UnusedQuestion,
) -> PermissionUses:
    """Return the uses with the selected bindings and their needed permissions."""
    roles = {rbac_key(obj): obj for obj in objects if not obj["kind"].endswith("Binding")}
    bindings = [obj for obj in objects if obj["kind"].endswith("Binding")]
    asked = [each for each in bindings if not _is_built_in(each) and question.asks(each)]
    if not asked:
        raise ReplayError("no binding is for it", path="--user" if question.subject else "--namespace")
    others = {_role_key(each) for each in bindings if each not in asked}
    shared = {key for key, role in roles.items() if key in others or _is_written_by_others(role, roles.values())}
    listed = []
    for binding in asked:
        role = roles.get(_role_key(binding))
        if role is None:
            uses.dangling += 1
            continue
        key, namespace = rbac_key(binding), binding["metadata"].get("namespace") or ""
        permissions = (each for rule in role.get("rules") or () for each in permissions_of(rule))
        # A RoleBinding gives no permissions for URLs.
        own = tuple(dict.fromkeys(each for each in permissions if not namespace or each.url is None))
        subjects = tuple(needed.get((key, each)) or SubjectUse(each) for each in _subjects(binding))
        listed.append(BindingUse(binding, role, own, subjects, _role_key(binding) in shared))
    uses.bindings = tuple(listed)
    uses.built_in = sum(map(_is_built_in, bindings))
    return uses


def _is_built_in(obj: JSON) -> bool:
    """Return whether a server recreates an object at its start.

    Source: `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy`.
    """
    return _BOOTSTRAPPING in (obj["metadata"].get("labels") or {})


def _is_written_by_others(role: JSON, roles: Iterable[JSON]) -> bool:
    """Return whether narrowing a role would be undone, or would also narrow other roles."""
    if _is_built_in(role) or role.get("aggregationRule"):
        return True
    return role["kind"] == CLUSTER_ROLE.kind and is_collected(
        role, (each for each in roles if each["kind"] == CLUSTER_ROLE.kind)
    )


def _role_key(binding: JSON) -> RBACKey:
    ref = binding["roleRef"]
    namespace = str(binding["metadata"].get("namespace") or "") if ref["kind"] == "Role" else ""
    return str(ref["kind"]), namespace, str(ref["name"])


def _subjects(binding: JSON) -> list[Subject]:
    """Return the subjects of a binding, without repetitions."""
    namespace = binding["metadata"].get("namespace") or ""
    keys = (subject_key(each, namespace) for each in binding.get("subjects") or ())
    return list(dict.fromkeys(Subject(*key) for key in keys if key is not None))


_HEADER = (
    "# What `{user}` was allowed to do in the log, and no more. What it does less often than the log is long is not in it:\n"
    "# look at a period that covers upgrades, failures and the end of a month before anything is taken away.\n"
)


def least_privilege(store: Store, user: str) -> str:
    """Return Role, ClusterRole and bindings as YAML.

    Raise ReplayError if the log has no allowed request of the user.
    """
    questions = {number: each for number, each in read_questions(store).items() if each.user.username == user}
    requests = map(AuthorizedRequest._make, store.query("authorization_requests", within=True).iter_rows())
    allowed = {each.question for each in requests if each.decision == "allow" and each.question in questions}
    if not allowed:
        raise ReplayError(f"the log has no request of `{user}` that was allowed", path="--user")
    objects = list(_objects(user, [questions[number] for number in allowed]))
    return _HEADER.format(user=user) + yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True)


def _objects(user: str, allowed: Iterable[AuthorizationAttributes]) -> Iterable[JSON]:
    """Yield a ClusterRole for cluster-scoped and all-namespace requests, and a Role for each namespace.

    Each comes with its binding.
    """
    places: dict[str, list[Permission]] = defaultdict(list)
    for each in allowed:
        places[each.namespace].append(permission_asked(each))
    for namespace in sorted(places):
        yield from _role_and_binding(user, namespace, compacted(places[namespace]))


def _role_and_binding(user: str, namespace: str, rules: list[JSON]) -> Iterable[JSON]:
    kind = "Role" if namespace else "ClusterRole"
    name = f"{user.rpartition(':')[2].rpartition('@')[0] or user.rpartition(':')[2]}-least".lower()
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    version = {"apiVersion": f"{RBAC_GROUP}/v1"}
    yield {**version, "kind": kind, "metadata": metadata, "rules": rules}
    ref = {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}
    yield {**version, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": ref, "subjects": [_subject(user)]}


def _subject(user: str) -> JSON:
    if not user.startswith(SERVICE_ACCOUNT):
        return {"apiGroup": RBAC_GROUP, "kind": "User", "name": user}
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT).partition(":")
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
