"""Objects of a policy engine in a set: Gatekeeper's, which its webhooks decide with.

They stand in `gatekeeper/`, in `api/`, or among the other manifests of a set that is one directory or file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import (
    FailurePolicy,
    LabelSelector,
    LabelSelectorRequirement,
    ManifestSet,
    MatchPolicy,
    Origin,
    Rule,
    ServiceReference,
    Webhook,
    WebhookClientConfig,
    WebhookConfiguration,
)
from replay.kube.engine_policy import MUTATION, VALIDATION
from replay.manifests.go_type.decode import plain
from replay.manifests.read.documents import (
    DirectoryDocuments,
    ManifestDocument,
    Unreadable,
    read_directory,
    read_file,
    split_documents,
)
from replay.manifests.read.node import Node
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

ENGINE_DIRECTORY = "gatekeeper"
_GROUP = re.compile(r"(templates|constraints|config|syncset|expansion|mutations|externaldata)\.gatekeeper\.sh/")
_API_VERSION = re.compile(
    rb"""^\s*(?:-\s+|\{\s*|.*[,{]\s*)?["']?apiVersion["']?\s*:\s*["']?([\w.-]*/?\w+)""", re.MULTILINE
)
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


def is_engine_object(value: JSON) -> bool:
    """Whether an object is of a policy engine."""
    return isinstance(value, dict) and _GROUP.match(str(value.get("apiVersion"))) is not None


def is_engine_document(document: ManifestDocument) -> bool:
    """Whether a document is an object of a policy engine, as its first `apiVersion` says."""
    found = _API_VERSION.search(document.data)
    return found is not None and _GROUP.match(found[1].decode("utf-8", "replace")) is not None


def without_engine_objects(directory: DirectoryDocuments) -> DirectoryDocuments:
    """What was read of a directory, without the objects of policy engines."""
    return replace(directory, documents=tuple(each for each in directory.documents if not is_engine_document(each)))


class EngineDocument(NamedTuple):
    """An object of a policy engine, the file that holds it, and its nodes."""

    value: JSON
    path: str
    node: Node
    document: int = 1

    @property
    def name(self) -> tuple[str, str]:
        """Its kind and name, by which the objects of a set are told apart."""
        return str(self.value.get("kind")), str((self.value.get("metadata") or {}).get("name"))

    @property
    def origin(self) -> Origin:
        """Where it was read."""
        return Origin(self.path, self.node.position.line, self.document)


def engine_documents(path: Path) -> tuple[EngineDocument, ...]:
    """The objects of policy engines in a file, or anywhere below a directory; raises ManifestError."""
    if path.is_dir():
        files = [
            file for file in sorted(path.rglob("*")) if file.suffix in (".yaml", ".yml", ".json") and file.is_file()
        ]
        return tuple(value for file in files for value in engine_documents(file))
    try:
        documents = list(split_documents(str(path), read_file(path)))
    except Unreadable as error:
        raise ManifestError(error.reason, path=error.path, line=error.line) from None
    found: list[EngineDocument] = []
    for document in documents:
        if not is_engine_document(document):
            continue
        try:
            node = read_yaml(document.data, document.line).node
        except YAMLSyntaxError as error:
            place = error.position
            raise ManifestError(str(error), path=str(path), line=place.line, column=place.column) from None
        value = plain(node)
        values = value.get("items") or [] if value.get("kind") == "List" else [value]
        found += [EngineDocument(each, str(path), node, document.number) for each in values]
    return tuple(found)


def holds_engine_objects_alone(path: Path) -> bool:
    """Whether a file, or every document directly in a directory, is an object of a policy engine."""
    try:
        documents = (
            read_directory(path).documents if path.is_dir() else tuple(split_documents(str(path), read_file(path)))
        )
    except Unreadable:
        return False
    return bool(documents) and all(map(is_engine_document, documents))


def differing_webhooks(one: Iterable[JSON], other: Iterable[JSON]) -> frozenset[str]:
    """The webhooks that decide otherwise with other objects of their engine."""
    ours, theirs = list(one), list(other)
    differing = [value for value in ours if value not in theirs] + [value for value in theirs if value not in ours]
    groups = {str(value.get("apiVersion")).partition("/")[0] for value in differing}
    mutates = bool(groups & {"mutations.gatekeeper.sh", "config.gatekeeper.sh"})
    return frozenset(({MUTATION} if mutates else set()) | ({VALIDATION} if groups else set()))


def with_engine(manifests: ManifestSet, objects: Iterable[JSON]) -> ManifestSet:
    """A set with objects of Gatekeeper, and with the webhooks of its released manifests where it has no own ones."""
    own = tuple(objects)
    if not own:
        return manifests
    configurations = (*manifests.validating_webhooks, *manifests.mutating_webhooks)
    names = {webhook.name for configuration in configurations for webhook in configuration.webhooks}
    validating, mutating = manifests.validating_webhooks, manifests.mutating_webhooks
    groups = {str(value.get("apiVersion")).partition("/")[0] for value in own}
    if VALIDATION not in names and "constraints.gatekeeper.sh" in groups:
        default = _default(VALIDATION, "/v1/admit", ("*", *_SUBRESOURCES), 3)
        validating = (
            *validating,
            WebhookConfiguration("gatekeeper-validating-webhook-configuration", static=False, webhooks=(default,)),
        )
    if MUTATION not in names and "mutations.gatekeeper.sh" in groups:
        default = _default(MUTATION, "/v1/mutate", ("*",), 1)
        mutating = (
            *mutating,
            WebhookConfiguration("gatekeeper-mutating-webhook-configuration", static=False, webhooks=(default,)),
        )
    return replace(manifests, engine_objects=own, validating_webhooks=validating, mutating_webhooks=mutating)


def _default(name: str, path: str, resources: tuple[str, ...], timeout: int) -> Webhook:
    """A webhook as Gatekeeper's released manifests register it."""
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
