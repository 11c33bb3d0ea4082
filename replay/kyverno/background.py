"""Reports of Kyverno's background scan about existing objects (`pkg/controllers/report/{background,utils}`).

Each policy sees the object as if an empty user had just created it. A scan denies nothing, so rules that deny and rules
that audit are reported alike. A MutatingPolicy is reported if it would still change the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.webhook.answer import engines_of
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.json_patch import diff
from replay.kube.lister import Lister
from replay.kyverno.backend import Kyverno
from replay.kyverno.cel.generating import ImagePolicy
from replay.kyverno.cel.library.context import ListerReader
from replay.kyverno.cel.mutating import MutatingPolicy
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.validating import ValidatingPolicy
from replay.kyverno.cel.webhook import CELPolicies
from replay.kyverno.cluster import ListedCluster
from replay.kyverno.naming import rule_name
from replay.kyverno.rules.go_value import as_map, with_floats
from replay.kyverno.rules.match import Requester, texts_of
from replay.kyverno.rules.request import BackgroundRequest
from replay.kyverno.rules.response import ERROR, FAIL, GoPanicError, RuleResponse, UndeterminedError
from replay.manifests.engine_object import Reported

_NAMESPACE = GroupVersionKind("", "v1", "Namespace")


class BackgroundScan:
    """Policies of a set that scan in the background, applied to one cluster."""

    def __init__(self, kyverno: Kyverno, lister: Lister, discovery: Discovery, patchers: ObjectPatchers) -> None:
        """Keep the policies that scan. A policy without admission scans too."""
        self._kyverno = kyverno
        self._lister = lister
        self._discovery = discovery
        self._cluster = ListedCluster(lister, discovery, kyverno.entries, kyverno.library)
        self._patchers = patchers
        self._engine = replace(kyverno.rules(discovery).engine, cluster=self._cluster)
        self._policies = [with_floats(each) for each in kyverno.policies if _scans(each)]
        self._cel = CELPolicies([each for each in kyverno.cel_objects if _scans_in_cel(each)], is_offline=True)

    def __bool__(self) -> bool:
        """Return whether any policy scans."""
        return bool(self._policies or self._cel.validating or self._cel.mutating or self._cel.images)

    def reported(self, obj: JSON, served: APIResource) -> list[Reported]:
        """Return the reports about an object. There are none if Kyverno's configuration filters the object."""
        metadata = as_map(obj.get("metadata"))
        place = (str(metadata.get(key) or "") for key in ("namespace", "name"))
        if self._kyverno.configuration.is_filtered(served.kind, "", *place):
            return []
        return [*self._results_of_rules(obj, served), *self._results_of_cel(obj, served)]

    def _request(self, obj: JSON, served: APIResource) -> dict[str, Any]:
        metadata = as_map(obj.get("metadata"))
        return {
            "kind": served.kind._asdict(),
            "resource": served.resource._asdict(),
            "operation": "CREATE",
            "name": str(metadata.get("name") or ""),
            "namespace": str(metadata.get("namespace") or ""),
            "object": obj,
            "userInfo": {},
        }

    def _results_of_rules(self, obj: JSON, served: APIResource) -> Iterator[Reported]:
        kyverno, namespace = self._kyverno, str(as_map(obj.get("metadata")).get("namespace") or "")
        for policy in self._policies:
            shown = self._request(obj, served)
            request = BackgroundRequest(
                shown, served.kind, Requester(is_empty=True), kyverno.library, kyverno.configuration.images
            )
            request.namespace_of = self._cluster.namespace
            try:
                found = self._cluster.namespace(namespace) if namespace else None
                request.namespace_labels = texts_of(found or {}, "labels")
                response = self._engine.validate(policy, request)
            except (UndeterminedError, GoPanicError) as error:
                for rule in policy["spec"].get("rules") or ():
                    if rule.get("validate") or rule.get("verifyImages"):
                        yield Reported(rule_name(policy, rule.get("name")), "", unknown=str(error))
                continue
            for answer in response.rules:
                if answer.status in (FAIL, ERROR):
                    yield Reported(rule_name(policy, answer.name), answer.message, answer.status == ERROR)

    def _results_of_cel(self, obj: JSON, served: APIResource) -> Iterator[Reported]:
        shown = self._request(obj, served)
        namespace = shown["namespace"]
        found = self._lister.get(_NAMESPACE, "", namespace) if namespace else None
        request = CELRequest(shown, found)
        reader = ListerReader(self._lister, self._discovery, self._cluster.global_entry)
        for policy in self._cel.all:
            if policy.namespace not in ("", namespace):
                continue
            key = f"{policy.namespace}/{policy.name}".lstrip("/")
            name = f"{self._kyverno.kinds[key]}/{key}"
            try:
                rule = self._policy_result(policy, request, reader)
            except UndeterminedError as error:
                yield Reported(name, "", unknown=str(error))
                continue
            if rule is not None and rule.status in (FAIL, ERROR):
                yield Reported(name, rule.message, rule.status == ERROR)

    def _policy_result(
        self, policy: ValidatingPolicy | MutatingPolicy | ImagePolicy, request: CELRequest, reader: ListerReader
    ) -> RuleResponse | None:
        """Return a policy's result for an object. A mutating policy fails if it would change the object."""
        if isinstance(policy, ValidatingPolicy):
            result = policy.validate(request, reader)
            return None if result is None else result.rule
        if isinstance(policy, ImagePolicy):
            if policy.concerns(request, reader):
                raise UndeterminedError("it verifies images, which only the image registry can answer")
            return None
        if policy.namespace or policy.spec.mutates_existing:
            return None
        mutation = policy.mutate(request, reader, self._patchers)
        if mutation is None or mutation.object is None or not diff(request.object, mutation.object):
            return None if mutation is None else mutation.rule
        return RuleResponse("", FAIL, "mutation is not applied")


def _scans(policy: Mapping[str, Any]) -> bool:
    """Return whether a ClusterPolicy or Policy scans: yes, unless `background` is false."""
    return as_map(policy.get("spec")).get("background") is not False


def _scans_in_cel(obj: Mapping[str, Any]) -> bool:
    evaluation = as_map(as_map(obj.get("spec")).get("evaluation"))
    return as_map(evaluation.get("background")).get("enabled") is not False


def background_scan(
    manifests: ManifestSet, lister: Lister, discovery: Discovery, patchers: ObjectPatchers
) -> BackgroundScan | None:
    """Return the scan of a set, or None if no policy of the set scans in the background."""
    kyverno = next((each for each in engines_of(manifests) if isinstance(each, Kyverno)), None)
    return None if kyverno is None else BackgroundScan(kyverno, lister, discovery, patchers) or None
