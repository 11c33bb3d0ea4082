"""Validation of webhook configurations.

See `k8s.io/kubernetes/pkg/apis/admissionregistration/validation` and `k8s.io/apiserver/pkg/util/webhook`.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.go.url import URLError, from_bytes, parse_url
from replay.json import JSON
from replay.kube.names import dns1035_label, dns1123_subdomain
from replay.manifests.expression import Expressions
from replay.manifests.field_error import FieldError, duplicate, invalid, not_supported, required
from replay.manifests.validate.match import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    validate_label_selector,
    validate_match_conditions,
    validate_rule,
)
from replay.manifests.validate.metadata import validate_metadata

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_URL_FORM = "; desired format: https://host[/path]"


def validate_webhook_configuration(configuration: JSON, expressions: Expressions) -> Iterator[FieldError]:
    """Yield the errors of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration."""
    yield from validate_metadata(configuration["metadata"])
    names: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        path = f"webhooks[{index}]"
        yield from _validate_webhook(webhook, path, expressions)
        versions = webhook.get("admissionReviewVersions") or []
        yield from _validate_review_versions(versions, f"{path}.admissionReviewVersions")
        if webhook["name"] in names:
            yield duplicate(f"{path}.name", webhook["name"])
        if webhook["name"]:
            names.add(webhook["name"])


def _validate_webhook(webhook: JSON, path: str, expressions: Expressions) -> Iterator[FieldError]:
    yield from _validate_name(webhook["name"], f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or []):
        yield from validate_rule(rule, f"{path}.rules[{index}]")
    yield from _validate_enum(webhook, "failurePolicy", FAILURE_POLICIES, path)
    yield from _validate_enum(webhook, "matchPolicy", MATCH_POLICIES, path)
    if webhook.get("sideEffects") is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    yield from _validate_enum(webhook, "sideEffects", _SIDE_EFFECTS, path)
    if not 1 <= webhook["timeoutSeconds"] <= 30:
        complaint = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], complaint)
    for selector in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(webhook[selector], f"{path}.{selector}")
    yield from _validate_enum(webhook, "reinvocationPolicy", REINVOCATION_POLICIES, path)
    yield from _validate_client_config(webhook["clientConfig"], f"{path}.clientConfig")
    yield from validate_match_conditions(webhook.get("matchConditions") or [], f"{path}.matchConditions", expressions)


def _validate_enum(webhook: JSON, field: str, supported: tuple[str, ...], path: str) -> Iterator[FieldError]:
    value = webhook.get(field)
    if value is not None and value not in supported:
        yield not_supported(f"{path}.{field}", value, supported)


def _validate_name(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif problems := dns1123_subdomain(name):
        yield invalid(path, name, ",".join(problems))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _validate_review_versions(versions: list[str], path: str) -> Iterator[FieldError]:
    known_versions = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        yield required(path, f"must specify one of {known_versions}")
        return
    earlier: set[str] = set()
    for index, version in enumerate(versions):
        if version in earlier:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        earlier.add(version)
        for problem in dns1035_label(version):
            yield invalid(f"{path}[{index}]", version, problem)
    if not earlier.intersection(_REVIEW_VERSIONS):
        yield invalid(path, versions, f"must include at least one of {known_versions}")


def _validate_client_config(client_config: JSON, path: str) -> Iterator[FieldError]:
    url, service = client_config.get("url"), client_config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _validate_url(url, f"{path}.url")
    else:
        yield from _validate_service(service, f"{path}.service")


def _validate_url(text: str, path: str) -> Iterator[FieldError]:
    try:
        url = parse_url(text)
    except URLError as error:
        # The server reports an invalid URL as a missing one.
        yield required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not url.host:
        yield invalid(path, from_bytes(url.host), f"host must be specified{_URL_FORM}")
    if url.user_info is not None:
        yield invalid(path, from_bytes(url.user_info), "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(path, from_bytes(url.fragment), "fragments are not permitted in the URL")
    if url.raw_query:
        yield invalid(path, from_bytes(url.raw_query), "query parameters are not permitted in the URL")


def _validate_service(service: JSON, path: str) -> Iterator[FieldError]:
    # The server passes name and namespace in the wrong order, so each is missed under the other's path.
    if not service["namespace"]:
        yield required(f"{path}.name")
    if not service["name"]:
        yield required(f"{path}.namespace")
    if not 1 <= service["port"] <= 65535:
        complaint = "port is not valid: must be between 1 and 65535, inclusive"
        yield invalid(f"{path}.port", service["port"], complaint)
    yield from _validate_service_path(service.get("path") or "", f"{path}.path")


def _validate_service_path(url_path: str, path: str) -> Iterator[FieldError]:
    if url_path in ("", "/"):
        return
    if url_path == "//":
        yield invalid(path, url_path, "segment[0] may not be empty")
        return
    if not url_path.startswith("/"):
        yield invalid(path, url_path, "must start with a '/'")
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(path, url_path, f"segment[{index}] may not be empty")
            continue
        for problem in dns1123_subdomain(segment):
            yield invalid(path, url_path, f"segment[{index}]: {problem}")
