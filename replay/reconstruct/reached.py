"""The progress of a request towards the validating policies, from its record and, if needed, from the state it found.

The order of a request is that of `apiserver/pkg/registry/generic/registry.Store` and of
`pkg/kubeapiserver/options.AllOrderedPlugins`.
"""

from __future__ import annotations

import re

import orjson
from msgspec import Struct

from replay.audit.answer import RefusalPhase, is_forbidden, refused_by, wording_of
from replay.audit.event import RequestRecord, annotations_from_json
from replay.kcp.annotation import OWN_PREFIXES
from replay.kube.attributes import Missing
from replay.kube.denial import MUTATING_DENIAL, VALIDATING_DENIAL, WEBHOOK_DENIAL
from replay.kube.engine_policy import is_validating
from replay.reconstruct.collection import is_pending
from replay.reconstruct.history.effect import UNRESOLVED, UNTYPED, VERSION_NAMED
from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import OldObjects, deletion_began_before, sent_revision
from replay.reconstruct.record.body import BodyShape, revision
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known
from replay.reconstruct.request import Reached

MUTATION = "mutation.webhook.admission.k8s.io/"
VALIDATION_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_OF_VALIDATION = (VALIDATION_FAILURE, "apiserver.latency.k8s.io/validating-webhook")
_ESCALATION = re.compile(
    r"is attempting to grant RBAC permissions not currently held|must have cluster-admin privileges to use the aggregationRule"
)
"""Messages of RBAC's storage, which refuses between the mutating and the validating policies.

Source: `pkg/registry/rbac/*/policybased`.
"""
APPLY_CONFLICT = "Apply failed with "
"""Start of the message for an apply to fields of other managers (`patcher.applyPatch`)."""
_CONFLICTS_BEFORE = {
    "delete": ("in the precondition (", "its precondition failed"),
    "update": ("Precondition failed: UID", "its precondition failed"),
    "patch": (APPLY_CONFLICT, "other field managers own fields that it applies"),
}
"""The texts of conflicts that come before admission, by verb.

They come from `rest.BeforeDelete`, `storage.Preconditions.Check` and `patcher.applyPatch`.
"""
NAMESPACE_ABSENT = "its namespace did not exist"
NAMED_ABSENT = "an object that it names did not exist"
BAD_REQUEST, FORBIDDEN, CONFLICT, INVALID, SERVER_FAILED = 400, 403, 409, 422, 500


class RequestProgress(Struct, frozen=True):
    """The progress of a request, and the reason.

    `plugin` is the built-in plugin that denied it, recognized by its message.
    """

    reached: Reached
    reason: str = ""
    plugin: str = ""


_SUCCEEDED = RequestProgress(Reached.VALIDATION)


def progress(  # noqa: PLR0911 - one return per kind of evidence, the strongest first
    exchange: Exchange,
) -> RequestProgress | None:
    """Return what the record alone tells, or None if it depends on the object's state."""
    record = exchange.record
    if exchange.succeeded:
        return _SUCCEEDED
    annotations = annotations_from_json(record.annotations)
    if is_forbidden(annotations):
        return RequestProgress(Reached.FAILED_BEFORE, "the authorizer denied it")
    if VALIDATING_DENIAL.search(record.status_message):
        return RequestProgress(Reached.VALIDATION, "a validating policy denied it")
    if MUTATING_DENIAL.search(record.status_message):
        return RequestProgress(Reached.VALIDATION, "a mutating policy denied it")
    # The validating phase writes these annotations itself, so they prove that it ran, however the request ended.
    if _is_annotated_by_validation(annotations, is_shard=bool(record.workspace)):
        return RequestProgress(Reached.VALIDATION, "a validating policy or webhook annotated it")
    if record.code == 0:
        if exchange.is_connect:
            return RequestProgress(Reached.VALIDATION, "the connection was opened")
        return RequestProgress(Reached.UNKNOWN, exchange.response.fault or "the log does not have its response")
    if exchange.is_connect:
        return _connected(record.code, record.status_message)
    return _by_message(record.code, record.status_message, record.resource) or _by_code(exchange)


def _connected(code: int, message: str) -> RequestProgress:
    """Return how far a CONNECT got. It runs admission before it looks at the object (`handlers.ConnectResource`)."""
    if code in (401, 403) or "admission webhook" in message:
        return RequestProgress(
            Reached.UNKNOWN, f"it failed with {code}, and the log does not show whether before or after the policies"
        )
    return RequestProgress(Reached.VALIDATION, "it failed after admission")


def _by_message(  # noqa: PLR0911 - one return per message
    code: int, message: str, resource: str
) -> RequestProgress | None:
    """Return what a failure's message tells."""
    if wording := wording_of(message, resource):
        is_late = wording.phase is RefusalPhase.AFTER_VALIDATION
        reached = Reached.VALIDATION if is_late else Reached.FAILED_BEFORE
        when = "after the policies" if is_late else "before the policies"
        return RequestProgress(reached, f"{wording.plugin} denied it, and runs {when}", wording.plugin)
    if code == FORBIDDEN and _ESCALATION.search(message):
        return RequestProgress(
            Reached.FAILED_BEFORE, "the RBAC escalation check denied it, and runs before the policies"
        )
    if message.startswith(UNRESOLVED):
        return RequestProgress(
            Reached.FAILED_BEFORE, "the RBAC escalation check did not find a role, and runs before the policies"
        )
    if message.startswith(UNTYPED):
        return RequestProgress(Reached.FAILED_BEFORE, "the applied object does not match the schema of its kind")
    if code == 404 and message.startswith('namespaces "'):
        return RequestProgress(Reached.FAILED_BEFORE, NAMESPACE_ABSENT)
    if (denied := WEBHOOK_DENIAL.match(message)) and is_validating(denied[1]):
        return RequestProgress(Reached.VALIDATION, f"the validating webhook {denied[1]} denied it")
    if "admission webhook" in message:
        return RequestProgress(
            Reached.UNKNOWN, "a webhook denied it, and the log does not show whether a mutating or a validating one"
        )
    return None


def reached_mutation(record: RequestRecord) -> bool:
    """Return whether a request that failed before validation got as far as the mutating policies.

    An invalid object (422) and a concurrent change (409) show only after them. Other refusals come from the authorizer,
    the decoder or earlier plugins.
    """
    if not BAD_REQUEST <= record.code < SERVER_FAILED or record.code in (CONFLICT, INVALID):
        return True
    wording = wording_of(record.status_message, record.resource)
    if wording is not None:
        return wording.phase is not RefusalPhase.BEFORE_MUTATION
    return _ESCALATION.search(record.status_message) is not None


def is_denied_by_policy(record: RequestRecord) -> bool:
    """Return whether a validating policy refused a request. Later plugins then do not run."""
    return VALIDATING_DENIAL.search(record.status_message) is not None


def _by_code(  # noqa: PLR0911 - one return per code
    exchange: Exchange,
) -> RequestProgress | None:
    """Return what the code tells for the verb, or None if the object's state decides."""
    record = exchange.record
    code, creates = record.code, record.verb == "create"
    if code in (400, 401, 405, 406, 413, 415, 431):
        return RequestProgress(Reached.FAILED_BEFORE, f"it failed with {code} before admission")
    # The authorizer, plugins and webhooks all answer 403. Without a known message they look the same.
    if code == 403:
        return RequestProgress(Reached.UNKNOWN, "it was forbidden, and the log does not show by what")
    if code == 429:
        if record.subresource == "eviction" and "disruption budget" in record.status_message:
            return RequestProgress(Reached.VALIDATION, "the server checks the disruption budget after admission")
        return RequestProgress(Reached.FAILED_BEFORE, "the server rejected it because of load")
    if creates and record.subresource in ("binding", "eviction") and code in (404, 409):
        return RequestProgress(Reached.VALIDATION, "the server reads the pod after admission")
    if creates and not record.subresource and _is_of_storage(record):
        return RequestProgress(Reached.VALIDATION, "the storage layer rejected it, after admission")
    if creates and code == 404:
        return RequestProgress(Reached.FAILED_BEFORE, NAMED_ABSENT)
    # `rest.BeforeCreate` checks the object before `Store.Create` runs validating admission.
    if code == 422 and creates:
        return RequestProgress(Reached.FAILED_BEFORE, "the object was invalid")
    # A failed webhook call, the storage and a timeout at any point all end with such a code.
    if code >= 500:
        return RequestProgress(
            Reached.UNKNOWN, f"it failed with {code}, and the log does not show whether before or after the policies"
        )
    return None


def _is_of_storage(record: RequestRecord) -> bool:
    """Return whether the storage refused a creation (`etcd3.store.Create`)."""
    if record.code == CONFLICT:
        return record.status_reason == "AlreadyExists"
    return record.code == SERVER_FAILED and VERSION_NAMED in record.status_message


def _is_annotated_by_validation(annotations: dict[str, str], *, is_shard: bool = False) -> bool:
    """Return whether the validating phase wrote an annotation.

    Policies and webhooks write `<own name>/<key>`. The mutating phase also annotates each of its webhook calls, which
    tells its webhooks apart. Names of Kubernetes' own components end in `k8s.io` or `kubernetes.io`, or have no dot. In
    a shard of kcp no component has a name without a dot.
    """
    mutating: set[str] = set()
    for key, value in annotations.items():
        if key in _OF_VALIDATION or key.startswith("failed-open.validating.webhook.admission.k8s.io/"):
            return True
        if key.startswith(MUTATION):
            mutating.add(_webhook(value))
    for key in annotations:
        owner, slash, _ = key.partition("/")
        if not slash or owner in mutating or key.startswith(OWN_PREFIXES):
            continue
        if not _is_of_kubernetes(owner) or (is_shard and "." not in owner):
            return True
    return False


def _webhook(text: str) -> str:
    """Return the webhook that an annotation about a call names, empty if none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ""
    return str(value.get("webhook")) if isinstance(value, dict) else ""


def _is_of_kubernetes(owner: str) -> bool:
    """Return whether an annotation's prefix belongs to a component of Kubernetes."""
    if owner.endswith(".static.k8s.io"):
        return False
    return f".{owner}".endswith((".k8s.io", ".kubernetes.io")) or "." not in owner


def progress_of(exchange: Exchange, old_objects: OldObjects, plugins: frozenset[str] = frozenset()) -> RequestProgress:
    """Return how far a request got. A request that one of some running `plugins` refused reached the policies."""
    record = exchange.record
    if exchange.succeeded:
        return (record.verb == "delete" and _deleting_already(exchange, old_objects)) or _SUCCEEDED
    how_far = progress(exchange) or _by_state(exchange, old_objects.history)
    if how_far.reached is Reached.FAILED_BEFORE and plugins:
        plugin = refused_by(record.status_message, record.resource)
        return RequestProgress(Reached.VALIDATION, f"{plugin} denied it") if plugin in plugins else how_far
    return how_far


def _by_state(exchange: Exchange, history: History) -> RequestProgress:
    """Return how far a request got whose code tells only with the object's state."""
    record = exchange.record
    if record.code == 404:
        return _not_found(exchange, history)
    if record.code == 409:
        return _conflicted(exchange, history)
    if record.code == 422:
        # An update with a conflict is tried again on the new object, and policies ran for the first attempt.
        if _is_contended(exchange, history):
            return RequestProgress(Reached.UNKNOWN, "the object was invalid, possibly only in a retry after a conflict")
        return RequestProgress(Reached.FAILED_BEFORE, "the object was invalid")
    return RequestProgress(
        Reached.UNKNOWN, f"it failed with {record.code}, and the log does not show whether before or after the policies"
    )


def _deleting_already(exchange: Exchange, old_objects: OldObjects) -> RequestProgress | None:
    """Handle a successful deletion of a pod that may already be being deleted.

    Then it changes nothing and runs no policy (`Store.Delete`).
    """
    if exchange.shape is not BodyShape.OBJECT:
        return None
    if not is_pending(exchange.response.json, exchange.request.json):
        return None
    stored = revision(exchange.response.metadata)
    is_known = stored is not None and old_objects.history.index_of(exchange) is None
    # A deletion that stored nothing answers with a revision that another write stored.
    if is_known or deletion_began_before(exchange.response.metadata, exchange.record.received):
        return RequestProgress(
            Reached.FAILED_BEFORE, "the object was already being deleted, so the server ran no admission"
        )
    if not old_objects.trusted:
        return RequestProgress(
            Reached.UNKNOWN, "the object may already have been in deletion, so the server may have run no admission"
        )
    return None


def _not_found(exchange: Exchange, history: History) -> RequestProgress:
    """Return how far a request with a 404 got.

    It did not reach admission if the object was gone before, and may have passed it otherwise. If the object may have
    been gone before and nothing wrote to it meanwhile, it was gone.
    """
    state = history.at(exchange.record.received, exchange.record.stage_time)
    is_settled = isinstance(state, Missing) and history.trusted and not _is_contended(exchange, history)
    if state is None or is_settled or (isinstance(state, Known) and state.value is None):
        return RequestProgress(Reached.FAILED_BEFORE, "the object did not exist")
    return RequestProgress(Reached.UNKNOWN, "another request deleted the object at the same time")


def _conflicted(exchange: Exchange, history: History) -> RequestProgress:
    """Return how far a request with a conflict got.

    An update of an outdated version is refused before admission. One that another write overtakes is refused after it.
    """
    record = exchange.record
    sign, reason = _CONFLICTS_BEFORE.get(record.verb, ("", ""))
    if sign and sign in record.status_message:
        return RequestProgress(Reached.FAILED_BEFORE, reason)
    if record.verb == "delete":
        return RequestProgress(Reached.UNKNOWN, "another request changed the object at the same time")
    named = sent_revision(exchange)
    # Without a version, only storage can find a conflict.
    if named is None:
        return RequestProgress(
            Reached.VALIDATION, "it has no resourceVersion, so only the storage layer found the conflict"
        )
    newer = [effect for effect in history.effects if effect.revision is not None and effect.revision > named]
    if any(effect.end < record.received for effect in newer):
        return RequestProgress(Reached.FAILED_BEFORE, "an earlier request had changed the object")
    return RequestProgress(Reached.UNKNOWN, "another request changed the object at the same time")


def _is_contended(exchange: Exchange, history: History) -> bool:
    """Return whether the object was written while the request ran."""
    return len(history.window(exchange.record.received, exchange.record.stage_time)) > 1
