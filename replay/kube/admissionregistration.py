"""The kinds of `admissionregistration.k8s.io/v1`, after defaulting.

Field names are those of the API in snake_case. Values are frozen: a loaded set never changes. Lists keep the order of
the manifest. `static` tells a manifest from an object of the API: static hooks run before API-based ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from replay.kube.gvk import GroupResource

GROUP: Final = "admissionregistration.k8s.io"
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


Phase = Literal["mutating", "validating"]


class Registration(Struct, frozen=True, tag=True):
    """Object of the group that decides about requests. Its class has the name of its kind."""

    name: str
    static: bool

    @property
    def kind(self) -> str:
        """The kind of the API."""
        return type(self).__name__

    @property
    def phase(self) -> Phase:
        """The phase of admission in which it counts."""
        return "mutating" if self.kind.startswith("Mutating") else "validating"

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name."""
        return self.kind, self.name


class ValidatingAdmissionPolicy(Registration, frozen=True):
    """A validating policy."""

    failure_policy: FailurePolicy = FailurePolicy.FAIL
    match_constraints: MatchResources | None = None
    param_kind: ParamKind | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    variables: tuple[Variable, ...] = ()
    validations: tuple[Validation, ...] = ()
    audit_annotations: tuple[AuditAnnotation, ...] = ()


class ValidatingAdmissionPolicyBinding(Registration, frozen=True):
    """A binding of a validating policy. `validation_actions` are Deny, Warn, Audit in the manifest's order."""

    policy_name: str
    validation_actions: tuple[str, ...] = ()
    match_resources: MatchResources | None = None
    param_ref: ParamRef | None = None


class Mutation(Struct, frozen=True):
    """One item of `spec.mutations`."""

    patch_type: Literal["ApplyConfiguration", "JSONPatch"]
    expression: str


class MutatingAdmissionPolicy(Registration, frozen=True):
    """A mutating policy. `reinvocation_policy` is Never or IfNeeded."""

    failure_policy: FailurePolicy = FailurePolicy.FAIL
    reinvocation_policy: str = "Never"
    match_constraints: MatchResources | None = None
    param_kind: ParamKind | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    variables: tuple[Variable, ...] = ()
    mutations: tuple[Mutation, ...] = ()


class MutatingAdmissionPolicyBinding(Registration, frozen=True):
    """A binding of a mutating policy."""

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


class WebhookConfiguration(Registration, frozen=True):
    """The webhooks of one object, for one phase."""

    webhooks: tuple[Webhook, ...] = ()


class ValidatingWebhookConfiguration(WebhookConfiguration, frozen=True):
    """The validating webhooks of one object."""


class MutatingWebhookConfiguration(WebhookConfiguration, frozen=True):
    """The mutating webhooks of one object."""


Policy = ValidatingAdmissionPolicy | MutatingAdmissionPolicy
Binding = ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding
TYPES: Final[tuple[type[Registration], ...]] = (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
    MutatingWebhookConfiguration,
)
"""The kinds in the order of a set."""
KINDS: Final = tuple(sorted(each.__name__ for each in TYPES))
RESOURCES: Final = tuple(
    f"{kind.lower().removesuffix('y')}ies" if kind.endswith("y") else f"{kind.lower()}s" for kind in KINDS
)
"""The resources of `KINDS`, in the same order."""
POLICY_KINDS: Final = (ValidatingAdmissionPolicy.__name__, MutatingAdmissionPolicy.__name__)
VALIDATING_POLICY, MUTATING_POLICY = POLICY_KINDS


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


R = TypeVar("R", bound=Registration)


class ManifestSet(Struct, frozen=True):
    """All objects that decide about requests. `in_order` gives the order of `registrations`.

    `hashes` maps a plugin's name to the hash that the server exports for its directory. `origins` maps kind and name of
    an object to its source. Neither has a part in decisions.
    """

    registrations: tuple[Registration, ...] = ()
    """The policies, bindings and webhook configurations."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    builtin: tuple[PluginSettings, ...] = ()
    """The built-in plugins that are on."""
    objects: tuple[Any, ...] = ()
    """The objects to lay over those of the cluster, as `kubectl apply` does."""
    removed: tuple[Any, ...] = ()
    """The objects to remove from the cluster."""
    engine_objects: tuple[Any, ...] = ()
    """The objects of a policy engine, which its webhooks decide with."""
    names_plugins: bool = False
    """A flag that flags or a configuration name the plugins that are on. Otherwise they are the default ones."""
    origins: Mapping[tuple[str, str], Origin] = field(default_factory=dict)
    down: frozenset[str] = frozenset()
    """The names of the webhooks that do not answer, in the rehearsal of an outage."""
    skips_reviews: bool = False
    """A flag that webhooks are not called for `VIRTUAL_RESOURCES` either.

    Gate: `ExcludeAdmissionWebhookVirtualResources`.
    """

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """Return the registrations of a type."""
        return tuple(each for each in self.registrations if isinstance(each, kind))

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Return all policies, validating ones first."""
        return tuple(each for each in self.registrations if isinstance(each, Policy))

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Return all bindings, in the order of `policies`."""
        return tuple(each for each in self.registrations if isinstance(each, Binding))

    def bound_policies(self, kind: type[R]) -> Iterator[tuple[R, tuple[Any, ...]]]:
        """Yield the policies of a type, each with the bindings that name it."""
        by_policy: dict[tuple[Phase, str], list[Any]] = {}
        for binding in self.bindings:
            by_policy.setdefault((binding.phase, binding.policy_name), []).append(binding)
        policies = (each for each in self.policies if isinstance(each, kind))
        return ((each, tuple(by_policy.get((each.phase, each.name), ()))) for each in policies)

    def only(self, phase: Phase) -> ManifestSet:
        """Return a set with nothing but the policies of a phase and their bindings."""
        return ManifestSet(tuple(each for each in (*self.policies, *self.bindings) if each.phase == phase))

    def configurations(self, phase: Phase | None = None) -> tuple[WebhookConfiguration, ...]:
        """Return the webhook configurations of a phase, or all, validating ones first."""
        return tuple(each for each in self.of(WebhookConfiguration) if phase in (None, each.phase))

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        """Return all webhooks, validating ones first."""
        return tuple(webhook for configuration in self.configurations() for webhook in configuration.webhooks)

    def filtered(self, keep: Callable[[Registration], bool]) -> ManifestSet:
        """Return the set with only those registrations for which `keep` is true."""
        return replace(self, registrations=tuple(filter(keep, self.registrations)))

    def with_registrations(self, added: Iterable[Registration]) -> ManifestSet:
        """Return the set with more registrations."""
        return replace(self, registrations=in_order((*self.registrations, *added)))

    def __eq__(self, other: object) -> bool:
        """Return whether both decide alike, from any source."""
        names = (name for name in self.__struct_fields__ if name != "origins")
        return isinstance(other, ManifestSet) and all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]


Sets = tuple[ManifestSet, ManifestSet]
"""Baseline and candidate."""


def in_order(registrations: Iterable[Registration]) -> tuple[Registration, ...]:
    """Return registrations in the order of the API server: by kind, static ones first, by name.

    The server has no defined order for API-based ones.
    """
    return tuple(sorted(registrations, key=lambda each: (TYPES.index(type(each)), not each.static, each.name)))


def rule_text(rule: Rule) -> str:
    """Return a rule as in `CREATE, UPDATE pods, pods/status in apps/v1`. Wildcards stay."""
    groups = "/".join(("|".join(group or "core" for group in rule.api_groups), "|".join(rule.api_versions)))
    text = f"{', '.join(rule.operations)} {', '.join(rule.resources)} in {groups}"
    if rule.resource_names:
        text += f" named {', '.join(rule.resource_names)}"
    return text if rule.scope == "*" else f"{text}, {rule.scope.lower()} only"


def selector_text(selector: LabelSelector) -> str:
    """Return a selector in the form of kubectl, as in `a=b, c in (d, e), !f`. An empty one is `everything`."""
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for requirement in selector.match_expressions:
        values = f"({', '.join(requirement.values)})"
        parts.append(
            {
                "In": f"{requirement.key} in {values}",
                "NotIn": f"{requirement.key} notin {values}",
                "Exists": requirement.key,
                "DoesNotExist": f"!{requirement.key}",
            }.get(requirement.operator, f"{requirement.key} {requirement.operator} {values}")
        )
    return ", ".join(parts) or "everything"
