"""The names of all warnings, with the reason for each. A name never changes its meaning."""

from __future__ import annotations

OBJECT_NULL = "object-null-on-delete"
UNGUARDED_FIELD = "unguarded-optional-field"
NO_BINDING = "policy-without-binding"
UNKNOWN_RESOURCE = "unknown-resource"
NEVER_TRUE = "condition-never-true"
NEVER_TOGETHER = "conditions-never-together"
UNGUARDED_ATTRIBUTES = "unguarded-request-attributes"
REMOVABLE_LABEL = "guard-label-can-be-removed"
TYPE_CHECKING = "type-checking"
OWN_NAMESPACE = "webhook-blocks-itself"
CONTROL_PLANE_LOCKOUT = "control-plane-lockout"
ADMISSION_LOCKOUT = "admission-configuration-lockout"
NEVER_SENT = "resource-never-sent"
NO_NAMESPACE = "binding-selects-no-namespace"
NAMESPACE_IN_CONDITION = "namespace-object-in-condition"
MESSAGE_CAN_FAIL = "message-expression-can-fail"
COST = "cost-may-exceed-limit"
ATOMIC_FIELD = "atomic-field-in-apply-configuration"
LOOPBACK_WITHOUT_CA = "loopback-without-ca-bundle"
CLUSTER_WEBHOOK = "webhook-depends-on-cluster"
UNKNOWN_PLUGIN = "unknown-plugin"
PLUGIN_TWICE = "plugin-configured-twice"
IGNORED_DOCUMENT = "ignored-document"
IGNORED_KIND = "ignored-kind"
RESERVED_NAME = "reserved-name"
KYVERNO_DEPRECATED = "kyverno-deprecated"

REASONS = {
    OBJECT_NULL: "`object` is null on DELETE: reading it there fails, and failurePolicy Fail then denies every such request",
    UNGUARDED_FIELD: "an optional field that is absent makes the expression fail, and failurePolicy Fail then denies the request",
    NO_BINDING: "a policy without a binding decides nothing",
    UNKNOWN_RESOURCE: "a rule for a resource that no server has matches nothing",
    NEVER_TRUE: "a match condition that is never true turns the policy or webhook off",
    NEVER_TOGETHER: "match conditions of which one is always false turn the policy, webhook or authorizer off",
    UNGUARDED_ATTRIBUTES: "a request is for a resource or for a path: a condition that reads the attributes of the other fails",
    REMOVABLE_LABEL: "what protects an object by its label must look at the label that it has, not at the one that an update leaves",
    TYPE_CHECKING: "the server writes this into status.typeChecking of the policy: an object of the kind has no such field or another type",
    OWN_NAMESPACE: "a webhook that must allow its own pods cannot start again once all of them are gone",
    CONTROL_PLANE_LOCKOUT: "denying what nodes and controllers write to keep the cluster alive can take it down",
    ADMISSION_LOCKOUT: "a static policy also sees admission configuration: denying changes to it can make it impossible to lift",
    NEVER_SENT: "reviews of access and tokens are never sent to policies",
    NO_NAMESPACE: "a binding whose namespaceSelector selects no namespace of the cluster decides nothing there",
    NAMESPACE_IN_CONDITION: "match conditions are evaluated without a namespace: reading `namespaceObject` there fails for every request",
    MESSAGE_CAN_FAIL: "a messageExpression that fails is dropped without a trace, and the message says less",
    ATOMIC_FIELD: "the API server refuses every ApplyConfiguration that writes an atomic list, map or struct: use a JSONPatch",
    COST: "on large objects the expression can exceed the cost that one expression may have, which is an error",
    LOOPBACK_WITHOUT_CA: "the certificate of a webhook on loopback is hardly signed by one of the system's authorities",
    CLUSTER_WEBHOOK: "a static webhook is called before the cluster can run what answers it",
    UNKNOWN_PLUGIN: "an entry for a plugin that no server has configures nothing, and the plugin that was meant has no manifests",
    PLUGIN_TWICE: "only the first entry of a plugin counts",
    IGNORED_DOCUMENT: "only the first YAML document is read here",
    RESERVED_NAME: "a server with static manifests refuses names that end like theirs, so that an upgrade makes the object unchangeable",
    KYVERNO_DEPRECATED: "a later release of Kyverno leaves it out",
    IGNORED_KIND: "what an item of a typed list says about its own kind is not read",
}
"""Why each warning matters, in one sentence."""
