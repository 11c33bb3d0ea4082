"""All Gatekeeper objects of a set, loaded as its controllers do. Refused objects are reported and skipped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from replay.cellib.version import KubernetesVersion
from replay.gatekeeper.alike import ResultCache
from replay.gatekeeper.constraint import GROUP, Constraint, ConstraintIndex, constraint_of, fits
from replay.gatekeeper.expansion import ExpansionSystem, ExpansionTemplate, expansion_template_of
from replay.gatekeeper.mutation.mutator import GROUP as MUTATIONS
from replay.gatekeeper.mutation.mutator import MutationSystem, mutator_of
from replay.gatekeeper.naming import MUTATION, VALIDATION
from replay.gatekeeper.rego.builtins.registry import ProviderAnswer
from replay.gatekeeper.rego.value import from_json
from replay.gatekeeper.template import ConstraintTemplate, RefusedError, template_of
from replay.json import JSON
from replay.kube.admissionregistration import (
    FailurePolicy,
    LabelSelector,
    LabelSelectorRequirement,
    ManifestSet,
    MatchPolicy,
    MutatingWebhookConfiguration,
    Rule,
    ServiceReference,
    ValidatingWebhookConfiguration,
    Webhook,
    WebhookClientConfig,
    WebhookConfiguration,
)
from replay.kube.engine_policy import group_of
from replay.manifests.check import CheckedSet
from replay.manifests.engine_object import EngineDocument
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.read.node import Node, Position, position_of

TEMPLATES, CONFIG, SYNC, EXPANSION, EXTERNAL = (
    "templates.gatekeeper.sh",
    "config.gatekeeper.sh",
    "syncset.gatekeeper.sh",
    "expansion.gatekeeper.sh",
    "externaldata.gatekeeper.sh",
)
GROUPS = frozenset({TEMPLATES, GROUP, MUTATIONS, CONFIG, SYNC, EXPANSION, EXTERNAL, "status.gatekeeper.sh"})
_PROCESSES = ("audit", "webhook", "mutation-webhook", "sync")

GroupVersionKind = tuple[str, str, str]


class Refusal(NamedTuple):
    """Object that Gatekeeper refuses, with the message."""

    kind: str
    name: str
    message: str

    def __str__(self) -> str:
        """Return `Kind/name: message`."""
        return f"{self.kind}/{self.name}: {self.message}"


class GatekeeperPolicies:
    """Templates, constraints, mutators, expansion and configuration of a set."""

    def __init__(self, objects: Iterable[JSON], *, engine: str = "", prune: bool = False) -> None:
        """Load templates first, then the other objects in order.

        `engine` is preferred if a template has code for it. `prune` drops unknown fields of constraints.
        """
        self.templates: dict[str, ConstraintTemplate] = {}
        self.constraints: dict[str, Constraint] = {}
        self.mutation = MutationSystem()
        self.expansion = ExpansionSystem()
        self.synced: set[GroupVersionKind] = set()
        self.excluded: dict[str, list[str]] = {process: [] for process in _PROCESSES}
        self.answers: dict[str, dict[str, ProviderAnswer]] = {}
        """Recorded answers of external data providers."""
        self.refused: list[Refusal] = []
        self.alike = ResultCache()
        """Earlier results of the constraints for alike reviews."""
        self._engine, self._prune = engine, prune
        own = [each for each in objects if isinstance(each, dict) and is_of_gatekeeper(each)]
        groups = {group_of(each) for each in own}
        self.mutates = MUTATIONS in groups
        """Whether the set has mutators, even refused ones. The mutating webhook then exists."""
        self.validates = bool(groups & {GROUP, TEMPLATES})
        for each in sorted(own, key=lambda value: value.get("kind") != "ConstraintTemplate"):
            try:
                self._add(each)
            except RefusedError as error:
                self.refused.append(
                    Refusal(
                        str(each.get("kind") or ""), str((each.get("metadata") or {}).get("name") or ""), str(error)
                    )
                )

    @cached_property
    def index(self) -> ConstraintIndex:
        """Constraints indexed by what they may match."""
        return ConstraintIndex(self.constraints.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing in the set decides or changes anything."""
        return not self.constraints and not self.mutation.mutators

    def _add(self, value: JSON) -> None:
        group, kind = group_of(value), value.get("kind") or ""
        spec = value.get("spec") if isinstance(value.get("spec"), dict) else {}
        if (group, kind) == (TEMPLATES, "ConstraintTemplate"):
            template = template_of(value, self._engine)
            self.templates[template.kind.lower()] = template
        elif group == GROUP:
            known = self.templates.get(str(kind).lower())
            if known is None:
                raise RefusedError(f'missing ConstraintTemplate: template "{str(kind).lower()}" not found')
            constraint = constraint_of(value, known, prune=self._prune)
            self.constraints[constraint.key] = constraint
        elif group == MUTATIONS:
            self.mutation.add(mutator_of(value))
        elif (group, kind) == (EXPANSION, "ExpansionTemplate"):
            self.expansion.add(expansion_template_of(value))
        elif (group, kind) == (CONFIG, "Config"):
            self._configure(spec)
        elif (group, kind) == (SYNC, "SyncSet"):
            self._sync(spec.get("gvks"))
        elif (group, kind) == (EXTERNAL, "ProviderResponse"):
            self._record(str((value.get("metadata") or {}).get("name")), value.get("response"))

    def _configure(self, spec: JSON) -> None:
        self._sync((spec.get("sync") or {}).get("syncOnly"))
        for entry in spec.get("match") or ():
            for process in entry.get("processes") or ():
                for each in _PROCESSES if process == "*" else [process]:
                    self.excluded.setdefault(each, []).extend(entry.get("excludedNamespaces") or ())

    def _record(self, provider: str, response: JSON) -> None:
        recorded = self.answers.setdefault(provider, {})
        for item in (response or {}).get("items") or ():
            recorded[str(item.get("key"))] = ProviderAnswer(from_json(item.get("value")), str(item.get("error") or ""))

    def _sync(self, kinds: JSON) -> None:
        self.synced |= {
            (each.get("group") or "", each.get("version") or "", each.get("kind") or "") for each in kinds or ()
        }

    @property
    def uses_inventory(self) -> bool:
        """Whether a template reads the inventory."""
        return any(each.rego is not None and each.rego.uses_inventory for each in self.templates.values())

    def excludes_synced(self, group: str, kind: str, value: Mapping[str, JSON]) -> bool:
        """Return whether the configuration excludes an object from the inventory."""
        metadata = value.get("metadata") or {}
        own = metadata.get("name" if (group, kind) == ("", "Namespace") else "namespace") or ""
        return self.excludes("sync", str(own))

    def excludes(self, process: str, name: str) -> bool:
        """Return whether the configuration excludes a namespace."""
        return any(fits(pattern, name) for pattern in self.excluded.get(process, ()))


def is_of_gatekeeper(value: JSON) -> bool:
    """Return whether an object belongs to Gatekeeper."""
    return group_of(value) in GROUPS


__all__ = ["ExpansionTemplate", "GatekeeperPolicies", "Refusal", "is_of_gatekeeper"]


# Webhooks that Gatekeeper's released manifests register (`manifest_staging/charts/gatekeeper`).

_IGNORE = LabelSelectorRequirement("admission.gatekeeper.sh/ignore", "DoesNotExist")
_OWN_NAMESPACE = LabelSelectorRequirement("kubernetes.io/metadata.name", "NotIn", ("gatekeeper-system",))
_SUBRESOURCES = (
    "pods/ephemeralcontainers",
    "pods/exec",
    "pods/log",
    "pods/eviction",
    "pods/portforward",
    "pods/proxy",
    "pods/attach",
    "pods/binding",
    "pods/resize",
    "deployments/scale",
    "replicasets/scale",
    "statefulsets/scale",
    "replicationcontrollers/scale",
    "services/proxy",
    "nodes/proxy",
    "services/status",
)


def with_gatekeeper_webhooks(manifests: ManifestSet, _version: KubernetesVersion) -> ManifestSet:
    """Return the set with Gatekeeper's default webhooks, unless it has them or has no Gatekeeper objects."""
    names = {webhook.name for webhook in manifests.webhooks}
    added = list[WebhookConfiguration]()
    groups = {str(value.get("apiVersion")).partition("/")[0] for value in manifests.engine_objects}
    if VALIDATION not in names and "constraints.gatekeeper.sh" in groups:
        default = _default(VALIDATION, "/v1/admit", ("*", *_SUBRESOURCES), 3)
        name = "gatekeeper-validating-webhook-configuration"
        added.append(ValidatingWebhookConfiguration(name, static=False, webhooks=(default,)))
    if MUTATION not in names and "mutations.gatekeeper.sh" in groups:
        default = _default(MUTATION, "/v1/mutate", ("*",), 1)
        name = "gatekeeper-mutating-webhook-configuration"
        added.append(MutatingWebhookConfiguration(name, static=False, webhooks=(default,)))
    return manifests.with_registrations(added)


def _default(name: str, path: str, resources: tuple[str, ...], timeout: int) -> Webhook:
    """Return a webhook as Gatekeeper's released manifests register it."""
    rule = Rule(operations=("CREATE", "UPDATE"), api_groups=("*",), api_versions=("*",), resources=resources)
    return Webhook(
        name=name,
        client_config=WebhookClientConfig(
            service=ServiceReference("gatekeeper-system", "gatekeeper-webhook-service", path)
        ),
        rules=(rule,),
        failure_policy=FailurePolicy.IGNORE,
        match_policy=MatchPolicy.EXACT,
        namespace_selector=LabelSelector({}, (_IGNORE, _OWN_NAMESPACE)),
        timeout_seconds=timeout,
    )


# `replay check` for Gatekeeper's objects: refusals, and objects that Gatekeeper accepts but cannot use.

_BROKEN, _UNSUPPORTED = "cel-does-not-compile", "rego-not-supported"
_REGO_LINE = re.compile(r"\btemplate:(\d+): ")
_FIELD = re.compile(r"(?:\[\]\.)?(spec(?:\.[\w-]+|\[\d+\])+)")
_SOURCES = ("spec.targets[0].rego", *(f"spec.targets[0].code[{number}].source.rego" for number in range(4)))


def with_gatekeeper(checked: CheckedSet, silenced: Iterable[str] = ()) -> CheckedSet:
    """Return a checked set with the findings about its Gatekeeper objects."""
    return checked.with_findings(_findings(checked.engine), silenced) if checked.engine else checked


def _findings(documents: Iterable[EngineDocument]) -> Iterator[Finding]:
    named = {_name(each): each for each in documents}
    policies = GatekeeperPolicies([each.value for each in named.values()], prune=True)
    for refusal in policies.refused:
        document = named[f"{refusal.kind}/{refusal.name}"]
        yield _finding(document, Severity.ERROR, SERVER, refusal.message)
    for template in policies.templates.values():
        document = named[f"ConstraintTemplate/{template.name}"]
        yield from _warnings(document, template)


def _warnings(document: EngineDocument, template: ConstraintTemplate) -> Iterator[Finding]:
    if template.unsupported:
        yield _finding(
            document, Severity.WARNING, _UNSUPPORTED, f"its requests are undetermined: {template.unsupported}"
        )
    for expression, error in template.cel.broken if template.cel is not None else ():
        yield _finding(document, Severity.WARNING, _BROKEN, f"expression {expression!r}: {error}")


def _finding(document: EngineDocument, severity: Severity, name: str, message: str) -> Finding:
    field = _FIELD.search(message)
    path = "spec.location" if "invalid location" in message else "" if field is None else field[1]
    position = _rego_position(document, message) or position_of(document.node, path)
    return Finding(
        severity, name, message, document.path, position, path, _name(document), first=severity is Severity.ERROR
    )


def _rego_position(document: EngineDocument, message: str) -> Position | None:
    """Return the position of the Rego line that a message names, or None.

    The line is exact if the Rego is a literal block of its file.
    """
    line = _REGO_LINE.search(message)
    if line is None:
        return None
    starts = [position_of(document.node, path) for path in _SOURCES if _holds(document.node, path)]
    if not starts:
        return None
    text = Path(document.path).read_text("utf-8", errors="replace").splitlines()
    is_block = text[starts[0].line - 1][starts[0].column - 1 :].startswith("|")
    return Position(starts[0].line + int(line[1]), 1) if is_block else starts[0]


def _holds(node: Node, path: str) -> bool:
    """Return whether a field exists. If it does not, its position is that of its parent."""
    return position_of(node, path) != position_of(node, path.rpartition(".")[0])


def _name(document: EngineDocument) -> str:
    metadata = document.value.get("metadata") or {}
    return f"{document.value.get('kind') or ''}/{metadata.get('name') or ''}"
