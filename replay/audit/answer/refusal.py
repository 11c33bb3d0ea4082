"""Recognition of refusals by built-in admission plugins, by their messages (`k8s.io/kubernetes/plugin/pkg/admission`).

Python and RE2 must read the patterns alike, because the SQL of the view `decision` contains them too.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from replay.audit import queries
from replay.audit.engine import literal


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
    wordings = (each for each in WORDINGS if not each.never_of or each.never_of != resource)
    return next((each for each in wordings if each.pattern.search(message)), None)


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
