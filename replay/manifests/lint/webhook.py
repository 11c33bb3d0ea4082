"""Warnings about webhooks: their addresses, and webhooks that must admit their own pods and so cannot start."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from msgspec import Struct

from replay.cellib.environment import ExpressionKind, admission_env
from replay.cellib.version import NEWEST
from replay.go.url import URLError, from_bytes, parse_url
from replay.json import JSON
from replay.manifests.lint import catalogue
from replay.manifests.lint.condition import Condition
from replay.manifests.lint.match import selects
from replay.manifests.lint.reachable import Facts
from replay.manifests.lint.reading import SchemaPath
from replay.manifests.lint.warning import LintContext, SilenceableWarning, warned
from replay.manifests.loader import LoadedObject

_PORT = re.compile(r":[0-9]*$")
_CLUSTER_HOST = re.compile(r"\.svc(\..+)?$|\.cluster\.local$")


def lint_webhooks(loaded: LoadedObject) -> Iterator[SilenceableWarning]:
    """Yield all warnings about the webhooks of a static configuration."""
    for index, webhook in enumerate(loaded.value.get("webhooks") or ()):
        client_config, path = webhook["clientConfig"], f"webhooks[{index}].clientConfig"
        host = _host(client_config.get("url") or "")
        if _is_loopback(host) and not client_config.get("caBundle"):
            message = (
                f"`{host}` is loopback and there is no caBundle: its certificate must be signed by a system authority"
            )
            yield warned(loaded, catalogue.LOOPBACK_WITHOUT_CA, message, f"{path}.url")
        if _CLUSTER_HOST.search(host):
            fails = webhook["failurePolicy"] == "Fail"
            then = "until it answers, every matching request is denied" if fails else "until then it is not asked"
            message = f"`{host}` is a Service of the cluster, which a static webhook must not need: {then}"
            yield warned(loaded, catalogue.CLUSTER_WEBHOOK, message, f"{path}.url")


def _host(url: str) -> str:
    try:
        return _PORT.sub("", from_bytes(parse_url(url).host)).strip("[]").rstrip(".").lower()
    except URLError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_HOST = re.compile(r"^https?://[^/:.]+\.([^/:.]+)\.svc(?:[.:/]|$)")
_NAME_LABEL = "kubernetes.io/metadata.name"
_CONTROLLER = "system:serviceaccount:kube-system:"


class _CriticalWrite(Struct, frozen=True):
    """A write that a webhook needs to answer through its Service, and the component that makes it."""

    group: str
    resource: str
    operations: frozenset[str]
    user: str


_CRITICAL_WRITES = (
    _CriticalWrite("", "pods", frozenset({"CREATE"}), f"{_CONTROLLER}replicaset-controller"),
    _CriticalWrite("", "pods/binding", frozenset({"CREATE"}), "system:kube-scheduler"),
    _CriticalWrite("", "serviceaccounts/token", frozenset({"CREATE"}), "system:node:node-1"),
    _CriticalWrite(
        "discovery.k8s.io",
        "endpointslices",
        frozenset({"CREATE", "UPDATE"}),
        f"{_CONTROLLER}endpointslice-controller",
    ),
)


def lint_own_namespace(loaded: LoadedObject, context: LintContext) -> Iterator[SilenceableWarning]:
    """Yield a warning for a webhook with failurePolicy Fail that matches what it needs to start."""
    for index, webhook in enumerate(loaded.value.get("webhooks") or ()):
        namespace = _namespace(webhook["clientConfig"])
        if namespace is None or webhook["failurePolicy"] != "Fail" or not _may_select(webhook, namespace, context):
            continue
        needed = [
            each.resource
            for each in _CRITICAL_WRITES
            if _matches(webhook, each) and _is_asked(webhook, namespace, each)
        ]
        if needed:
            message = (
                f"the API server calls it for {', '.join(needed)} of its own namespace `{namespace}`, and failurePolicy Fail "
                "denies them while it is down, so it cannot start again: exempt the namespace with a "
                f"namespaceSelector on `{_NAME_LABEL}`"
            )
            yield warned(loaded, catalogue.OWN_NAMESPACE, message, f"webhooks[{index}].rules")


def _namespace(client_config: JSON) -> str | None:
    """Return the namespace of the answering Service, or None if there is no Service."""
    service = client_config.get("service")
    if service:
        return str(service["namespace"])
    match = _HOST.match(client_config.get("url") or "")
    return None if match is None else match[1]


def _may_select(webhook: JSON, namespace: str, context: LintContext) -> bool:
    """Return whether the selectors certainly include the namespace.

    Selection by other labels is assumed to be deliberate.
    """
    if webhook.get("objectSelector"):
        return False
    selector = webhook.get("namespaceSelector") or {}
    named = (each for each in context.namespaces or () if (each.get("metadata") or {}).get("name") == namespace)
    known = next(named, None)
    if known is None:
        keys = {*(selector.get("matchLabels") or {}), *(e["key"] for e in selector.get("matchExpressions") or ())}
        if keys - {_NAME_LABEL}:
            return False
        known = {"metadata": {"labels": {_NAME_LABEL: namespace}}}
    return selects(selector, known)


def _matches(webhook: JSON, needed: _CriticalWrite) -> bool:
    resource, _, subresource = needed.resource.partition("/")
    entries = {needed.resource, "*/*"}
    entries |= {f"*/{subresource}", f"{resource}/*"} if subresource else {"*"}
    return any(
        rule.get("scope") != "Cluster"
        and {needed.group, "*"} & set(rule.get("apiGroups") or ())
        and entries & set(rule.get("resources") or ())
        and (needed.operations | {"*"}) & set(rule.get("operations") or ())
        for rule in webhook.get("rules") or ()
    )


def _is_asked(webhook: JSON, namespace: str, needed: _CriticalWrite) -> bool:
    """Return whether all match conditions are certainly true for the write."""
    env = admission_env(NEWEST, ExpressionKind.MATCH_CONDITION, has_params=False, variables=None)
    resource, _, subresource = needed.resource.partition("/")
    values: dict[SchemaPath, JSON] = {
        ("request", "operation"): "CREATE",
        ("request", "namespace"): namespace,
        ("request", "resource", "group"): needed.group,
        ("request", "resource", "resource"): resource,
        ("request", "userInfo", "username"): needed.user,
        ("object", "metadata", "namespace"): namespace,
    }
    if subresource:
        values["request", "subResource"] = subresource
    facts = Facts(values, {**dict.fromkeys(values, True), ("request", "subResource"): bool(subresource)})
    return all(
        Condition(env, condition["expression"]).value(facts) is True
        for condition in webhook.get("matchConditions") or ()
    )
