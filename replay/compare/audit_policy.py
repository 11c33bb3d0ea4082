"""The audit policy that records exactly what a manifest set reads (`audit.k8s.io/v1` `Policy`).

A decision needs the bodies of a request if a policy reads them. It needs the responses to all earlier writes of the
object in two cases: a policy reads the old object, or the request fails and its own response is not the object. Other
requests that admission sees are recorded without bodies. Reads are not recorded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from replay.admission.reads import AUTHORIZER, NAME, NAMESPACE, OBJECT, OLD_OBJECT, OPTIONS, PARAMS, PolicyReads
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource, split_api_version
from replay.kube.rbac import RBAC_RESOURCES
from replay.matching.coarse import CONNECT_SUBRESOURCES
from replay.matching.rules import ANY, EquivalentResourceMapper

NONE, METADATA, REQUEST_RESPONSE = "None", "Metadata", "RequestResponse"
WRITES = ("create", "update", "patch", "delete", "deletecollection")
READS = ("get", "list", "watch")
CREATING = ("create", "update", "patch")
"""Verbs that can create an object: an update or an apply of an absent object creates it."""
SECRETS = GroupResource("", "secrets")
SERVICE_ACCOUNTS = GroupResource("", "serviceaccounts")
TOKEN = "serviceaccounts/token"  # noqa: S105 - the name of a subresource
CRDS = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
NAMESPACES = GroupResource("", "namespaces")
_OTHER = "\0"
"""A name that no resource has. It stands for all unknown resources."""

Need = frozenset[tuple[str, str]]
"""Pairs `(subresource, verb)` that must be recorded with bodies.

The subresource is empty for the object itself, and `*` for any.
"""

_MANAGED_FIELDS = (
    "none of these policies reads managedFields: `omitManagedFields: true` makes the log smaller, "
    "and leaves only apply requests undetermined that fail"
)

_HISTORY: Need = frozenset((subresource, verb) for subresource in ("", ANY) for verb in WRITES)


class AuditRule(Struct, frozen=True):
    """One rule. `resources` are `(group, names)` pairs, none for every resource. `comment` is its purpose."""

    level: str
    verbs: tuple[str, ...] = ()
    resources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    non_resource_urls: tuple[str, ...] = ()
    comment: str = ""

    def matches(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Return whether the rule matches a request (`apiserver/pkg/audit/policy.ruleMatches`).

        A request without a resource is for a URL of the server itself.
        """
        if self.verbs and verb not in self.verbs:
            return False
        if self.non_resource_urls:
            return not resource
        if not self.resources:
            return True
        combined = f"{resource}/{subresource}" if subresource else resource
        resource_patterns = {combined, ANY, f"{resource}/*", *([f"*/{subresource}"] if subresource else [])}
        return bool(resource) and any(
            named in (group, ANY) and (not names or not resource_patterns.isdisjoint(names))
            for named, names in self.resources
        )


class AuditPolicy(Struct, frozen=True):
    """An audit policy, in which the first matching rule counts. `notes` are hints for the operator."""

    rules: tuple[AuditRule, ...]
    omit_stages: tuple[str, ...] = ("RequestReceived",)
    notes: tuple[str, ...] = field(default=())

    def level(self, verb: str, group: str, resource: str, subresource: str) -> str:
        """Return the level at which a request is recorded. Without a matching rule it is not recorded."""
        for rule in self.rules:
            if rule.matches(verb, group, resource, subresource):
                return rule.level
        return NONE


def audit_policy(
    reads: Sequence[PolicyReads],
    discovery: Discovery,
    logged: Iterable[tuple[GroupResource, str]],
    *,
    secrets: bool = False,
) -> AuditPolicy:
    """Return the audit policy for what some sets read. `logged` are the resources and subresources in the log.

    Bodies of Secrets are left out unless `secrets` is true. Bodies of tokens are always left out.
    """
    needs = Needs(reads, discovery, logged)
    others = needs.need_for(GroupResource(_OTHER, _OTHER))
    recorded: dict[tuple[str, ...], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    spared: dict[str, list[str]] = defaultdict(list)
    notes: list[str] = []
    for resource in needs.resources:
        need = needs.need_for(resource)
        if resource == SECRETS and not secrets:
            notes += _notes_on_secrets(reads, need, needs.mapper)
            continue
        if need == others:
            continue
        for verbs, names in _entries(resource, need):
            recorded[verbs][resource.group] += names
        if not need >= others:
            spared[resource.group] += [resource.resource, f"{resource.resource}/*"]
    # The first matching rule counts, so the rules that keep bodies out of the log come first.
    rules = [*_sensitive(needs, others, secrets=secrets), *_recorded(recorded), *_spared(spared)]
    if others:
        verbs = tuple(verb for verb in WRITES if ("", verb) in others)
        rules.append(AuditRule(REQUEST_RESPONSE, verbs, comment="policies that match every resource"))
    if reads and not any(each.managed_fields for each in reads):
        notes.append(_MANAGED_FIELDS)
    return AuditPolicy((*rules, *_rest()), notes=tuple(notes))


class Needs:
    """The resources that must be recorded with bodies."""

    def __init__(
        self, reads: Sequence[PolicyReads], discovery: Discovery, logged: Iterable[tuple[GroupResource, str]]
    ) -> None:
        """The known resources are those of the discovery and those of the log."""
        self.mapper = EquivalentResourceMapper(discovery)
        self._reads = reads
        self._subresources: dict[GroupResource, set[str]] = defaultdict(set)
        for served in discovery:
            self._subresources[served.resource.group_resource].update(served.subresources)
        for resource, subresource in logged:
            if resource.resource:
                self._subresources[resource].update({subresource} - {""})
        self._custom = {served.resource.group_resource for served in discovery if served.custom}
        self._lookups = frozenset(_lookups(reads, discovery))

    @property
    def resources(self) -> list[GroupResource]:
        """All known resources, sorted."""
        return sorted(self._subresources)

    def need_for(self, resource: GroupResource) -> Need:
        """Return the need of one resource."""
        if resource in self._lookups or (resource == CRDS and self._needs_crds()):
            return _HISTORY
        need: set[tuple[str, str]] = set()
        for subresource in ("", *sorted(self._subresources.get(resource, ()))):
            for each in self._reads:
                operations = each.operations(*resource, subresource, self.mapper)
                need |= _need(each.inputs, operations, subresource)
        return frozenset(need)

    def _needs_crds(self) -> bool:
        """Return whether a policy evaluates custom resources. Their kinds come from their definitions."""
        return any(self.need_for(resource) for resource in self._custom)


def _need(inputs: frozenset[str], operations: set[str], subresource: str) -> Need:
    """Return what a policy needs of a resource that it matches with some operations."""
    objects = inputs & {OBJECT, OLD_OBJECT}
    if ("UPDATE" in operations and objects) or ("DELETE" in operations and OLD_OBJECT in inputs):
        return _HISTORY
    need: set[tuple[str, str]] = set()
    if "CREATE" in operations and (OBJECT in inputs or NAME in inputs):
        need |= {(subresource, verb) for verb in (CREATING if not subresource else ("create",))}
    if "DELETE" in operations:
        # One request, but one decision for each of the objects that the answer lists.
        need.add((subresource, "deletecollection"))
        if OPTIONS in inputs:
            need.add((subresource, "delete"))
    return frozenset(need)


def _lookups(reads: Sequence[PolicyReads], discovery: Discovery) -> Iterator[GroupResource]:
    """Yield the resources whose objects decisions look up.

    Their history is needed, because a snapshot shows one time only.
    """
    inputs = frozenset().union(*(each.inputs for each in reads))
    if NAMESPACE in inputs:
        yield NAMESPACES
    if AUTHORIZER in inputs:
        yield from RBAC_RESOURCES
    kinds = {
        (split_api_version(each.param_kind.api_version)[0], each.param_kind.kind)
        for each in reads
        if each.param_kind is not None and PARAMS in inputs
    }
    for served in discovery:
        if (served.kind.group, served.kind.kind) in kinds:
            yield served.resource.group_resource


def _entries(resource: GroupResource, need: Need) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield `(verbs, names)` of the rules that record a need.

    Token requests are never among them, because their response has the token.
    """
    by_verbs: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for subresource in sorted({each for each, _ in need}):
        verbs = tuple(verb for verb in WRITES if (subresource, verb) in need)
        name = f"{resource.resource}/{subresource}" if subresource else resource.resource
        if name != TOKEN and not (resource == SERVICE_ACCOUNTS and subresource == ANY):
            by_verbs[verbs].append(name)
    yield from by_verbs.items()


def _recorded(recorded: dict[tuple[str, ...], dict[str, list[str]]]) -> Iterator[AuditRule]:
    for verbs, groups in sorted(recorded.items(), key=lambda item: [WRITES.index(verb) for verb in item[0]]):
        resources = tuple((group, tuple(names)) for group, names in sorted(groups.items()))
        yield AuditRule(REQUEST_RESPONSE, verbs, resources, comment="what policies read")


def _spared(spared: dict[str, list[str]]) -> Iterator[AuditRule]:
    if spared:
        resources = tuple((group, tuple(names)) for group, names in sorted(spared.items()))
        yield AuditRule(METADATA, WRITES, resources, comment="less is read of these than of others")


def _sensitive(needs: Needs, others: Need, *, secrets: bool) -> Iterator[AuditRule]:
    """Yield rules that keep sensitive resources out of a later rule for every resource."""
    names = [TOKEN] if others else []
    if not secrets and (others or needs.need_for(SECRETS)):
        names.append(SECRETS.resource)
    if names:
        yield AuditRule(METADATA, WRITES, (("", tuple(sorted(names))),), comment="never with bodies")


def _rest() -> Iterator[AuditRule]:
    yield AuditRule(NONE, non_resource_urls=(ANY,), comment="admission does not run for these")
    connects = tuple(f"*/{subresource}" for subresource in CONNECT_SUBRESOURCES)
    yield AuditRule(METADATA, resources=(("", connects),), comment="admission runs for these with every verb")
    yield AuditRule(NONE, READS, comment="nor about reads; without this rule they are audited too")
    yield AuditRule(METADATA, comment="the rest is counted, and decided where no body is read")


def _notes_on_secrets(reads: Sequence[PolicyReads], need: Need, mapper: EquivalentResourceMapper) -> Iterator[str]:
    """Yield a note with the policies that stay undetermined for Secrets."""
    if not need:
        return
    names = sorted(
        each.policy
        for each in reads
        if _need(each.inputs, each.operations(*SECRETS, "", mapper), "") - {("", "deletecollection")}
    )
    if names:
        yield f"read Secrets, whose content would then be in the log (--secrets to record them): {', '.join(names)}"
