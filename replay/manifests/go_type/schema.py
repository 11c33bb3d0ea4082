"""The Go types of `admissionregistration.k8s.io/v1`, of the server's configuration and of `meta/v1`, for decoding.

One line for each field: JSON name, Go type, protobuf number, and `always` if an empty value is written too. A name with
`+` is an embedded struct, whose fields belong to the outer object. Types that are not listed are named strings. Source:
`k8s.io/api/admissionregistration/v1/types.go`, `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`.

A loader's scheme knows the kinds of `admissionregistration.k8s.io` in all versions, and the kinds of `meta/v1` that every
API group has. The loader then accepts only those of its own plugin. `List` and `Status` are known in any group and
version.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from replay.kube.admissionregistration import GROUP, KINDS

SCHEME_NAME = "pkg/runtime/scheme.go:111"
"""Name of the server's scheme in errors, which is a place in its source code."""

_KINDS = {
    "v1": KINDS,
    "v1beta1": KINDS,
    "v1alpha1": tuple(each for each in KINDS if not each.endswith("WebhookConfiguration")),
}
_OPTIONS = tuple(f"{verb}Options" for verb in ("Create", "Delete", "Get", "List", "Patch", "Update"))
_UNVERSIONED = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "Status")


class Registered(Struct, frozen=True):
    """A kind that a scheme knows, with its Go type. `package` is the Go package in decoding errors.

    `converted` is the Go type, with its package, into which a converting scheme turns it.
    """

    kind: str
    go_type: str
    package: str = "v1"
    converted: str = ""

    @property
    def shown(self) -> str:
        """The type of a pointer to it, as `%T` prints it."""
        return f"*{self.converted or f'{self.package}.{self.kind}'}"


class Scheme(Struct, frozen=True):
    """Kinds by API version and kind, and those known in every version."""

    versioned: Mapping[tuple[str, str], Registered]
    unversioned: Mapping[str, Registered]
    name: str = "SCHEME"

    def lookup(self, api_version: str, kind: str) -> Registered | None:
        """Return the kind of that version, or None if it is not registered."""
        return self.versioned.get((api_version, kind)) or self.unversioned.get(kind)


def _versioned() -> dict[tuple[str, str], Registered]:
    registry: dict[tuple[str, str], Registered] = {}
    for version, kinds in _KINDS.items():
        for kind in kinds:
            for name in (kind, f"{kind}List"):
                registry[f"{GROUP}/{version}", name] = Registered(name, f"v1.{name}", version)
                registry[f"{GROUP}/__internal", name] = Registered(name, "v1.TypeMeta", "admissionregistration")
        for name in (*_OPTIONS, "WatchEvent"):
            registry[f"{GROUP}/{version}", name] = Registered(name, "v1.TypeMeta")
    return registry


LOADER_SCHEME = Scheme(_versioned(), {kind: Registered(kind, f"v1.{kind}") for kind in _UNVERSIONED})
"""The scheme of the manifest loaders (`k8s.io/kubernetes/pkg/admission/plugin/.../manifest/loader`)."""


_TYPES = """
v1.TypeMeta
  kind string 1
  apiVersion string 2
v1.ListMeta
  selfLink string 1
  resourceVersion string 2
  continue string 3
  remainingItemCount *int64 4
  shardInfo *v1.ShardInfo 5
v1.ShardInfo
  selector string 1 always
v1.ObjectMeta
  name string 1
  generateName string 2
  namespace string 3
  selfLink string 4
  uid types.UID 5
  resourceVersion string 6
  generation int64 7
  creationTimestamp v1.Time 8
  deletionTimestamp *v1.Time 9
  deletionGracePeriodSeconds *int64 10
  labels map[string]string 11
  annotations map[string]string 12
  ownerReferences []v1.OwnerReference 13
  finalizers []string 14
  managedFields []v1.ManagedFieldsEntry 17
v1.OwnerReference
  apiVersion string 5 always
  kind string 1 always
  name string 3 always
  uid types.UID 4 always
  controller *bool 6
  blockOwnerDeletion *bool 7
v1.ManagedFieldsEntry
  manager string 1
  operation v1.ManagedFieldsOperationType 2
  apiVersion string 3
  time *v1.Time 4
  fieldsType string 6
  fieldsV1 *v1.FieldsV1 7
  subresource string 8
v1.LabelSelector
  matchLabels map[string]string 1
  matchExpressions []v1.LabelSelectorRequirement 2
v1.LabelSelectorRequirement
  key string 1 always
  operator v1.LabelSelectorOperator 2 always
  values []string 3
v1.Condition
  type string 1 always
  status v1.ConditionStatus 2 always
  observedGeneration int64 3
  lastTransitionTime v1.Time 4 always
  reason string 5 always
  message string 6 always
v1.Rule
  apiGroups []string 1
  apiVersions []string 2
  resources []string 3
  scope *v1.ScopeType 4
v1.RuleWithOperations
  operations []v1.OperationType 1
  +Rule v1.Rule 2
v1.NamedRuleWithOperations
  resourceNames []string 1
  +RuleWithOperations v1.RuleWithOperations 2
v1.MatchResources
  namespaceSelector *v1.LabelSelector 1
  objectSelector *v1.LabelSelector 2
  resourceRules []v1.NamedRuleWithOperations 3
  excludeResourceRules []v1.NamedRuleWithOperations 4
  matchPolicy *v1.MatchPolicyType 7
v1.MatchCondition
  name string 1 always
  expression string 2 always
v1.Variable
  name string 1 always
  expression string 2 always
v1.ParamKind
  apiVersion string 1
  kind string 2
v1.ParamRef
  name string 1
  namespace string 2
  selector *v1.LabelSelector 3
  parameterNotFoundAction *v1.ParameterNotFoundActionType 4
v1.Validation
  expression string 1 always
  message string 2
  reason *v1.StatusReason 3
  messageExpression string 4
v1.AuditAnnotation
  key string 1 always
  valueExpression string 2 always
v1.ValidatingAdmissionPolicy
  +TypeMeta v1.TypeMeta 0
  metadata v1.ObjectMeta 1
  spec v1.ValidatingAdmissionPolicySpec 2
  status v1.ValidatingAdmissionPolicyStatus 3
v1.ValidatingAdmissionPolicySpec
  paramKind *v1.ParamKind 1
  matchConstraints *v1.MatchResources 2
  validations []v1.Validation 3
  failurePolicy *v1.FailurePolicyType 4
  auditAnnotations []v1.AuditAnnotation 5
  matchConditions []v1.MatchCondition 6
  variables []v1.Variable 7
v1.ValidatingAdmissionPolicyStatus
  observedGeneration int64 1
  typeChecking *v1.TypeChecking 2
  conditions []v1.Condition 3
v1.TypeChecking
  expressionWarnings []v1.ExpressionWarning 1
v1.ExpressionWarning
  fieldRef string 2 always
  warning string 3 always
v1.ValidatingAdmissionPolicyBinding
  +TypeMeta v1.TypeMeta 0
  metadata v1.ObjectMeta 1
  spec v1.ValidatingAdmissionPolicyBindingSpec 2
v1.ValidatingAdmissionPolicyBindingSpec
  policyName string 1
  paramRef *v1.ParamRef 2
  matchResources *v1.MatchResources 3
  validationActions []v1.ValidationAction 4
v1.MutatingAdmissionPolicy
  +TypeMeta v1.TypeMeta 0
  metadata v1.ObjectMeta 1
  spec v1.MutatingAdmissionPolicySpec 2
v1.MutatingAdmissionPolicySpec
  paramKind *v1.ParamKind 1
  matchConstraints *v1.MatchResources 2
  variables []v1.Variable 3
  mutations []v1.Mutation 4
  failurePolicy *v1.FailurePolicyType 5
  matchConditions []v1.MatchCondition 6
  reinvocationPolicy v1.ReinvocationPolicyType 7
v1.Mutation
  patchType v1.PatchType 2 always
  applyConfiguration *v1.ApplyConfiguration 3
  jsonPatch *v1.JSONPatch 4
v1.ApplyConfiguration
  expression string 1
v1.JSONPatch
  expression string 1
v1.MutatingAdmissionPolicyBinding
  +TypeMeta v1.TypeMeta 0
  metadata v1.ObjectMeta 1
  spec v1.MutatingAdmissionPolicyBindingSpec 2
v1.MutatingAdmissionPolicyBindingSpec
  policyName string 1
  paramRef *v1.ParamRef 2
  matchResources *v1.MatchResources 3
v1.ServiceReference
  namespace string 1 always
  name string 2 always
  path *string 3
  port *int32 4
v1.WebhookClientConfig
  url *string 3
  service *v1.ServiceReference 1
  caBundle []byte 2
v1.ValidatingWebhook
  name string 1 always
  clientConfig v1.WebhookClientConfig 2
  rules []v1.RuleWithOperations 3
  failurePolicy *v1.FailurePolicyType 4
  matchPolicy *v1.MatchPolicyType 9
  namespaceSelector *v1.LabelSelector 5
  objectSelector *v1.LabelSelector 10
  sideEffects *v1.SideEffectClass 6 always
  timeoutSeconds *int32 7
  admissionReviewVersions []string 8 always
  matchConditions []v1.MatchCondition 11
v1.MutatingWebhook
  name string 1 always
  clientConfig v1.WebhookClientConfig 2
  rules []v1.RuleWithOperations 3
  failurePolicy *v1.FailurePolicyType 4
  matchPolicy *v1.MatchPolicyType 9
  namespaceSelector *v1.LabelSelector 5
  objectSelector *v1.LabelSelector 11
  sideEffects *v1.SideEffectClass 6 always
  timeoutSeconds *int32 7
  admissionReviewVersions []string 8 always
  reinvocationPolicy *v1.ReinvocationPolicyType 10
  matchConditions []v1.MatchCondition 12
v1.ValidatingWebhookConfiguration
  +TypeMeta v1.TypeMeta 0
  metadata v1.ObjectMeta 1
  webhooks []v1.ValidatingWebhook 2
v1.MutatingWebhookConfiguration
  +TypeMeta v1.TypeMeta 0
  metadata v1.ObjectMeta 1
  webhooks []v1.MutatingWebhook 2
v1.List
  +TypeMeta v1.TypeMeta 0
  metadata v1.ListMeta 1
  items []runtime.RawExtension 2 always
v1.Status
  +TypeMeta v1.TypeMeta 0
  metadata v1.ListMeta 1
  status string 2
  message string 3
  reason v1.StatusReason 4
  details *v1.StatusDetails 5
  code int32 6
v1.StatusDetails
  name string 1
  group string 2
  kind string 3
  uid types.UID 6
  causes []v1.StatusCause 4
  retryAfterSeconds int32 5
v1.StatusCause
  reason v1.CauseType 1
  message string 2
  field string 3
v1.APIGroup
  +TypeMeta v1.TypeMeta 0
v1.APIGroupList
  +TypeMeta v1.TypeMeta 0
v1.APIResourceList
  +TypeMeta v1.TypeMeta 0
v1.APIVersions
  +TypeMeta v1.TypeMeta 0
v1.AdmissionConfiguration
  +TypeMeta v1.TypeMeta 0
  plugins []v1.AdmissionPluginConfiguration 1 always
v1.AdmissionPluginConfiguration
  name string 1 always
  path string 2 always
  configuration *runtime.Unknown 3 always
v1.ValidatingAdmissionPolicyConfiguration
  +TypeMeta v1.TypeMeta 0
  staticManifestsDir string 1
v1.MutatingAdmissionPolicyConfiguration
  +TypeMeta v1.TypeMeta 0
  staticManifestsDir string 1
v1.PodSecurityConfiguration
  +TypeMeta v1.TypeMeta 0
  defaults v1.PodSecurityDefaults 0
  exemptions v1.PodSecurityExemptions 0
v1.PodSecurityDefaults
  enforce string 0
  enforce-version string 0
  audit string 0
  audit-version string 0
  warn string 0
  warn-version string 0
v1.PodSecurityExemptions
  usernames []string 0
  namespaces []string 0
  runtimeClasses []string 0
v1.Configuration
  +TypeMeta v1.TypeMeta 0
  limitedResources []v1.LimitedResource 0
v1.LimitedResource
  apiGroup string 0
  resource string 0
  matchContains []string 0
  matchScopes []v1.ScopedResourceSelectorRequirement 0
v1.ScopedResourceSelectorRequirement
  scopeName v1.ResourceQuotaScope 0
  operator v1.ScopeSelectorOperator 0
  values []string 0
v1.WebhookAdmission
  +TypeMeta v1.TypeMeta 0
  kubeConfigFile string 1
  staticManifestsDir string 2
v1.AuthorizationConfiguration
  +TypeMeta v1.TypeMeta 0
  authorizers []v1.AuthorizerConfiguration 0 always
v1.AuthorizerConfiguration
  type string 0 always
  name string 0 always
  webhook *v1.WebhookConfiguration 0
v1.WebhookConfiguration
  authorizedTTL v1.Duration 0 always
  cacheAuthorizedRequests *bool 0
  unauthorizedTTL v1.Duration 0 always
  cacheUnauthorizedRequests *bool 0
  timeout v1.Duration 0 always
  subjectAccessReviewVersion string 0 always
  matchConditionSubjectAccessReviewVersion string 0 always
  failurePolicy string 0 always
  connectionInfo v1.WebhookConnectionInfo 0 always
  matchConditions []v1.WebhookMatchCondition 0 always
v1.WebhookConnectionInfo
  type string 0 always
  kubeConfigFile *string 0 always
v1.WebhookMatchCondition
  expression string 0 always
v1.AuthenticationConfiguration
  +TypeMeta v1.TypeMeta 0
  jwt []v1.JWTAuthenticator 0 always
  anonymous *v1.AnonymousAuthConfig 0
v1.AnonymousAuthConfig
  enabled bool 0 always
  conditions []v1.AnonymousAuthCondition 0
v1.AnonymousAuthCondition
  path string 0 always
v1.JWTAuthenticator
  issuer v1.Issuer 0 always
  claimValidationRules []v1.ClaimValidationRule 0
  claimMappings v1.ClaimMappings 0 always
  userValidationRules []v1.UserValidationRule 0
v1.Issuer
  url string 0 always
  discoveryURL *string 0
  certificateAuthority string 0
  audiences []string 0 always
  audienceMatchPolicy v1.AudienceMatchPolicyType 0
  egressSelectorType v1.EgressSelectorType 0
v1.ClaimValidationRule
  claim string 0
  requiredValue string 0
  expression string 0
  message string 0
v1.ClaimMappings
  username v1.PrefixedClaimOrExpression 0 always
  groups v1.PrefixedClaimOrExpression 0
  uid v1.ClaimOrExpression 0 always
  extra []v1.ExtraMapping 0
v1.PrefixedClaimOrExpression
  claim string 0
  prefix *string 0
  expression string 0
v1.ClaimOrExpression
  claim string 0
  expression string 0
v1.ExtraMapping
  key string 0 always
  valueExpression string 0 always
v1.UserValidationRule
  expression string 0 always
  message string 0
v1.TracingConfiguration
  +TypeMeta v1.TypeMeta 0
  endpoint *string 0
  samplingRatePerMillion *int32 0
v1.EncryptionConfiguration
  +TypeMeta v1.TypeMeta 0
  resources []v1.ResourceConfiguration 0 always
v1.ResourceConfiguration
  resources []string 0 always
  providers []v1.ProviderConfiguration 0 always
v1.ProviderConfiguration
  aesgcm *v1.AESConfiguration 0
  aescbc *v1.AESConfiguration 0
  secretbox *v1.SecretboxConfiguration 0
  identity *v1.IdentityConfiguration 0
  kms *v1.KMSConfiguration 0
v1.AESConfiguration
  keys []v1.Key 0 always
v1.SecretboxConfiguration
  keys []v1.Key 0 always
v1.Key
  name string 0 always
  secret string 0 always
v1.IdentityConfiguration
v1.KMSConfiguration
  apiVersion string 0 always
  name string 0 always
  cachesize *int32 0
  endpoint string 0 always
  timeout *v1.Duration 0
v1.EgressSelectorConfiguration
  +TypeMeta v1.TypeMeta 0
  egressSelections []v1.EgressSelection 0 always
v1.EgressSelection
  name string 0 always
  connection v1.Connection 0 always
v1.Connection
  proxyProtocol v1.ProtocolType 0
  transport *v1.Transport 0
v1.Transport
  tcp *v1.TCPTransport 0
  uds *v1.UDSTransport 0
v1.TCPTransport
  url string 0
  tlsConfig *v1.TLSConfig 0
v1.UDSTransport
  udsName string 0
v1.TLSConfig
  caBundle string 0
  clientKey string 0
  clientCert string 0
  tlsServerName string 0
"""


class Field(Struct, frozen=True):
    """A field as it appears in an object. `embedded` are the Go names of its enclosing embedded structs."""

    name: str
    go_type: str
    number: int
    always: bool = False
    embedded: tuple[str, ...] = ()
    embedded_numbers: tuple[int, ...] = ()


class GoStruct(Struct, frozen=True):
    """A Go struct with its fields by JSON name, in Go's order, including those of embedded structs."""

    go_type: str
    fields: dict[str, Field]


@cache
def struct(go_type: str) -> GoStruct | None:
    """Return the struct with this name, None for other types (a string, a list, a time)."""
    return _structs().get(go_type)


@cache
def _structs() -> dict[str, GoStruct]:
    own: dict[str, list[Field]] = {}
    for line in (*_TYPES.strip().splitlines(), *_list_types()):
        if not line.startswith(" "):
            fields = own[line] = []
            continue
        name, go_type, number, *always = line.split()
        fields.append(Field(name, go_type, int(number), bool(always)))
    return {name: GoStruct(name, {field.name: field for field in _flattened(name, own)}) for name in own}


def _list_types() -> list[str]:
    """Return the `...List` kinds, which are all alike."""
    lines: list[str] = []
    for kind in KINDS:
        lines += [
            f"v1.{kind}List",
            "  +TypeMeta v1.TypeMeta 0",
            "  metadata v1.ListMeta 1",
            f"  items []v1.{kind} 2 always",
        ]
    return lines


def _flattened(go_type: str, own: dict[str, list[Field]]) -> list[Field]:
    fields: list[Field] = []
    for field in own[go_type]:
        if not field.name.startswith("+"):
            fields.append(field)
            continue
        for inner in _flattened(field.go_type, own):
            embedded = (field.name[1:], *inner.embedded)
            numbers = (field.number, *inner.embedded_numbers)
            fields.append(Field(inner.name, inner.go_type, inner.number, inner.always, embedded, numbers))
    return fields
