"""Inputs that the policies of a set read, and so need from an audit log and a snapshot.

Footprints of compiled expressions give the inputs of a policy, and match criteria the requests.
`replay.compare.audit_policy` derives the audit policy from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from replay.cellib.policy import compiler_of, expressions_of
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import (
    Binding,
    LabelSelector,
    MatchPolicy,
    MatchResources,
    MutatingAdmissionPolicy,
    ParamKind,
    Policy,
    Rule,
    WebhookConfiguration,
)
from replay.matching.rules import ANY, EquivalentResourceMapper, matches_resource

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
OBJECT, OLD_OBJECT, NAMESPACE, PARAMS, AUTHORIZER = "object", "oldObject", "namespaceObject", "params", "authorizer"
NAME, OPTIONS = "request.name", "request.options"
INPUTS_OF_ANY = frozenset({OBJECT, OLD_OBJECT, NAMESPACE, NAME, OPTIONS})
"""Inputs of a webhook, and of a policy that uses neither parameters nor `authorizer`."""
MANAGED_FIELDS = "metadata.managedFields"
_EVERYTHING = LabelSelector()


class PolicyReads(Struct, frozen=True):
    """The inputs that one policy or webhook reads.

    `inputs` are constants of this module, for requests that `criteria` match. Each of the `criteria` combines a binding
    with its policy. `managed_fields` says that it reads `metadata.managedFields`. `param_kind` is the kind of its
    parameters.
    """

    policy: str
    criteria: tuple[tuple[MatchResources, ...], ...]
    inputs: frozenset[str]
    param_kind: ParamKind | None = None
    managed_fields: bool = False
    paths: frozenset[str] = frozenset({OBJECT, OLD_OBJECT})
    """Paths that it reads, in the form of footprints. Changed paths count as read."""

    def operations(self, group: str, resource: str, subresource: str, mapper: EquivalentResourceMapper) -> set[str]:
        """Return the operations on a resource or subresource that the policy may evaluate."""
        operations: set[str] = set()
        for together in self.criteria:
            matched = [_operations(each, (group, resource, subresource), mapper) for each in together]
            operations |= set.intersection(*matched) if matched else set()
        return operations


def policy_reads(
    policies: Iterable[tuple[Policy, Iterable[Binding]]], version: KubernetesVersion
) -> Iterator[PolicyReads]:
    """Yield the reads of each policy that has a binding."""
    for policy, bindings in policies:
        # A static policy has static bindings alone, and another policy has none of them.
        bound = [each for each in bindings if each.static is policy.static]
        if policy.match_constraints is None or not bound:
            continue
        criteria = tuple(
            (policy.match_constraints, *([each.match_resources] if each.match_resources else [])) for each in bound
        )
        paths = _paths(policy, version)
        managed = any(map(_reads_managed_fields, paths))
        selected = _selected(match for together in criteria for match in together)
        inputs = _inputs(paths) | selected
        paths |= {f"{each}.metadata.labels" for each in (OBJECT, OLD_OBJECT) if each in selected}
        # A mutation needs the whole object, because it changes it.
        if isinstance(policy, MutatingAdmissionPolicy):
            inputs |= {OBJECT}
            paths |= {OBJECT}
        yield PolicyReads(policy.name, criteria, inputs, policy.param_kind, managed, paths)


def webhook_reads(configurations: Iterable[WebhookConfiguration]) -> Iterator[PolicyReads]:
    """Yield the reads of each webhook: all inputs."""
    for configuration in configurations:
        for webhook in configuration.webhooks:
            match = MatchResources(
                webhook.namespace_selector, webhook.object_selector, webhook.rules, match_policy=webhook.match_policy
            )
            yield PolicyReads(webhook.name, ((match,),), INPUTS_OF_ANY, managed_fields=True)


def _paths(policy: Policy, version: KubernetesVersion) -> frozenset[str]:
    """Return the footprint of all expressions of a policy. An expression that does not compile reads nothing."""
    compiler = compiler_of(policy, version)
    return frozenset().union(*(compiler.compile(each.kind, each.text).footprint for each in expressions_of(policy)))


def _reads_managed_fields(path: str) -> bool:
    """Return whether a path reads the managed fields of an object, or a part above or below them."""
    for root in (OBJECT, OLD_OBJECT):
        place = f"{root}.{MANAGED_FIELDS}"
        if path.startswith(place) or place.startswith(f"{path}."):
            return True
    return False


def _inputs(paths: Iterable[str]) -> frozenset[str]:
    """Return the inputs that paths read. A path that ends early, such as `request`, reads everything below it."""
    inputs = set()
    for path in paths:
        root = path.partition(".")[0].partition("[")[0].rstrip("?")
        if root.startswith(AUTHORIZER):
            inputs.add(AUTHORIZER)
        elif root == "request":
            inputs |= {each for each in (NAME, OPTIONS) if path.startswith(each) or path == root}
            if path.startswith("request.dryRun"):
                inputs.add(OPTIONS)  # the options of a deletion say it
        elif root in (OBJECT, OLD_OBJECT, NAMESPACE, PARAMS):
            inputs.add(root)
    return frozenset(inputs)


def _selected(criteria: Iterable[MatchResources]) -> frozenset[str]:
    """Return the inputs that the selectors of match criteria read."""
    inputs = set()
    for match in criteria:
        if match.object_selector != _EVERYTHING:
            inputs |= {OBJECT, OLD_OBJECT}
        if match.namespace_selector != _EVERYTHING:
            inputs.add(NAMESPACE)
    return frozenset(inputs)


def _operations(match: MatchResources, where: tuple[str, str, str], mapper: EquivalentResourceMapper) -> set[str]:
    """Return the operations that match criteria allow for `(group, resource, subresource)`.

    Without rules, all operations are allowed.
    """
    groups = {where[0]}
    if match.match_policy is MatchPolicy.EQUIVALENT:
        groups |= mapper.equivalent_groups(where[0], where[1])
    operations = set() if match.resource_rules else set(OPERATIONS)
    for rule in match.resource_rules:
        if _covers(rule, groups, where):
            operations.update(OPERATIONS if ANY in rule.operations else rule.operations)
    for rule in match.exclude_resource_rules:
        # Only an exclusion that covers every request of the resource takes operations away.
        is_whole_resource = not rule.resource_names and rule.scope == ANY and ANY in rule.api_versions
        if is_whole_resource and _covers(rule, {where[0]}, where):
            operations.difference_update(OPERATIONS if ANY in rule.operations else rule.operations)
    return operations


def _covers(rule: Rule, groups: set[str], where: tuple[str, str, str]) -> bool:
    """Return whether a rule covers the resource or subresource."""
    named = ANY in rule.api_groups or bool(groups & set(rule.api_groups))
    return named and any(matches_resource(pattern, where[1], where[2]) for pattern in rule.resources)
