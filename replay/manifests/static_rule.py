"""Rules for static manifests in addition to those of the REST API (KEP-5793, the loaders' own checks)."""

from __future__ import annotations

from replay.go.format import quote
from replay.json import JSON

STATIC_SUFFIX = ".static.k8s.io"


def static_twin(name: str) -> str:
    """Return the name of the same object on the other side: as a static manifest, or in the API."""
    return without_suffix(name) if name.endswith(STATIC_SUFFIX) else f"{name}{STATIC_SUFFIX}"


def without_suffix(text: str) -> str:
    """Return a name, or a text with names, without the suffix of static manifests."""
    return text.replace(STATIC_SUFFIX, "") if STATIC_SUFFIX in text else text


def static_problem(kind: str, obj: JSON, path: str) -> tuple[str, str] | None:
    """Return `(message, field path)` of the first static restriction that a valid object breaks. `path` is its file."""
    name = obj["metadata"].get("name", "")
    if kind.endswith("WebhookConfiguration"):
        return _webhook_problem(name, obj.get("webhooks") or [], path)
    if kind.endswith("Binding"):
        return _binding_problem(name, obj["spec"])
    if obj["spec"].get("paramKind") is not None:
        return f"{kind} {quote(name)}: spec.paramKind is not supported for static manifests", "spec.paramKind"
    return None


def name_problem(name: str, path: str, files_by_name: dict[str, str]) -> str | None:
    """Return the problem of a name, or None. It is added to `files_by_name`, the names of the directory with their files."""
    if not name:
        return f"resource in file {quote(path)} must have a name"
    if not name.endswith(STATIC_SUFFIX):
        return f"{quote(name)} in file {quote(path)} must have a name ending with {quote(STATIC_SUFFIX)}"
    if name in files_by_name:
        return f"duplicate name {quote(name)} found in file {quote(path)} (previously seen in {quote(files_by_name[name])})"
    files_by_name[name] = path
    return None


def _binding_problem(name: str, spec: JSON) -> tuple[str, str] | None:
    policy_name = spec.get("policyName", "")
    if not policy_name:
        return f"binding {quote(name)} must reference a policy (spec.policyName)", "spec.policyName"
    if not policy_name.endswith(STATIC_SUFFIX):
        rule = f"must end with {quote(STATIC_SUFFIX)}"
        return f"binding {quote(name)}: spec.policyName {quote(policy_name)} {rule}", "spec.policyName"
    if spec.get("paramRef") is not None:
        return f"binding {quote(name)}: spec.paramRef is not supported for static manifests", "spec.paramRef"
    return None


def _webhook_problem(name: str, webhooks: list[JSON], path: str) -> tuple[str, str] | None:
    for index, webhook in enumerate(webhooks):
        where = f"webhook {quote(webhook['name'])} in {quote(name)} (file {quote(path)})"
        client_config, field = webhook["clientConfig"], f"webhooks[{index}].clientConfig"
        if client_config.get("service") is not None:
            text = "clientConfig.service is not supported for static manifests; use clientConfig.url instead"
            return f"{where}: {text}", f"{field}.service"
        if not client_config.get("url"):
            return f"{where}: clientConfig.url is required for static manifests", f"{field}.url"
    return None
