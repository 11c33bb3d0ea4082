"""The kinds of `admissionregistration.k8s.io/v1`, after defaulting.

Field names are those of the API in snake_case. Values are frozen: a loaded set never changes. Lists keep the order of
the manifest. `static` tells a manifest from an object of the API: static hooks run before API-based ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from replay.kube.gvk import GroupResource

GROUP: Final = "admissionregistration.k8s.io"
FIELDS: Final = {
    "ValidatingAdmissionPolicy": "validating_policies",
    "ValidatingAdmissionPolicyBinding": "validating_bindings",
    "MutatingAdmissionPolicy": "mutating_policies",
    "MutatingAdmissionPolicyBinding": "mutating_bindings",
    "ValidatingWebhookConfiguration": "validating_webhooks",
    "MutatingWebhookConfiguration": "mutating_webhooks",
}
"""The kinds of the group that decide about requests, with their fields of a `ManifestSet`."""
KINDS: Final = tuple(sorted(FIELDS))
RESOURCES: Final = tuple(
    f"{kind.lower().removesuffix('y')}ies" if kind.endswith("y") else f"{kind.lower()}s" for kind in KINDS
)
"""The resources of `KINDS`, in the same order."""
VALIDATING_POLICY: Final = "ValidatingAdmissionPolicy"
MUTATING_POLICY: Final = "MutatingAdmissionPolicy"
POLICY_KINDS: Final = (VALIDATING_POLICY, MUTATING_POLICY)
CONFIGURATION_KINDS: Final = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
VIRTUAL_RESOURCES: Final = frozenset(
    {
        GroupResource("authentication.k8s.io", "selfsubjectreviews"),
        GroupResource("authentication.k8s.io", "tokenreviews"),
        GroupResource("authorization.k8s.io", "localsubjectaccessreviews"),
        GroupResource("authorization.k8s.io", "selfsubjectaccessreviews"),
        GroupResource("authorization.k8s.io", "selfsubjectrulesreviews"),
        GroupResource("authorization.k8s.io", "subjectaccessreviews"),
    }
)
"""The resources that no policy is evaluated for (`pkg/kubeapiserver/admission/exclusion`).

They are not persisted, and a policy that denied them would lock everybody out.
"""


class Origin(NamedTuple):
    """Source of an object: the file, the line where it begins, and the number of its document, from 1."""

    file: str
    line: int
    document: int


class FailurePolicy(StrEnum):
    """Effect of an error."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class MatchPolicy(StrEnum):
    """The choice whether a rule also matches the same resource through another group or version."""

    EXACT = "Exact"
    EQUIVALENT = "Equivalent"


class LabelSelectorRequirement(Struct, frozen=True):
    """One item of `matchExpressions`. `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """`metav1.LabelSelector`; an empty one matches everything."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Rule(Struct, frozen=True):
    """`RuleWithOperations`, and with `resource_names` a `NamedRuleWithOperations`.

    `scope` is *, Namespaced or Cluster.
    """

    operations: tuple[str, ...]
    api_groups: tuple[str, ...]
    api_versions: tuple[str, ...]
    resources: tuple[str, ...]
    scope: str = "*"
    resource_names: tuple[str, ...] = ()


class MatchResources(Struct, frozen=True):
    """`matchConstraints` of a policy, `matchResources` of a binding."""

    namespace_selector: LabelSelector = LabelSelector()
    object_selector: LabelSelector = LabelSelector()
    resource_rules: tuple[Rule, ...] = ()
    exclude_resource_rules: tuple[Rule, ...] = ()
    match_policy: MatchPolicy = MatchPolicy.EQUIVALENT


class MatchCondition(Struct, frozen=True):
    """Named expression that must be true for the policy or webhook to run."""

    name: str
    expression: str


class Variable(Struct, frozen=True):
    """`spec.variables`: a named expression, evaluated lazily."""

    name: str
    expression: str


class ParamKind(Struct, frozen=True):
    """The kind that parameterises a policy."""

    api_version: str
    kind: str


class ParamRef(Struct, frozen=True):
    """Which parameter objects a binding uses: exactly one of `name` and `selector`."""

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None


class Validation(Struct, frozen=True):
    """One item of `spec.validations`. `reason` is None if the manifest has none (the server then answers Invalid)."""

    expression: str
    message: str = ""
    message_expression: str = ""
    reason: str | None = None


class AuditAnnotation(Struct, frozen=True):
    """One item of `spec.auditAnnotations`."""

    key: str
    value_expression: str


class ValidatingAdmissionPolicy(Struct, frozen=True):
    """A validating policy."""

    name: str
    static: bool
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    match_constraints: MatchResources | None = None
    param_kind: ParamKind | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    variables: tuple[Variable, ...] = ()
    validations: tuple[Validation, ...] = ()
    audit_annotations: tuple[AuditAnnotation, ...] = ()


class ValidatingAdmissionPolicyBinding(Struct, frozen=True):
    """A binding of a validating policy. `validation_actions` are Deny, Warn, Audit in the manifest's order."""

    name: str
    static: bool
    policy_name: str
    validation_actions: tuple[str, ...] = ()
    match_resources: MatchResources | None = None
    param_ref: ParamRef | None = None


class Mutation(Struct, frozen=True):
    """One item of `spec.mutations`."""

    patch_type: Literal["ApplyConfiguration", "JSONPatch"]
    expression: str


class MutatingAdmissionPolicy(Struct, frozen=True):
    """A mutating policy. `reinvocation_policy` is Never or IfNeeded."""

    name: str
    static: bool
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    reinvocation_policy: str = "Never"
    match_constraints: MatchResources | None = None
    param_kind: ParamKind | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    variables: tuple[Variable, ...] = ()
    mutations: tuple[Mutation, ...] = ()


class MutatingAdmissionPolicyBinding(Struct, frozen=True):
    """A binding of a mutating policy."""

    name: str
    static: bool
    policy_name: str
    match_resources: MatchResources | None = None
    param_ref: ParamRef | None = None


class ServiceReference(Struct, frozen=True):
    """`clientConfig.service`: API-based webhooks only."""

    namespace: str
    name: str
    path: str = ""
    port: int = 443


class WebhookClientConfig(Struct, frozen=True):
    """Address of a webhook. `ca_bundle` is PEM, empty for the system's trust roots."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class Webhook(Struct, frozen=True):
    """One webhook of a configuration. `reinvocation_policy` applies to mutating ones."""

    name: str
    client_config: WebhookClientConfig
    rules: tuple[Rule, ...] = ()
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    match_policy: MatchPolicy = MatchPolicy.EQUIVALENT
    namespace_selector: LabelSelector = LabelSelector()
    object_selector: LabelSelector = LabelSelector()
    side_effects: str = "None"
    timeout_seconds: int = 10
    admission_review_versions: tuple[str, ...] = ("v1",)
    reinvocation_policy: str = "Never"
    match_conditions: tuple[MatchCondition, ...] = ()


class WebhookConfiguration(Struct, frozen=True):
    """A ValidatingWebhookConfiguration or a MutatingWebhookConfiguration."""

    name: str
    static: bool
    webhooks: tuple[Webhook, ...] = ()


class PluginSettings(Struct, frozen=True):
    """The settings of a built-in plugin that is on.

    `configuration` is its own document, None without one. `flags` are all flags of the server.
    """

    name: str
    configuration: Any = None
    flags: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    """Path of the configuration."""
    admits: bool = True
    """A flag that its mutating phase runs. It does not if its recorded effect stays in the objects."""


class ManifestSet(Struct, frozen=True):
    """All objects that decide about requests, in the order of the API server.

    In each tuple, static objects come first, sorted by name, then API-based ones sorted by name. The server has no
    defined order for the latter. `hashes` maps a plugin's name to the hash that the server exports for its directory.
    `origins` maps kind and name of an object to its source. Neither has a part in decisions.
    """

    validating_policies: tuple[ValidatingAdmissionPolicy, ...] = ()
    validating_bindings: tuple[ValidatingAdmissionPolicyBinding, ...] = ()
    mutating_policies: tuple[MutatingAdmissionPolicy, ...] = ()
    mutating_bindings: tuple[MutatingAdmissionPolicyBinding, ...] = ()
    validating_webhooks: tuple[WebhookConfiguration, ...] = ()
    mutating_webhooks: tuple[WebhookConfiguration, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    builtin: tuple[PluginSettings, ...] = ()
    """The built-in plugins that are on."""
    objects: tuple[Any, ...] = ()
    """The objects to lay over those of the cluster, as `kubectl apply` does."""
    removed: tuple[Any, ...] = ()
    """The objects to remove from the cluster."""
    engine_objects: tuple[Any, ...] = ()
    """The objects of a policy engine, which its webhooks decide with."""
    says_plugins: bool = False
    """A flag that flags or a configuration name the plugins that are on. Otherwise they are the default ones."""
    origins: Mapping[tuple[str, str], Origin] = field(default_factory=dict)
    down: frozenset[str] = frozenset()
    """The names of the webhooks that do not answer, in the rehearsal of an outage."""
    skips_reviews: bool = False
    """A flag that webhooks are not called for `VIRTUAL_RESOURCES` either.

    Gate: `ExcludeAdmissionWebhookVirtualResources`.
    """

    def of_kind(self, kind: str) -> tuple[Any, ...]:
        """Return the objects of one of `KINDS`."""
        return getattr(self, FIELDS[kind])  # type: ignore[no-any-return]

    @property
    def policies(self) -> tuple[ValidatingAdmissionPolicy | MutatingAdmissionPolicy, ...]:
        """Return all policies, validating ones first."""
        return (*self.validating_policies, *self.mutating_policies)

    @property
    def bindings(self) -> tuple[ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding, ...]:
        """Return all bindings, in the order of `policies`."""
        return (*self.validating_bindings, *self.mutating_bindings)

    def bound(self, kind: str) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Yield the policies of one of `POLICY_KINDS`, each with the bindings that name it."""
        by_policy: dict[str, list[Any]] = {}
        for binding in self.of_kind(f"{kind}Binding"):
            by_policy.setdefault(binding.policy_name, []).append(binding)
        return ((policy, tuple(by_policy.get(policy.name, ()))) for policy in self.of_kind(kind))

    def only_kind(self, kind: str) -> ManifestSet:
        """Return a set with nothing but the policies of one of `POLICY_KINDS` and their bindings."""
        kept = {FIELDS[each]: self.of_kind(each) for each in (kind, f"{kind}Binding")}
        return replace(ManifestSet(), **kept)

    @property
    def configurations(self) -> tuple[WebhookConfiguration, ...]:
        """Return the configurations of all webhooks, validating ones first."""
        return (*self.validating_webhooks, *self.mutating_webhooks)

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        """Return all webhooks, in the order of `configurations`."""
        return tuple(webhook for configuration in self.configurations for webhook in configuration.webhooks)

    def where(self, keep: Callable[[str, Any], bool]) -> ManifestSet:
        """Return the set with only those objects of `KINDS` for which `keep` is true. It gets the kind and the object."""
        kept = {name: tuple(each for each in self.of_kind(kind) if keep(kind, each)) for kind, name in FIELDS.items()}
        return replace(self, **kept)

    def __eq__(self, other: object) -> bool:
        """Return whether both decide alike, from any source."""
        names = (name for name in self.__struct_fields__ if name != "origins")
        return isinstance(other, ManifestSet) and all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]


Sets = tuple[ManifestSet, ManifestSet]
"""Baseline and candidate."""
