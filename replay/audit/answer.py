"""Admission decisions in an audit event: response messages, annotations, and refusals by built-in plugins.

Wordings and annotation keys are those of `k8s.io/apiserver` (`plugin/policy/validating/dispatcher.go`,
`plugin/policy/generic/policy_dispatcher.go`, `plugin/webhook/errors/statuserror.go`,
`plugin/webhook/mutating/dispatcher.go`). Older servers wrote the same text of a denial, and only one entry in
`validation_failure`. Refusals by built-in plugins are recognised by their messages
(`k8s.io/kubernetes/plugin/pkg/admission`). Python and RE2 must read these patterns alike, because the SQL of the view
`decision` contains them too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson
from msgspec import Struct, field

from replay.audit import queries
from replay.audit.engine import literal
from replay.audit.event import RequestRecord, annotations_from_json
from replay.json import decode_json
from replay.kcp.annotation import OWN_PREFIXES
from replay.kube.denial import DENIAL
from replay.kube.engine_policy import named_by


def is_forbidden(annotations: Mapping[str, str]) -> bool:
    """Return whether the authorizers refused a request. The API server does not read the body of such a request."""
    return annotations.get("authorization.k8s.io/decision") == "forbid"


class RefusalPhase(StrEnum):
    """Phase in which a plugin runs: before or after the policies."""

    BEFORE_MUTATION = "before the policies that mutate"
    BEFORE_VALIDATION = "before the policies that validate"
    AFTER_VALIDATION = "after the policies"


class RefusalWording(NamedTuple):
    """A pattern for the messages of one plugin. For requests about `never_of`, the server itself uses the same text."""

    plugin: str
    phase: RefusalPhase
    pattern: re.Pattern[str]
    never_of: str = ""


_EARLY, _LATE = RefusalPhase.BEFORE_MUTATION, RefusalPhase.BEFORE_VALIDATION
_PATTERNS: Final[tuple[tuple[str, RefusalPhase, tuple[str, ...]], ...]] = (
    (
        "PodSecurity",
        _LATE,
        (
            r'violates PodSecurity "',
            r'^Namespace "[^"]*" is invalid: \[?metadata\.labels\[pod-security\.kubernetes\.io/',
            r'^Internal error occurred: failed to lookup namespace "',
        ),
    ),
    (
        "ResourceQuota",
        RefusalPhase.AFTER_VALIDATION,
        (
            r"(?:exceeded|failed) quota: ",
            r"insufficient quota to ",
            r"status unknown for quota: ",
            r": quota usage is negative for resource",
            r": unable to get previous usage since prior version",
            r"resource quota evaluation timed out",
        ),
    ),
    (
        "LimitRanger",
        _LATE,
        (
            r"(?:minimum|maximum) \S+ usage per (?:Pod|Container|PersistentVolumeClaim) is ",
            r"\S+ max limit to request ratio per ",
            r"because there was an error enforcing limit ranges",
        ),
    ),
    (
        "NamespaceLifecycle",
        _EARLY,
        (r"unable to create new content in namespace ", r": this namespace may not be deleted$"),
    ),
    (
        "ServiceAccount",
        _EARLY,
        (
            r": error looking up service account ",
            r": a mirror pod may not (?:reference|use) ",
            r": no service account specified for pod ",
            r"is not allowed because service account \S+ does not reference that ",
        ),
    ),
    (
        "Priority",
        _EARLY,
        (
            r": no PriorityClass with name ",
            r"must not be provided in pod(?: group)? spec; priority admission controller",
        ),
    ),
    ("Priority", _LATE, (r" is already marked as default\. Only one default can exist",)),
    (
        "OwnerReferencesPermissionEnforcement",
        _LATE,
        (
            r": cannot set blockOwnerDeletion (?:if an ownerReference|in this case because)",
            r": cannot set an ownerRef on a resource you can't delete",
        ),
    ),
    ("DenyServiceExternalIPs", _LATE, (r": Use of external IPs is denied by admission control",)),
    ("EventRateLimit", _LATE, (r"Too many requests: \[?limit reached on type ",)),
    (
        "NodeRestriction",
        _EARLY,
        (
            r': (?:unexpected operation "[^"]*", )?node \S+ (?:is not allowed|can only|can ?not|must not) ',
            r": could not determine node from user ",
            r": unexpected pod subresource ",
            r': pod does not have "kubernetes\.io/config\.mirror" annotation, node ',
            r": error looking up node \S+ to verify uid",
            r": node \S+ UID mismatch: ",
            r": is not allowed to modify labels: ",
            r": may only update PVC status",
            r"is not authorized to request tokens for audience ",
            r": node requested token ",
            r": node may only request 0 or 1 audiences",
            r": the UID in the bound object reference \(",
            r": can only access (?:node lease|leases in the|CSINode) ",
            r": can only (?:create|delete) ResourceSlice with the same NodeName",
            r": can only create a node CSR with CN=",
            r": unable to parse csr: ",
            r"PodCertificateRequest(?:\.Spec\.NodeName=| for pod )",
            r"named in the PodCertificateRequest",
            r'^pod "[^"]*" not found$',
        ),
    ),
    (
        "RuntimeClass",
        _EARLY,
        (
            r': pod rejected: (?:RuntimeClass "|Pod.s Overhead doesn)',
            r": conflict: runtimeClass\.scheduling\.nodeSelector\[",
        ),
    ),
    ("RuntimeClass", _LATE, (r": pod rejected: Pod Overhead set without ",)),
    (
        "PodNodeSelector",
        _EARLY,
        (r": pod node label selector conflicts with its namespace", r"^invalid selector: \["),
    ),
    ("PodNodeSelector", _LATE, (r": pod node label selector labels conflict with its namespace",)),
    (
        "PodTolerationRestriction",
        _LATE,
        (r"pod tolerations \(possibly merged with namespace default tolerations\) conflict",),
    ),
    (
        "PersistentVolumeClaimResize",
        _LATE,
        (
            r": only dynamically provisioned pvc can be resized",
            r": Only bound persistent volume claims can be expanded",
        ),
    ),
    (
        "LimitPodHardAntiAffinityTopology",
        _LATE,
        (r": affinity\.PodAntiAffinity\.RequiredDuringScheduling has TopologyKey ",),
    ),
    (
        "ImagePolicyWebhook",
        _LATE,
        (
            r": one or more images rejected by webhook backend",
            r": image policy webhook backend denied one or more images: ",
        ),
    ),
    (
        "AlwaysPullImages",
        _LATE,
        (r'(?:imagePullPolicy|image\.pullPolicy): Unsupported value: "[^"]*": supported values: "Always"',),
    ),
    ("CertificateApproval", _LATE, (r": user not permitted to approve requests with signerName ",)),
    ("CertificateSigning", _LATE, (r": user not permitted to sign requests with signerName ",)),
    ("ClusterTrustBundleAttest", _LATE, (r": user not permitted to attest for signerName ",)),
    (
        "CertificateSubjectRestriction",
        _LATE,
        (r": use of \S+ signer with system:masters group is not allowed", r": failed to parse CSR: "),
    ),
    (
        "PodResizeValidator",
        _LATE,
        (
            r": pod resize is only supported on linux nodes",
            r": node didn't have enough allocatable resources: ",
        ),
    ),
    ("NodeDeclaredFeatureValidator", _LATE, (r": pod update requires features ",)),
    ("AlwaysDeny", _LATE, (r": admission control is denying all modifications$",)),
)
_ABSENT: Final = RefusalWording(
    "NamespaceLifecycle", _EARLY, re.compile(r'^namespaces "[^"]*" not found$'), never_of="namespaces"
)
"""Wording for an absent namespace. NamespaceExists and PodTolerationRestriction use the same words, but run later."""
WORDINGS: Final = (
    *(RefusalWording(plugin, phase, re.compile("|".join(parts))) for plugin, phase, parts in _PATTERNS),
    _ABSENT,
)


@lru_cache(maxsize=1024)
def wording_of(message: str, resource: str = "") -> RefusalWording | None:
    """Return the wording of a message, or None if it is unknown. `resource` is that of the request."""
    for wording in WORDINGS:
        if (not wording.never_of or wording.never_of != resource) and wording.pattern.search(message):
            return wording
    return None


def denied_by(message: str, resource: str = "") -> str:
    """Return the built-in plugin whose configuration a refusal depends on, or "".

    NamespaceLifecycle is not included. It refuses because of the namespace's state, under every set.
    """
    plugin = refused_by(message, resource)
    return "" if plugin == "NamespaceLifecycle" else plugin


def refused_by(message: str, resource: str = "") -> str:
    """Return the built-in plugin that wrote a response message, or "" if none is recognised."""
    wording = wording_of(message, resource)
    return wording.plugin if wording is not None else ""


def sql_refused_by(message: str, resource: str) -> str:
    """Return SQL for `refused_by`. `message` and `resource` are SQL expressions."""
    cases = []
    for each in WORDINGS:
        condition = f"regexp_matches({message}, {literal(each.pattern.pattern)})"
        if each.never_of:
            condition += f" and {resource} <> {literal(each.never_of)}"
        cases.append(f"when {condition} then {literal(each.plugin)}")
    return f"case {' '.join(cases)} else '' end"


def decision_views() -> str:
    """Return the SQL of the views of admission decisions."""
    return queries.filled("ingest_decision_views", refused_by=sql_refused_by("status_message", "resource"))


VALIDATION_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_MUTATION = "mutation.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"
_FAILED_OPEN = ("failed-open.mutation.webhook.admission.k8s.io/", "failed-open.validating.webhook.admission.k8s.io/")
_FOREIGN = (
    *OWN_PREFIXES,
    "authorization.k8s.io/",
    "authentication.k8s.io/",
    "authentication.kubernetes.io/",
    "audit.k8s.io/",
    "apiserver.latency.k8s.io/",
    "k8s.io/",
)


class ObservedDenial(Struct, frozen=True):
    """The denial that the client saw. `policy` is the name of a policy or a webhook. `binding` is empty for a webhook."""

    policy: str
    binding: str
    message: str
    webhook: bool = False

    @property
    def by_policy(self) -> tuple[ObservedDenial, ...]:
        """The denials by engine policies that the message names, with the webhook as `binding`.

        Without any, this denial alone.
        """
        named = named_by(self.policy, self.message)
        parts = [ObservedDenial(name, self.policy, said, webhook=True) for name, said in named]
        return tuple(parts) or (self,)


class WebhookMutation(Struct, frozen=True):
    """One `mutation.webhook…` annotation.

    `patch` is the recorded JSON patch, or None if there is none or the level is below Request.
    """

    round: int
    index: int
    configuration: str
    webhook: str
    mutated: bool
    patch: tuple[Any, ...] | None


class Observed(Struct, frozen=True):
    """All facts about admission in one event.

    `failures` are the entries of `validation_failure`, as the server wrote them. `annotations` are all annotations, or
    none if none is about admission.
    """

    denial: ObservedDenial | None = None
    refusal: ObservedDenial | None = None
    """The refusal by a built-in plugin, with the name of the plugin as `policy`."""
    failures: tuple[Mapping[str, Any], ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def policy_annotations(self) -> dict[str, str]:
        """The annotations of policies and webhooks, by `<name>/<key>`."""
        return {
            key: value
            for key, value in self.annotations.items()
            if not key.startswith(_FOREIGN) and "admission.k8s.io/" not in key
        }

    @property
    def mutations(self) -> tuple[WebhookMutation, ...]:
        """The webhooks' annotations, in call order."""
        return _mutations(self.annotations)

    @property
    def failed_open(self) -> dict[str, str]:
        """Annotation keys, with the webhooks that failed and were ignored."""
        return {key: value for key, value in self.annotations.items() if key.startswith(_FAILED_OPEN)}


NOTHING_OBSERVED = Observed()
"""The observation of an event without facts about admission. Most events are of this kind."""


def observed_denial(status_message: str) -> ObservedDenial | None:
    """Return the denial in a response message, or None."""
    match = DENIAL.search(status_message)
    if match is None:
        return None
    if match["policy"] is not None:
        return ObservedDenial(match["policy"], match["binding"] or "", match["message"])
    return ObservedDenial(match["webhook"], "", match["said"] or match["failure"] or "", webhook=True)


def _refusal(record: RequestRecord, denial: ObservedDenial | None) -> ObservedDenial | None:
    if denial is not None or not record.status_message:
        return None
    plugin = refused_by(record.status_message, record.resource)
    return ObservedDenial(plugin, "", record.status_message) if plugin else None


def observe(record: RequestRecord) -> Observed:
    """Return the decisions in one record. Annotations that are not JSON count as absent."""
    denial = observed_denial(record.status_message) if record.code >= 400 and record.status_message else None
    text = record.annotations
    if not text or ("admission.k8s.io/" not in text and _has_only_authorizer_annotations(text)):
        return Observed(denial, _refusal(record, denial)) if record.code >= 400 else NOTHING_OBSERVED
    annotations = annotations_from_json(text)
    refusal = _refusal(record, denial) if record.code >= 400 else None
    failures = annotations.get(VALIDATION_FAILURE)
    return Observed(denial, refusal, _failures(failures) if failures else (), annotations)


def _has_only_authorizer_annotations(text: str) -> bool:
    """Return whether the annotations are only the two of the authorizer, as in most events. They need not be decoded."""
    return text.count('":"') <= text.count('"authorization.k8s.io/')


def _failures(text: str) -> tuple[Mapping[str, Any], ...]:
    """Return the entries of a `validation_failure` annotation. Older servers wrote an object instead of a list."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ()
    entries = value if isinstance(value, list) else [value]
    return tuple([entry for entry in entries if isinstance(entry, dict)])


def _mutations(annotations: Mapping[str, str]) -> tuple[WebhookMutation, ...]:
    mutations = []
    for key, text in annotations.items():
        match = (
            re.fullmatch(r"round_(\d+)_index_(\d+)", key.removeprefix(_MUTATION)) if key.startswith(_MUTATION) else None
        )
        if match is None:
            continue
        value = _object(text)
        patch = _object(annotations.get(_PATCH + match[0], ""))
        mutations.append(
            WebhookMutation(
                int(match[1]),
                int(match[2]),
                str(value.get("configuration", "")),
                str(value.get("webhook", "")),
                value.get("mutated") is True,
                tuple(patch["patch"]) if isinstance(patch.get("patch"), list) else None,
            )
        )
    return tuple(sorted(mutations, key=lambda mutation: (mutation.round, mutation.index)))


def _object(text: str) -> dict[str, Any]:
    try:
        value = decode_json(text) if text else {}
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
