"""ABAC: the policy file of `--authorization-policy-file` (`k8s.io/kubernetes/pkg/auth/authorizer/abac`).

Each line is an object of its own, with version `v1beta1` or without a version. The first policy that matches allows the
request. No policy can deny.
"""

from __future__ import annotations

from msgspec import Struct

from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes
from replay.manifests.go_type.decode import json_type, plain
from replay.manifests.read.node import Mapping, Scalar
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

NO_MATCH = "No policy matched."
_VERSION, _KIND = "abac.authorization.kubernetes.io/v1beta1", "Policy"
_TEXTS = ("user", "group", "apiGroup", "resource", "namespace", "nonResourcePath")
_TEXTS_WITHOUT_VERSION = ("user", "group", "resource", "namespace")
_READ_ONLY = frozenset(["get", "list", "watch"])
_EVERYBODY = "system:authenticated"


class PolicyFileError(Exception):
    """A policy file that prevents the server from starting. `str()` is the server's text."""


class ABACPolicy(Struct, frozen=True):
    """A policy: what a user or a group may do. `*` stands for anything."""

    user: str = ""
    group: str = ""
    read_only: bool = False
    api_group: str = ""
    resource: str = ""
    namespace: str = ""
    non_resource_path: str = ""

    def matches(self, attributes: AuthorizationAttributes) -> bool:
        """Return whether the policy allows a request (`matches`)."""
        if not self._is_about(attributes.user.username, attributes.user.groups):
            return False
        if self.read_only and attributes.verb not in _READ_ONLY:
            return False
        if not attributes.is_resource_request:
            path = self.non_resource_path
            return path in ("*", attributes.path) or (
                # `strings.TrimRight` of the server removes every `*` at the end, and so does `rstrip`.
                path.endswith("*") and attributes.path.startswith(path.rstrip("*"))
            )
        pairs = (
            (self.namespace, attributes.namespace),
            (self.resource, attributes.resource),
            (self.api_group, attributes.api_group),
        )
        return all(own in ("*", asked) for own, asked in pairs)

    def _is_about(self, username: str, groups: tuple[str, ...]) -> bool:
        if not self.user and not self.group:
            return False
        return self.user in ("", username) and (not self.group or self.group in groups)


def read_policies(data: bytes, path: str) -> tuple[ABACPolicy, ...]:
    """Return the policies of a file. `path` is its name on the server. Raises PolicyFileError."""
    policies = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip() and not line.strip().startswith(b"#"):
            try:
                policies.append(_policy(line))
            except PolicyFileError as error:
                shown = line.rstrip(b"\r").decode("utf-8", "replace")
                text = f"error reading policy file {path}, line {number}: {shown}: {error}"
                raise PolicyFileError(text) from error
    return tuple(policies)


def _policy(line: bytes) -> ABACPolicy:
    try:
        node = read_yaml(line).node
    except YAMLSyntaxError as error:
        raise PolicyFileError(str(error)) from error
    if not isinstance(node, Mapping):
        go_type = (
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        shown = f"json: cannot unmarshal {json_type(node)} into Go value of type {go_type}"
        raise PolicyFileError(f"couldn't get version/kind; json parse error: {shown}")
    value = plain(node)
    told = value.get("apiVersion") or "", value.get("kind") or ""
    if told == (_VERSION, _KIND):
        spec = next((entry.value for entry in node.entries if entry.key == "spec"), None)
        if isinstance(spec, Mapping):
            _require_types(spec, "Policy.spec.", _TEXTS)
        elif spec is not None and not (isinstance(spec, Scalar) and spec.value is None):
            raise PolicyFileError(_mismatch(json_type(spec), "Policy.spec", "v1beta1.PolicySpec"))
        return _v1beta1_policy(value.get("spec") or {})
    if told != ("", ""):
        raise PolicyFileError(f'no kind "{told[1]}" is registered for version "{told[0]}"')
    _require_types(node, "Policy.", _TEXTS_WITHOUT_VERSION)
    return _without_version(value)


def _require_types(node: Mapping, where: str, texts: tuple[str, ...]) -> None:
    """Raise PolicyFileError for a field of the wrong type. `texts` are the names of the string fields."""
    for entry in node.entries:
        value = entry.value.value if isinstance(entry.value, Scalar) else node
        wanted = {"readonly": bool}.get(entry.key, str if entry.key in texts else object)
        if value is not None and not isinstance(value, wanted):
            go_type = "bool" if wanted is bool else "string"
            raise PolicyFileError(_mismatch(json_type(entry.value), f"{where}{entry.key}", go_type))


def _mismatch(found: str, field: str, go_type: str) -> str:
    return f"json: cannot unmarshal {found} into Go struct field {field} of type {go_type}"


def _v1beta1_policy(spec: JSON) -> ABACPolicy:
    """Return a `v1beta1` policy. The user or group `*` becomes `system:authenticated`.

    See `Convert_v1beta1_Policy_To_abac_Policy`.
    """
    texts = {name: spec.get(name) or "" for name in _TEXTS}
    is_everybody = "*" in (texts["user"], texts["group"])
    return ABACPolicy(
        user="" if is_everybody else texts["user"],
        group=_EVERYBODY if is_everybody else texts["group"],
        read_only=bool(spec.get("readonly")),
        api_group=texts["apiGroup"],
        resource=texts["resource"],
        namespace=texts["namespace"],
        non_resource_path=texts["nonResourcePath"],
    )


def _without_version(value: JSON) -> ABACPolicy:
    """Return a policy without a version, in which an empty field stands for anything.

    See `Convert_v0_Policy_To_abac_Policy`.
    """
    user, group, resource, namespace = (value.get(name) or "" for name in _TEXTS_WITHOUT_VERSION)
    is_everybody = "*" in (user, group)
    return ABACPolicy(
        user="" if is_everybody else user,
        group=_EVERYBODY if is_everybody or not (user or group) else group,
        read_only=bool(value.get("readonly")),
        api_group="*",
        resource=resource or "*",
        namespace=namespace or "*",
        non_resource_path="" if namespace or resource else "*",
    )
