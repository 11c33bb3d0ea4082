"""Whether a request came as far as the validating policies, as far as the log tells.

The order of a request is that of `apiserver/pkg/registry/generic/registry.Store` and of
`pkg/kubeapiserver/options.AllOrderedPlugins`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson

from replay.audit.event import RequestRecord, annotations_of
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.request import Reached

MUTATION = "mutation.webhook.admission.k8s.io/"
VALIDATION_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_OF_VALIDATION = (VALIDATION_FAILURE, "apiserver.latency.k8s.io/validating-webhook")
_POLICY_DENIAL = re.compile(r"ValidatingAdmissionPolicy '[^']+' (?:with binding '[^']+' )?denied request: ")
_MUTATING_POLICY_DENIAL = re.compile(r"^policy (?:'[^']+' with binding '[^']+'|\"[^\"]+\") denied request: ")
"""`plugin/policy/generic.PolicyError`, which the mutating dispatcher returns as it is."""
_BEFORE_MUTATION = (
    ("is forbidden: unable to create new content in namespace", "NamespaceLifecycle refused it"),
    ("is forbidden: error looking up service account", "ServiceAccount refused it, which runs before the policies"),
    ("is forbidden: no PriorityClass with name", "Priority refused it, which runs before the policies"),
    ("cannot set blockOwnerDeletion if an ownerReference", "OwnerReferencesPermissionEnforcement refused it"),
    ("cannot set an ownerRef on a resource you can't delete", "OwnerReferencesPermissionEnforcement refused it"),
)
_AFTER_MUTATION = (
    (re.compile("violates PodSecurity"), "PodSecurity refused it, which runs before the policies"),
    (
        re.compile(
            r"(?:minimum|maximum) \S+ usage per (?:Pod|Container|PersistentVolumeClaim) is |\S+ max limit to request ratio per "
        ),
        "LimitRanger refused it, which runs before the policies",
    ),
    (
        re.compile(
            r"is attempting to grant RBAC permissions not currently held|must have cluster-admin privileges to use the "
            "aggregationRule"
        ),
        "RBAC's escalation check refused it, which runs before the policies",
    ),
)
"""Refusals between the mutating and the validating policies: by plugins that validate, and by the storage of RBAC's kinds
(`pkg/registry/rbac/*/policybased`)."""
_QUOTA = "exceeded quota: "
BAD_REQUEST, FORBIDDEN, CONFLICT, INVALID, SERVER_FAILED = 400, 403, 409, 422, 500


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a request came and why that is believed."""

    reached: Reached
    reason: str = ""


def progress(  # noqa: PLR0911 - one return per kind of evidence, the strongest first
    exchange: Exchange,
) -> Progress | None:
    """What the record alone tells; None where it depends on the state of the object."""
    record = exchange.record
    if exchange.succeeded:
        return Progress(Reached.VALIDATION)
    annotations = annotations_of(record)
    if annotations.get("authorization.k8s.io/decision") == "forbid":
        return Progress(Reached.FAILED_BEFORE, "the authorizer refused it")
    if _POLICY_DENIAL.search(record.status_message):
        return Progress(Reached.VALIDATION, "a validating policy denied it")
    if _MUTATING_POLICY_DENIAL.search(record.status_message):
        return Progress(Reached.VALIDATION, "a mutating policy denied it")
    if _is_annotated_by_validation(annotations):
        return Progress(Reached.VALIDATION, "a validating policy or webhook annotated it")
    if record.code == 0:
        if exchange.is_connect:
            return Progress(Reached.VALIDATION, "the connection was opened")
        return Progress(Reached.UNKNOWN, exchange.response.fault or "its response is not recorded")
    if exchange.is_connect:
        return _connected(record.code, record.status_message)
    return _by_message(record.code, record.status_message) or _by_code(exchange)


def _connected(code: int, message: str) -> Progress:
    """A CONNECT asks admission before it looks at the object (`handlers.ConnectResource`)."""
    if code in (401, 403) or "admission webhook" in message:
        return Progress(Reached.UNKNOWN, f"it failed with {code}, and the log does not tell where")
    return Progress(Reached.VALIDATION, "it failed after admission")


def _by_message(code: int, message: str) -> Progress | None:
    """What the wording of a failure tells."""
    for part, reason in _BEFORE_MUTATION:
        if part in message:
            return Progress(Reached.FAILED_BEFORE, reason)
    if code == FORBIDDEN and (later := _refused_after_mutation(message)):
        return Progress(Reached.FAILED_BEFORE, later)
    if code == 403 and _QUOTA in message:
        return Progress(Reached.VALIDATION, "ResourceQuota refused it, which runs after the policies")
    if code == 404 and message.startswith('namespaces "'):
        return Progress(Reached.FAILED_BEFORE, "its namespace did not exist")
    if "admission webhook" in message:
        return Progress(
            Reached.UNKNOWN, "a webhook refused it, and the log does not tell a mutating from a validating one"
        )
    return None


def _refused_after_mutation(message: str) -> str:
    """Who refused a request between the mutating and the validating policies; empty where nobody is known to have."""
    return next((reason for wording, reason in _AFTER_MUTATION if wording.search(message)), "")


def reached_mutation(record: RequestRecord) -> bool:
    """Whether a request that failed before validation came as far as the mutating policies.

    The object is invalid (422) or was changed meanwhile (409) only after them; other refusals come from the authorizer, the
    decoder or the plugins before.
    """
    if not BAD_REQUEST <= record.code < SERVER_FAILED or record.code in (CONFLICT, INVALID):
        return True
    return bool(_refused_after_mutation(record.status_message))


def is_denied_by_policy(record: RequestRecord) -> bool:
    """Whether a validating policy refused a request: the plugins after it are not asked."""
    return _POLICY_DENIAL.search(record.status_message) is not None


def _by_code(  # noqa: PLR0911 - one return per code
    exchange: Exchange,
) -> Progress | None:
    """What the code tells for the verb; None where the state of the object decides."""
    record = exchange.record
    code, creates = record.code, record.verb == "create"
    if code in (400, 401, 405, 406, 413, 415, 431):
        return Progress(Reached.FAILED_BEFORE, f"it was refused with {code} before admission")
    if code == 403:
        return Progress(Reached.UNKNOWN, "it was forbidden, and the log does not tell by what")
    if code == 429:
        if record.subresource == "eviction" and "disruption budget" in record.status_message:
            return Progress(Reached.VALIDATION, "the disruption budget is looked at after admission")
        return Progress(Reached.FAILED_BEFORE, "it was rejected under load")
    if creates and record.subresource in ("binding", "eviction") and code in (404, 409):
        return Progress(Reached.VALIDATION, "the pod is looked at after admission")
    if creates and not record.subresource and code == 409 and record.status_reason == "AlreadyExists":
        return Progress(Reached.VALIDATION, "only the storage finds that an object exists")
    if creates and code == 404:
        return Progress(Reached.FAILED_BEFORE, "what it names did not exist")
    if code == 422 and creates:
        return Progress(Reached.FAILED_BEFORE, "the object was invalid")
    if code >= 500:
        return Progress(Reached.UNKNOWN, f"it failed with {code}, and the log does not tell where")
    return None


def _is_annotated_by_validation(annotations: dict[str, str]) -> bool:
    """Whether an annotation was written in the validating phase.

    Policies and webhooks write `<own name>/<key>`; the webhooks of the mutating phase are told apart by the annotations
    that it writes about each of its calls. Names of Kubernetes' own components end in `k8s.io` or `kubernetes.io`.
    """
    mutating: set[str] = set()
    for key, value in annotations.items():
        if key in _OF_VALIDATION or key.startswith("failed-open.validating.webhook.admission.k8s.io/"):
            return True
        if key.startswith(MUTATION):
            mutating.add(_webhook(value))
    for key in annotations:
        owner, slash, _ = key.partition("/")
        if slash and owner not in mutating and not _is_of_kubernetes(owner):
            return True
    return False


def _webhook(text: str) -> str:
    """The webhook that an annotation about a call names, empty where it names none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ""
    return str(value.get("webhook")) if isinstance(value, dict) else ""


def _is_of_kubernetes(owner: str) -> bool:
    """Whether an annotation's prefix belongs to a component of Kubernetes."""
    if owner.endswith(".static.k8s.io"):
        return False
    return f".{owner}".endswith((".k8s.io", ".kubernetes.io")) or "." not in owner
