"""Decisions of Kyverno's CLI about objects, without a cluster (`cmd/cli/kubectl-kyverno/{processor,store,variables}`)."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.cel.value.timestamp import Timestamp
from replay.go.time import GoTime
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.kyverno.cel.library.context import ListerReader, OfflineReader
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.webhook import CELPolicies
from replay.kyverno.cluster import ListedCluster
from replay.kyverno.policy_schema import schema_refusal, without_nulls
from replay.kyverno.rules.context import LoaderSource
from replay.kyverno.rules.engine import Engine
from replay.kyverno.rules.exception import PolicyExceptions
from replay.kyverno.rules.go_value import as_map, with_floats
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.match import Requester, texts_of
from replay.kyverno.rules.policy_check import policy_refusal
from replay.kyverno.rules.request import BackgroundRequest, Request
from replay.kyverno.rules.response import FAIL, GoPanicError, PolicyResponse, RuleResponse, UndeterminedError

_CRD = "CustomResourceDefinition"
_NEEDS_CLUSTER = frozenset({"configMap", "apiCall"})
_SCORED = "policies.kyverno.io/scored"
WARN = "warn"


class Values(Struct, frozen=True):
    """Values of a CLI test: variables, labels of namespaces, and subresources.

    `of_objects` has variables by policy and object name, `of_rules` by policy and rule name.
    """

    everywhere: Mapping[str, JSON] = {}
    of_objects: Mapping[tuple[str, str], Mapping[str, JSON]] = {}
    of_rules: Mapping[tuple[str, str], Mapping[str, JSON]] = {}
    namespaces: Mapping[str, JSON] = {}
    subresources: Sequence[Mapping[str, Any]] = ()


def read_values(spec: Mapping[str, Any]) -> Values:
    """Return the values in the `spec` of a Values file of the CLI."""
    of_objects: dict[tuple[str, str], Mapping[str, JSON]] = {}
    of_rules: dict[tuple[str, str], Mapping[str, JSON]] = {}
    for policy in spec.get("policies") or ():
        name = str(policy.get("name") or "")
        for each in policy.get("resources") or ():
            of_objects[name, str(each.get("name") or "")] = as_map(each.get("values"))
        for each in policy.get("rules") or ():
            first = {key: values[0] for key, values in as_map(each.get("foreachValues")).items() if values}
            of_rules.setdefault((name, str(each.get("name") or "")), {**as_map(each.get("values")), **first})
    namespaces = {
        str(each.get("name")): {"metadata": {"name": each.get("name"), "labels": as_map(each.get("labels"))}}
        for each in spec.get("namespaceSelector") or ()
    }
    namespaces |= {str(as_map(each.get("metadata")).get("name")): each for each in spec.get("namespaces") or ()}
    whole = {name: {"apiVersion": "v1", "kind": "Namespace", **each} for name, each in namespaces.items()}
    return Values(as_map(spec.get("globalValues")), of_objects, of_rules, whole, tuple(spec.get("subresources") or ()))


class OfflineSet(Struct, frozen=True):
    """Everything that the CLI gets besides the objects to check.

    `cluster` has objects that policies may read. With `has_cluster`, rules may call its API. `entries` are
    GlobalContextEntries with their values. `answers` are the results of calls by method and URL. `user` is None if no
    user is given.
    """

    policies: tuple[JSON, ...]
    exceptions: tuple[JSON, ...] = ()
    values: Values = Values()
    user: Mapping[str, Any] | None = None
    cluster: tuple[JSON, ...] = ()
    has_cluster: bool = False
    entries: tuple[Mapping[str, Any], ...] = ()
    answers: Mapping[tuple[str, str], JSON] = {}


class OfflineResponse(Struct, frozen=True):
    """Answer of a policy for an object: its rules, and the resulting object. `unknown` is the reason if undetermined."""

    policy: str
    rules: tuple[RuleResponse, ...]
    obj: JSON
    has_rules: bool = True
    unknown: str = ""


class _OfflineCluster(ListedCluster):
    """Cluster with given values of GlobalContextEntries. A namespace that is not given has only a name."""

    values: Mapping[str, JSON] = {}

    def namespace(self, name: str) -> JSON:
        """See `ClusterReads.namespace`."""
        bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        return super().namespace(name) or bare

    def global_entry(self, name: str, projection: str) -> JSON | Missing | None:
        """See `ClusterReads.global_entry`."""
        value = self.values.get(name)
        return as_map(value).get(projection) if projection else value


class OfflinePolicies:
    """Policies of a set, applied to one object after another."""

    def __init__(self, given: OfflineSet) -> None:
        """Compile the policies, and note those that are refused."""
        self._given = given
        crds = [obj for obj in given.cluster if obj.get("kind") == _CRD]
        self._discovery: Discovery = builtin_discovery().with_crds(crds)
        self._images = ImageDefaults()
        self._library = kyverno_library(_now, self._images)
        lister = ObjectLister([*given.cluster, *given.values.namespaces.values()])
        cluster = _OfflineCluster(lister, self._discovery, (), self._library)
        cluster.values = {str(each.get("name")): self._entry(each) for each in given.entries}
        ignored = frozenset() if given.has_cluster or given.answers else _NEEDS_CLUSTER
        self._ignored = ignored | (frozenset() if given.entries else {"globalReference"})
        self._requester = _requester(given.user)
        exceptions = [obj for obj in given.exceptions if _is_of_rules(obj)]
        self._engine = Engine(cluster, PolicyExceptions(exceptions), self._source)
        policies = [without_nulls(obj) for obj in given.policies]
        refusals = [self._refusal_of(obj) for obj in policies]
        policies = [obj for obj, refusal in zip(policies, refusals, strict=True) if refusal is None]
        self.policies = [with_floats(_without_existing_mutations(obj)) for obj in policies if _is_of_rules(obj)]
        self._cel = CELPolicies([*policies, *given.exceptions])
        self._refusals = {
            str(as_map(obj.get("metadata")).get("name")): refusal
            for obj, refusal in zip(given.policies, refusals, strict=True)
            if refusal is not None
        }
        reader = ListerReader if given.has_cluster else OfflineReader
        self._reader = reader(lister, self._discovery, cluster.global_entry)
        self._patchers = ObjectPatchers(Schemas(crds))

    def _refusal_of(self, policy: JSON) -> str | None:
        """Return why the API server or Kyverno's policy webhook refuses a policy, or None."""
        refusal = schema_refusal(policy)
        if refusal is None and _is_of_rules(policy) and policy.get("kind") in ("ClusterPolicy", "Policy"):
            refusal = policy_refusal(policy, self._library)
        return refusal

    def _entry(self, entry: Mapping[str, Any]) -> JSON:
        """Return the value of a GlobalContextEntry: the given value, or its projections by name."""
        value = with_floats(entry["resources"] if entry.get("resources") is not None else entry.get("data"))
        if entry.get("fieldPath"):
            value = self._library.query(str(entry["fieldPath"])).search(value)
        projections = entry.get("projections") or ()
        if not projections:
            return value
        return {str(each["name"]): self._library.query(str(each["path"])).search(value) for each in projections}

    def refusal(self, policy: str) -> str:
        """Return why a policy gives no answer."""
        return self._refusals.get(policy) or "; ".join(self._cel.refused) or "no rule of it is for any request"

    def responses(self, obj: JSON, operation: str = "") -> list[OfflineResponse]:
        """Return the answers of all policies: mutating policies in turn, then validating policies on the result."""
        responses: list[OfflineResponse] = []
        for policy in self.policies:
            if not any(rule.get("mutate") for rule in policy["spec"].get("rules") or ()):
                continue
            response = self._response(policy, obj, operation, mutates=True)
            responses.append(response)
            obj = response.obj
        responses += [
            self._response(policy, obj, operation, mutates=False)
            for policy in self.policies
            if any(rule.get("validate") for rule in policy["spec"].get("rules") or ())
        ]
        mutated, obj = self._mutated_by_cel(obj, operation)
        return [*responses, *mutated, *self._validated_by_cel(obj, operation)]

    def _response(self, policy: Mapping[str, Any], obj: JSON, operation: str, *, mutates: bool) -> OfflineResponse:
        name = str(policy["metadata"]["name"])
        try:
            request = self._request(policy, obj, operation)
            answer = self._engine.mutate(policy, request) if mutates else self._engine.validate(policy, request)
        except (UndeterminedError, GoPanicError) as error:
            return OfflineResponse(name, (), obj, unknown=str(error))
        patched = answer.patched if mutates and answer.patched is not None else obj
        return OfflineResponse(name, tuple(_scored(answer)), patched)

    def _request(self, policy: Mapping[str, Any], obj: JSON, operation: str) -> Request:
        """Return the request for an object, with the test's values as context variables."""
        metadata = as_map(obj.get("metadata"))
        values = self._given.values
        given = {
            **values.everywhere,
            **values.of_objects.get((str(policy["metadata"]["name"]), str(metadata.get("name") or "")), {}),
        }
        operation = operation or str(given.get("request.operation") or "CREATE")
        # The CLI treats every other operation as CREATE.
        operation = operation if operation in ("UPDATE", "DELETE") else "CREATE"
        given.setdefault("request.operation", operation)
        kind, subresource = self._kind(obj)
        namespace = str(metadata.get("namespace") or "")
        own = _kind_of(obj)
        shown: dict[str, Any] = {
            "operation": operation,
            "kind": own._asdict(),
            "resource": self._resource(own),
            "name": str(metadata.get("name") or ""),
            "namespace": namespace,
        }
        if operation != "DELETE":
            shown["object"] = obj
        if operation != "CREATE":
            shown["oldObject"] = obj
        if self._given.user is not None:
            shown["userInfo"] = self._given.user.get("userInfo") or {}
        if subresource:
            shown["subResource"] = subresource
        request = BackgroundRequest(shown, kind, self._requester, self._library, self._images)
        request.namespace_of = values.namespaces.get
        request.namespace_labels = texts_of(values.namespaces.get(namespace) or {}, "labels")
        for path, value in _paths(given):
            request.context.put(value, *path)
        # Values may have changed the objects too.
        if request.new is not None:
            request.new = request.context.query("request.object")
        if request.old is not None:
            request.old = request.context.query("request.oldObject")
        return request

    def _kind(self, obj: JSON) -> tuple[GroupVersionKind, str]:
        """Return the kind of an object and its subresource. The kind of a subresource is that of its parent."""
        own = _kind_of(obj)
        for each in self._given.values.subresources:
            if _described(as_map(each.get("subresource"))) == own:
                name = str(as_map(each.get("subresource")).get("name") or "")
                return _described(as_map(each.get("parentResource"))), name.partition("/")[2]
        return own, ""

    def _resource(self, kind: GroupVersionKind) -> dict[str, str]:
        """Return the resource of a kind. The plural of an unknown kind is guessed."""
        found = next((each.resource.resource for each in self._discovery if each.kind == kind), f"{kind.kind.lower()}s")
        return {"group": kind.group, "version": kind.version, "resource": found}

    def _source(self, source: LoaderSource, policy: str, rule: str) -> LoaderSource:
        names = (rule, rule.removeprefix("autogen-"), rule.removeprefix("autogen-cronjob-"))
        of_rules = self._given.values.of_rules
        values = next((of_rules[policy, name] for name in names if (policy, name) in of_rules), {})
        ignored = self._ignored | ({"imageRegistry"} if values else frozenset())
        return replace(source, values=tuple(_paths(values)), ignored=ignored, answers=self._given.answers)

    def _cel_request(self, obj: JSON, operation: str) -> CELRequest:
        metadata, kind = as_map(obj.get("metadata")), _kind_of(obj)
        operation = operation or str(self._given.values.everywhere.get("request.operation") or "CREATE")
        request: dict[str, Any] = {
            "kind": kind._asdict(),
            "resource": self._resource(kind),
            "operation": operation,
            "name": str(metadata.get("name") or ""),
            "namespace": str(metadata.get("namespace") or ""),
            "userInfo": as_map(as_map(self._given.user).get("userInfo")),
        }
        if operation != "DELETE":
            request["object"] = obj
        if operation in ("UPDATE", "DELETE"):
            request["oldObject"] = obj
        nanoseconds = time.time_ns()
        moment = Timestamp(nanoseconds // 10**9, nanoseconds % 10**9)
        return CELRequest(request, self._given.values.namespaces.get(request["namespace"]), moment)

    def _mutated_by_cel(self, obj: JSON, operation: str) -> tuple[list[OfflineResponse], JSON]:
        responses = []
        for policy in self._cel.mutating:
            rules: tuple[RuleResponse, ...] = ()
            try:
                answer = policy.mutate(self._cel_request(obj, operation), self._reader, self._patchers)
            except UndeterminedError as error:
                responses.append(OfflineResponse(policy.name, (), obj, has_rules=False, unknown=str(error)))
                continue
            if answer is not None:
                rules = (answer.rule,)
                obj = answer.object if isinstance(answer.object, dict) else obj
            responses.append(OfflineResponse(policy.name, rules, obj, has_rules=False))
        return responses, obj

    def _validated_by_cel(self, obj: JSON, operation: str) -> list[OfflineResponse]:
        responses = []
        for policy in self._cel.validating:
            try:
                answer = policy.validate(self._cel_request(obj, operation), self._reader)
            except UndeterminedError as error:
                responses.append(OfflineResponse(policy.name, (), obj, has_rules=False, unknown=str(error)))
                continue
            rules = (answer.rule,) if answer is not None else ()
            responses.append(OfflineResponse(policy.name, rules, obj, has_rules=False))
        return responses


def _now() -> GoTime:
    return GoTime(time.time_ns())


def _is_of_rules(obj: JSON) -> bool:
    return str(obj.get("apiVersion") or "").startswith("kyverno.io/")


def _without_existing_mutations(policy: JSON) -> JSON:
    """Return a policy without the rules that mutate existing objects, because no request triggers them here."""
    spec = as_map(policy.get("spec"))
    kept = [rule for rule in spec.get("rules") or () if as_map(rule.get("mutate")).get("targets") is None]
    return {**policy, "spec": {**spec, "rules": kept}}


def _requester(user: Mapping[str, Any] | None) -> Requester:
    if user is None:
        return Requester(is_empty=True)
    info = as_map(user.get("userInfo"))
    return Requester(
        str(info.get("username") or ""),
        tuple(info.get("groups") or ()),
        tuple(user.get("roles") or ()),
        tuple(user.get("clusterRoles") or ()),
    )


def _scored(response: PolicyResponse) -> Iterable[RuleResponse]:
    """Yield the results as a report shows them. A failure of a policy that does not score is a warning."""
    annotations = as_map(response.policy["metadata"].get("annotations"))
    for rule in response.rules:
        warns = rule.status == FAIL and annotations.get(_SCORED) == "false"
        yield replace(rule, status=WARN) if warns else rule


def _paths(values: Mapping[str, JSON]) -> Iterable[tuple[tuple[str, ...], JSON]]:
    """Yield the path of each value. Dots separate the parts, except within quotes (`AddVariable`)."""
    for name, value in values.items():
        yield tuple(next(csv.reader([str(name)], delimiter="."), [])), with_floats(value)


def _kind_of(obj: JSON) -> GroupVersionKind:
    return GroupVersionKind(*split_api_version(str(obj.get("apiVersion") or "")), str(obj.get("kind") or ""))


def _described(resource: Mapping[str, Any]) -> GroupVersionKind:
    return GroupVersionKind(*(str(resource.get(part) or "") for part in ("group", "version", "kind")))
