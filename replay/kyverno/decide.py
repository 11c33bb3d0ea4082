"""`replay plugin kyverno`: decisions of Kyverno's policies for AdmissionRequests, against a fixed cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.errors import ManifestError, reason_of
from replay.json import JSON
from replay.kube.admission_request import PhaseRequests
from replay.kube.attributes import Missing
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.kyverno.cel.evaluation import CELResult
from replay.kyverno.cel.generating import Generation
from replay.kyverno.cel.library.context import OfflineReader
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.spec import GROUP
from replay.kyverno.cel.webhook import CELAnswer, CELPolicies, CELWebhook, decided
from replay.kyverno.cluster import ListedCluster, requester_of
from replay.kyverno.looked_up import RuleTexts
from replay.kyverno.policy_schema import is_known_kind, schema_refusal, without_nulls
from replay.kyverno.rules.engine import Engine
from replay.kyverno.rules.exception import PolicyExceptions
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import GoPanicError, UndeterminedError
from replay.kyverno.rules.webhook import RuleAnswer, RulePolicy, RuleWebhook, shown_rules
from replay.kyverno.triggered import work_of_mutating, work_of_rules
from replay.manifests.go_type.decode import plain
from replay.manifests.read.documents import Unreadable, split_documents
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

_CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def decide(
    config: Path, cases: Iterator[PhaseRequests], cluster: Sequence[dict[str, JSON]]
) -> Iterator[dict[str, JSON]]:
    """Decide cases with the policies of a file, and yield a result line per case.

    A first line `load` names the refused objects. Raises ManifestError if the file cannot be read.
    """
    decider = _Decider(_read(config), cluster)
    if decider.refused:
        yield {"load": list(decider.refused)}
    for case in cases:
        yield decider.line(case)


def _is_of_rules(obj: Mapping[str, Any], *kinds: str) -> bool:
    return str(obj.get("apiVersion") or "").partition("/")[0] != GROUP and obj.get("kind") in kinds


def _read(config: Path) -> list[dict[str, Any]]:
    path = str(config)
    try:
        documents = list(split_documents(path, config.read_bytes()))
        objects = [plain(read_yaml(document.data).node) for document in documents]
    except OSError as error:
        raise ManifestError(f"cannot be read: {reason_of(error)}", path=path) from error
    except (Unreadable, YAMLSyntaxError) as error:
        raise ManifestError(f"cannot be read: {' '.join(str(error).split())}", path=path) from error
    objects = [obj for obj in objects if obj is not None]
    for obj in objects:
        if not isinstance(obj, dict) or not isinstance(as_map(obj.get("metadata")).get("name"), str):
            raise ManifestError("has a document that is not an object with `metadata.name`", path=path)
    return objects


class _Decider:
    """Policies of one file, applied to one cluster."""

    def __init__(self, objects: Sequence[dict[str, Any]], cluster: Sequence[dict[str, JSON]]) -> None:
        crds = [obj for obj in cluster if (obj.get("apiVersion"), obj.get("kind")) == _CRD]
        self._discovery: Discovery = builtin_discovery().with_crds(crds)
        self._lister = ObjectLister(cluster)
        entries = [obj for obj in (*cluster, *objects) if obj.get("kind") == "GlobalContextEntry"]
        self._images = ImageDefaults()
        self._library = kyverno_library(_clock, self._images)
        self._cluster = ListedCluster(self._lister, self._discovery, entries, self._library)
        objects = [without_nulls(obj) if is_known_kind(obj) else obj for obj in objects]
        refusals = [schema_refusal(obj) if is_known_kind(obj) else None for obj in objects]
        objects = [obj for obj, refusal in zip(objects, refusals, strict=True) if refusal is None]
        exceptions = [obj for obj in objects if _is_of_rules(obj, "PolicyException")]
        policies = [obj for obj in objects if _is_of_rules(obj, "ClusterPolicy", "Policy")]
        engine = Engine(self._cluster, PolicyExceptions(exceptions))
        self._webhook = RuleWebhook(policies, self._discovery, engine, self._cluster.namespace) if policies else None
        self._texts = RuleTexts(exceptions)
        self._cel = CELPolicies(objects, is_offline=True)
        self.refused = [
            *(f"failed to validate resource ({text})" for text in refusals if text is not None),
            *self._cel.refused,
        ]
        self._reader = OfflineReader(self._lister, self._discovery, self._cluster.global_entry)
        self._cel_webhook = CELWebhook(self._cel, self._reader, ObjectPatchers(Schemas(crds)))

    def line(self, case: PhaseRequests) -> dict[str, JSON]:
        """Return the result line of a case."""
        line: dict[str, JSON] = {"id": case.id}
        if case.synthetic:
            line["synthetic"] = True
        try:
            if self._webhook is not None:
                line |= self._results_of_rules(self._webhook, case)
            by_cel = self._results_of_cel(case)
            generate = [*line.get("generate", ()), *by_cel.get("generate", ())]
            line |= by_cel | ({"generate": generate} if generate else {})
        except UndeterminedError as error:
            return {"id": case.id, "undetermined": [str(error)]}
        except GoPanicError as error:
            return {"id": case.id, "undetermined": [f"Kyverno's engine panics: {error}"]}
        except RecursionError:
            return {"id": case.id, "undetermined": ["a policy or object is nested too deep"]}
        return line

    def _results_of_rules(self, webhook: RuleWebhook, case: PhaseRequests) -> dict[str, JSON]:
        phases: dict[str, JSON] = {}
        if case.mutating is not None:
            asked = self._policies_for(webhook, case.mutating, "mutate", "verifyImages")
            answer = webhook.mutate(self._known(case.mutating, asked)) if asked else RuleAnswer(allowed=True)
            phases["mutate"] = _phase(answer)
        if case.validating is not None:
            asked = self._policies_for(webhook, case.validating, "validate", "verifyImages")
            answer = webhook.validate(self._known(case.validating, asked)) if asked else RuleAnswer(allowed=True)
            for _, reason in answer.unknown:
                raise UndeterminedError(reason)
            phases["validate"] = _phase(answer, with_results=True)
            if triggered := list(self._triggered(webhook, case.validating)):
                phases["generate"] = triggered
        return phases

    def _triggered(self, webhook: RuleWebhook, request: Mapping[str, Any]) -> Iterator[dict[str, JSON]]:
        """Yield the rules that make or change other objects after a request, with what they do. They decide nothing."""
        if request.get("dryRun"):
            return
        asked = self._policies_for(webhook, request, "generate", "mutate")
        for each in work_of_rules(webhook.engine, asked, lambda policies: self._known(request, policies)):
            texts = {"rule": each.rule, "effect": each.work, "error": each.error, "undetermined": each.unknown}
            yield {"policy": each.policy.name} | {name: text for name, text in texts.items() if text}

    def _results_of_cel(self, case: PhaseRequests) -> dict[str, JSON]:
        """Return the answers of cluster-wide CEL policies.

        `namespaced` holds the answer of the policies in the namespace.
        """
        phases: dict[str, JSON] = {}
        webhook = self._cel_webhook
        if case.mutating is not None and (self._cel.mutating or self._cel.images):
            request = self._cel_request(case.mutating)
            phases["mutateCEL"] = _cel_phase(webhook.mutate(request))
            if any(each.namespace for each in self._cel.mutating) and request.namespace:
                phases["mutateCEL"]["namespaced"] = _cel_phase(webhook.mutate(request, request.namespace))
        if case.validating is not None and (self._cel.validating or self._cel.images):
            request = self._cel_request(case.validating)
            results = webhook.results(request)
            phase = phases["validateCEL"] = _cel_phase(decided(results))
            if any(each.namespace for each in self._cel.validating):
                own = [each for each in results if each.namespace]
                phase["namespaced"] = _cel_phase(decided(own, request.namespace))
            if results:
                phase["results"] = list(map(_cel_result, results))
        if triggered := list(self._triggered_in_cel(case)):
            phases["generate"] = triggered
        return phases

    def _triggered_in_cel(self, case: PhaseRequests) -> Iterator[dict[str, JSON]]:
        """Yield the CEL policies that make or change other objects after a request, with what they do."""
        if case.validating is not None:
            yield from map(_generation, self._cel_webhook.generated(self._cel_request(case.validating)))
        if case.mutating is not None and not case.mutating.get("dryRun"):
            request = self._cel_request(case.mutating)
            for each in work_of_mutating(self._cel.mutating, request, self._reader):
                key, text = ("undetermined", each.unknown) if each.unknown else ("effect", each.work)
                yield {"policy": each.policy.name, key: text}

    def _cel_request(self, request: Mapping[str, Any]) -> CELRequest:
        name = str(request.get("namespace") or "")
        return CELRequest(request, self._cluster.namespace(name) if name else None)

    def _policies_for(self, webhook: RuleWebhook, request: Mapping[str, Any], *kinds: str) -> tuple[RulePolicy, ...]:
        """Return the policies with rules of some kinds for a request, whatever its objects are."""
        bare = {**request, "object": None, "oldObject": None, "options": None}
        return webhook.is_for(self._request(bare), kinds)

    def _known(self, request: Mapping[str, Any], policies: Sequence[RulePolicy]) -> Request:
        """Return a request without its unknown parts. Raises UndeterminedError if one of the policies may read them."""
        parts = self._texts.of(policies).known_parts(request)
        if isinstance(parts, Missing):
            raise UndeterminedError(f"{parts.path}: {parts.reason}")
        return self._request({**request, **parts})

    def _request(self, request: Mapping[str, Any]) -> Request:
        resource, kind = as_map(request.get("resource")), as_map(request.get("kind"))
        gvr = GroupVersionResource(
            resource.get("group") or "", resource.get("version") or "", resource.get("resource") or ""
        )
        own = GroupVersionKind(kind.get("group") or "", kind.get("version") or "", kind.get("kind") or "")
        # For a subresource this is the kind of its parent.
        top = self._discovery.kind(gvr) or own
        made = Request(request, top, requester_of(request, self._lister), self._library, self._images)
        made.namespace_of = self._cluster.namespace
        return made


def _clock() -> Any:
    raise UndeterminedError("the time of the request is not known")


def _cel_phase(answer: CELAnswer) -> dict[str, JSON]:
    line: dict[str, JSON] = {"allowed": answer.allowed}
    parts = {"message": answer.message, "patch": list(answer.patch), "warnings": list(answer.warnings)}
    return line | {name: part for name, part in parts.items() if part}


def _generation(made: Generation) -> dict[str, JSON]:
    objects = [
        {
            "apiVersion": obj.get("apiVersion"),
            "kind": obj.get("kind"),
            "namespace": as_map(obj.get("metadata")).get("namespace"),
            "name": as_map(obj.get("metadata")).get("name"),
        }
        for obj in made.objects
    ]
    line: dict[str, JSON] = {"policy": made.policy, "objects": objects}
    return line | {name: text for name, text in (("error", made.error), ("undetermined", made.unknown)) if text}


def _cel_result(result: CELResult) -> dict[str, JSON]:
    line: dict[str, JSON] = {
        "policy": result.policy,
        "status": result.rule.status,
        "message": result.rule.message,
        "actions": sorted(result.actions),
    }
    return {**line, "properties": dict(result.properties)} if result.properties else line


def _phase(answer: RuleAnswer, *, with_results: bool = False) -> dict[str, JSON]:
    line: dict[str, JSON] = {"allowed": answer.allowed}
    if answer.message:
        line["message"] = answer.message
    if answer.patch:
        line["patch"] = list(answer.patch)
    if answer.warnings:
        line["warnings"] = list(answer.warnings)
    if with_results:
        line["results"] = [
            {"policy": policy, "rule": rule.name, "status": rule.status, "message": rule.message}
            for response in answer.responses
            for policy, rule in shown_rules(response)
        ]
    return line
