"""Policies and exceptions of `policies.kyverno.io` (github.com/kyverno/api, `policies.kyverno.io/v1alpha1`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct

from replay.cel.value.timestamp import Timestamp, parse_timestamp
from replay.json import JSON
from replay.kube.admissionregistration import FailurePolicy, MatchCondition, MatchResources, Variable
from replay.kube.attributes import Missing
from replay.kyverno.cel.autogen import generated_specs
from replay.kyverno.cel.compiler import PolicyError
from replay.kyverno.naming import key_of
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.response import UndeterminedError
from replay.manifests.manifest_set import match_resources

GROUP: Final = "policies.kyverno.io"
VALIDATING: Final = ("ValidatingPolicy", "NamespacedValidatingPolicy")
MUTATING: Final = ("MutatingPolicy", "NamespacedMutatingPolicy")
IMAGES: Final = ("ImageValidatingPolicy", "NamespacedImageValidatingPolicy")
GENERATING: Final = ("GeneratingPolicy", "NamespacedGeneratingPolicy")


class _Named(Struct, frozen=True):
    name: str
    expression: str


class _Selector(Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[_Requirement, ...] | None = None


class _Requirement(Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class _Rule(Struct, frozen=True, rename="camel"):
    operations: tuple[str, ...] | None = None
    api_groups: tuple[str, ...] | None = None
    api_versions: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    scope: str | None = None
    resource_names: tuple[str, ...] | None = None


class _Constraints(Struct, frozen=True, rename="camel"):
    namespace_selector: _Selector | None = None
    object_selector: _Selector | None = None
    resource_rules: tuple[_Rule, ...] | None = None
    exclude_resource_rules: tuple[_Rule, ...] | None = None
    match_policy: Literal["Exact", "Equivalent"] | None = None


class _Targets(_Constraints, frozen=True, rename="camel"):
    expression: str | None = None


class _Switch(Struct, frozen=True):
    enabled: bool | None = None


class _Controllers(Struct, frozen=True):
    controllers: tuple[str, ...] | None = None


class _Autogen(Struct, frozen=True, rename="camel"):
    pod_controllers: _Controllers | None = None
    validating_admission_policy: _Switch | None = None
    mutating_admission_policy: _Switch | None = None


class _Evaluation(Struct, frozen=True, rename="camel"):
    mode: str | None = None
    admission: _Switch | None = None
    background: _Switch | None = None
    mutate_existing: _Switch | None = None
    use_server_side_apply: bool | None = None
    skip_background_requests: bool | None = None


class Validation(Struct, frozen=True, rename="camel"):
    """Item of `spec.validations`."""

    expression: str
    message: str | None = None
    message_expression: str | None = None


class AuditAnnotation(Struct, frozen=True, rename="camel"):
    """Item of `spec.auditAnnotations`."""

    key: str
    value_expression: str


class Patch(Struct, frozen=True):
    """Expression of a mutation."""

    expression: str | None = None


class Mutation(Struct, frozen=True, rename="camel"):
    """Item of `spec.mutations`."""

    patch_type: str
    apply_configuration: Patch | None = None
    json_patch: Patch | None = msgspec.field(name="jsonPatch", default=None)


class Spec(Struct, frozen=True, rename="camel"):
    """Fields that all policies share."""

    match_constraints: _Constraints | None = None
    match_conditions: tuple[_Named, ...] | None = None
    variables: tuple[_Named, ...] | None = None
    audit_annotations: tuple[AuditAnnotation, ...] | None = None
    failure_policy: Literal["Fail", "Ignore"] | None = None
    autogen: _Autogen | None = None
    evaluation: _Evaluation | None = None

    @property
    def conditions(self) -> tuple[MatchCondition, ...]:
        """`matchConditions`."""
        return _conditions(self.match_conditions)

    @property
    def named_variables(self) -> tuple[Variable, ...]:
        """`variables`."""
        return tuple(Variable(each.name, each.expression) for each in self.variables or ())

    @property
    def on_failure(self) -> FailurePolicy:
        """`failurePolicy`, Fail by default."""
        return FailurePolicy(self.failure_policy or FailurePolicy.FAIL)

    @property
    def controllers(self) -> tuple[str, ...] | None:
        """Pod controllers for which policies are generated, None for all that Kyverno knows."""
        pods = self.autogen.pod_controllers if self.autogen is not None else None
        return pods.controllers if pods is not None else None

    @property
    def is_admitted(self) -> bool:
        """Whether the policy takes part in admission."""
        switch = self.evaluation.admission if self.evaluation is not None else None
        return switch is None or switch.enabled is not False

    @property
    def is_for_json(self) -> bool:
        """Whether the policy evaluates JSON documents instead of Kubernetes objects."""
        return self.evaluation is not None and self.evaluation.mode == "JSON"


class ValidatingSpec(Spec, frozen=True, rename="camel"):
    """Spec of a validating policy."""

    validations: tuple[Validation, ...] | None = None
    validation_actions: tuple[Literal["Deny", "Audit", "Warn"], ...] | None = None

    @property
    def actions(self) -> tuple[str, ...]:
        """`validationActions`, Deny by default."""
        return self.validation_actions or ("Deny",)


class MutatingSpec(Spec, frozen=True, rename="camel"):
    """Spec of a mutating policy."""

    mutations: tuple[Mutation, ...] | None = None
    target_match_constraints: _Targets | None = None
    target_match_conditions: tuple[_Named, ...] | None = None

    @property
    def mutates_existing(self) -> bool:
        """Whether the policy mutates its own target objects instead of the object of the request."""
        targets = self.target_match_constraints
        return targets is not None and bool(targets.resource_rules or targets.expression)

    @property
    def target_names(self) -> str:
        """The resources of its own target objects, in words."""
        targets = self.target_match_constraints
        names = [name for rule in (targets and targets.resource_rules) or () for name in rule.resources or ()]
        return ", ".join(dict.fromkeys(names)) or "objects"

    @property
    def is_applied_as_by_clients(self) -> bool:
        """Whether atomic lists and maps may be replaced, as in a server-side apply of a client."""
        return self.evaluation is not None and self.evaluation.use_server_side_apply is True

    @property
    def generates_policy(self) -> bool:
        """Whether Kyverno generates a native policy from it."""
        switch = self.autogen.mutating_admission_policy if self.autogen is not None else None
        return switch is not None and switch.enabled is True


class _Template(Struct, frozen=True):
    value: str


class GenerationSpec(Struct, frozen=True):
    """Item of `spec.generate`: an expression or a template."""

    expression: str = ""
    template: _Template | None = None


class GeneratingSpec(Spec, frozen=True, rename="camel"):
    """Spec of a generating policy."""

    generate: tuple[GenerationSpec, ...] = ()


class _Reference(Struct, frozen=True):
    name: str
    kind: str


class ExceptionSpec(Struct, frozen=True, rename="camel"):
    """Spec of a PolicyException."""

    policy_refs: tuple[_Reference, ...]
    match_conditions: tuple[_Named, ...] | None = None
    images: tuple[str, ...] | None = None
    allowed_values: tuple[str, ...] | None = None
    report_result: Literal["skip", "pass"] | None = None
    expires_at: str | None = None

    @property
    def conditions(self) -> tuple[MatchCondition, ...]:
        """`matchConditions`."""
        return _conditions(self.match_conditions)

    @property
    def is_complete(self) -> bool:
        """Whether it exempts a matching request completely, and not only some images or values."""
        return not self.images and not self.allowed_values


class PolicyException(Struct, frozen=True):
    """PolicyException. `priority` comes from its label."""

    key: str
    spec: ExceptionSpec
    priority: int = 0

    def is_from(self, kind: str, name: str) -> int:
        """Return how often it names a policy."""
        # A count, because Kyverno adds the exception once for each reference.
        return sum(each.kind == kind and each.name == name for each in self.spec.policy_refs)

    def has_expired(self, now: Timestamp | Missing) -> bool:
        """Return whether it has expired. Raises UndeterminedError if the current time is needed but unknown."""
        if self.spec.expires_at is None:
            return False
        expiry = parse_timestamp(self.spec.expires_at)
        if expiry is None:
            raise UndeterminedError(f"exception {self.key}: `{self.spec.expires_at}` is not a time")
        if isinstance(now, Missing):
            raise UndeterminedError(f"exception {self.key} expires at {self.spec.expires_at}, and {now.reason}")
        return (now.seconds, now.nanos) > (expiry.seconds, expiry.nanos)


def _conditions(named: Sequence[_Named] | None) -> tuple[MatchCondition, ...]:
    return tuple(MatchCondition(each.name, each.expression) for each in named or ())


_S = TypeVar("_S")


def read_spec(obj: Mapping[str, Any], type_: type[_S]) -> _S:
    """Return the spec of an object. Raises PolicyError with the path of a field of the wrong type."""
    try:
        return msgspec.convert(obj.get("spec"), type_)
    except msgspec.ValidationError as error:
        # Null is accepted only because Go reads it as an absent field, so the text does not offer it.
        text, _, place = str(error).replace(" | null`", "`").partition(" - at ")
        path = "spec" + place.strip("`").removeprefix("$")
        raise PolicyError([f"{path}: Invalid value: {text[0].lower()}{text[1:]}"]) from None


def constraints_of(spec: Mapping[str, Any]) -> MatchResources | None:
    """Return the match constraints of a spec, or None."""
    return match_resources(spec.get("matchConstraints"))


_PRIORITY = "polex.kyverno.io/priority"


def read_exception(obj: Mapping[str, Any]) -> PolicyException:
    """Return a PolicyException. Raises PolicyError."""
    priority = str(as_map(obj["metadata"].get("labels")).get(_PRIORITY, ""))
    return PolicyException(key_of(obj), read_spec(obj, ExceptionSpec), int(priority) if priority.isdecimal() else 0)


def is_cel_object(obj: Mapping[str, JSON], *kinds: str) -> bool:
    """Return whether an object has one of these kinds of the group."""
    return str(obj.get("apiVersion") or "").partition("/")[0] == GROUP and obj.get("kind") in kinds


# Native policies that Kyverno generates from its own. The API server then decides by them instead of Kyverno.
# The rules are those of `pkg/controllers/admissionpolicygenerator` and `pkg/admissionpolicy/builder.go`.

_API = "admissionregistration.k8s.io/v1"


def native_policy(policy: JSON, exceptions: Iterable[JSON]) -> tuple[JSON, JSON] | None:
    """Return the native policy and binding generated from a policy, or None if Kyverno itself decides.

    `exceptions` are all exceptions of the set.
    """
    own = [as_map(each.get("spec")) for each in exceptions if _names(each, policy)]
    try:
        if policy.get("kind") == "ValidatingPolicy":
            return _validating(policy, own)
        if policy.get("kind") == "MutatingPolicy":
            return _mutating(policy, own)
    except PolicyError:
        pass  # it is refused as what it is
    return None


def _names(exception: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Return whether an exception names a policy. As in Kyverno, the kind does not matter here."""
    references = as_map(exception.get("spec")).get("policyRefs") or ()
    return any(as_map(each).get("name") == policy["metadata"]["name"] for each in references)


def _is_for_controllers(policy: JSON, spec: Spec, *, mutates: bool) -> bool:
    return next(generated_specs(policy["spec"], spec.controllers, mutates=mutates), None) is not None


def _validating(policy: JSON, exceptions: list[dict[str, Any]]) -> tuple[JSON, JSON] | None:
    read, spec = read_spec(policy, ValidatingSpec), policy["spec"]
    switch = read.autogen.validating_admission_policy if read.autogen is not None else None
    if switch is None or not switch.enabled or _is_for_controllers(policy, read, mutates=False):
        return None
    variables = [*(spec.get("variables") or ())]
    for each in exceptions:
        for name, key in (("allowedImages", "images"), ("allowedValues", "allowedValues")):
            if each.get(key):
                values = ", ".join(f"'{value}'" for value in each[key])
                variables.append({"name": name, "expression": f"[{values}]"})
    validations = [
        {**each, "expression": each["expression"].replace("exceptions.allowed", "variables.allowed")}
        for each in spec.get("validations") or ()
    ]
    made = {
        "matchConstraints": spec.get("matchConstraints"),
        # The exceptions come last here, but first in mutating policies, as in Kyverno.
        "matchConditions": [*(spec.get("matchConditions") or ()), *_negated(exceptions)],
        "variables": variables,
        "validations": validations,
        "auditAnnotations": spec.get("auditAnnotations") or [],
    }
    name = f"vpol-{policy['metadata']['name']}"
    binding = {"policyName": name, "validationActions": list(read.actions)}
    return _object("ValidatingAdmissionPolicy", name, made), _object(
        "ValidatingAdmissionPolicyBinding", f"{name}-binding", binding
    )


def _mutating(policy: JSON, exceptions: list[dict[str, Any]]) -> tuple[JSON, JSON] | None:
    read, spec = read_spec(policy, MutatingSpec), policy["spec"]
    if not read.generates_policy or read.is_applied_as_by_clients or _is_for_controllers(policy, read, mutates=True):
        return None
    rules = as_map(spec.get("matchConstraints")).get("resourceRules") or []
    made = {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [*_negated(exceptions), *(spec.get("matchConditions") or ())],
        "variables": spec.get("variables") or [],
        "mutations": spec.get("mutations") or [],
        "reinvocationPolicy": spec.get("reinvocationPolicy") or "Never",
    }
    if spec.get("failurePolicy"):
        made["failurePolicy"] = spec["failurePolicy"]
    name = f"mpol-{policy['metadata']['name']}"
    return _object("MutatingAdmissionPolicy", name, made), _object(
        "MutatingAdmissionPolicyBinding", f"{name}-binding", {"policyName": name}
    )


def _negated(exceptions: Iterable[Mapping[str, Any]]) -> Iterator[JSON]:
    """Yield the negated match conditions of exceptions: if one is true, the policy does not match."""
    for each in exceptions:
        for condition in each.get("matchConditions") or ():
            yield {"name": condition["name"], "expression": f"!({condition['expression']})"}


def _object(kind: str, name: str, spec: JSON) -> JSON:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}
