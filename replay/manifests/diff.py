"""Comparison of manifest sets without a log: policies and bindings that are added, removed, renamed or changed.

Two sets are compared object by object, by kind and name. A match is *widened* if the candidate matches all that the
baseline matches, and more. It is *narrowed* in the opposite case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.policy import compiler_of, expressions_of
from replay.cellib.version import KubernetesVersion, Versions
from replay.kube.admissionregistration import (
    TYPES,
    LabelSelector,
    ManifestSet,
    MatchResources,
    Policy,
    Rule,
    Webhook,
    rule_text,
    selector_text,
)
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb
from replay.manifests.server.settings import diff_server
from replay.manifests.static_rule import static_twin

_API_NAMES = {
    "api_groups": "apiGroups",
    "api_versions": "apiVersions",
    "ca_bundle": "caBundle",
}
_NOT_COMPARED = frozenset({"name", "static"})


def diff_sets(current: ManifestSet, candidate: ManifestSet) -> tuple[ObjectDiff, ...]:
    """Return the differing objects, by kind in the order of the set, then by name."""
    differences: list[ObjectDiff] = []
    for registered in TYPES:
        kind = registered.__name__
        renamed_policies = {
            each.name: each.new_name for each in differences if f"{each.kind}Binding" == kind and each.new_name
        }
        before, after = current.of(registered), candidate.of(registered)
        moved = moved_names(before, after)
        differences += _diff_moved(kind, before, after, moved)
        before = tuple(each for each in before if each.name not in moved)
        after = tuple(each for each in after if each.name not in moved.values())
        differences += _diff_objects(kind, before, after, renamed_policies)
    return (*differences, *_diff_outage(current, candidate), *diff_server(current, candidate))


def _diff_outage(current: ManifestSet, candidate: ManifestSet) -> Iterator[ObjectDiff]:
    """Yield the webhooks that answer in one set only."""
    for name in sorted(current.down ^ candidate.down):
        texts = ("no" if name in each.down else "yes" for each in (current, candidate))
        yield ObjectDiff("Webhook", name, Verb.CHANGED, (FieldDiff("answers", Verb.CHANGED, *texts),))


def moved_names(current: Sequence[Any], candidate: Sequence[Any]) -> dict[str, str]:
    """Return the new names of objects that moved between the API and static manifests.

    Both names differ only in the reserved suffix.
    """
    old, new = ({each.name: each for each in side} for side in (current, candidate))
    moved = {}
    for name in old.keys() - new.keys():
        other = static_twin(name)
        if other in new and other not in old and new[other].static is not old[name].static:
            moved[name] = other
    return dict(sorted(moved.items()))


def _diff_moved(
    kind: str, current: Sequence[Any], candidate: Sequence[Any], moved: Mapping[str, str]
) -> Iterator[ObjectDiff]:
    """Yield each object that moved, with its other differences.

    A binding that only follows its moved policy has no other difference.
    """
    old, new = ({each.name: each for each in side} for side in (current, candidate))
    for name, other in moved.items():
        before, after = old[name], new[other]
        policy = getattr(before, "policy_name", "")
        if policy and static_twin(policy) == after.policy_name:
            before = replace(before, policy_name=after.policy_name)
        yield ObjectDiff(kind, name, Verb.MOVED, tuple(_diff_values("", before, after)), other)


def _diff_objects(
    kind: str, current: Sequence[Any], candidate: Sequence[Any], renamed_policies: Mapping[str, str]
) -> list[ObjectDiff]:
    """Return the differences of objects of one kind.

    `renamed_policies` are the renamed policies of bindings: a binding that follows its policy is renamed too.
    """
    old = {obj.name: obj for obj in current}
    new = {obj.name: obj for obj in candidate}
    renamed = _renamed(old, new) | _renamed_bindings(old, new, renamed_policies)
    diffs = [
        ObjectDiff(kind, name, Verb.RENAMED, _diff_renamed(old[name], new[new_name], renamed_policies), new_name)
        for name, new_name in renamed.items()
    ]
    for name in old.keys() | new.keys():
        if name in renamed or name in renamed.values():
            continue
        if name not in new:
            diffs.append(ObjectDiff(kind, name, Verb.REMOVED))
        elif name not in old:
            diffs.append(ObjectDiff(kind, name, Verb.ADDED, tuple(_described(new[name]))))
        elif changes := tuple(_diff_values("", old[name], new[name])):
            diffs.append(ObjectDiff(kind, name, Verb.CHANGED, changes))
    return sorted(diffs, key=lambda each: each.name)


def _renamed(old: dict[str, Any], new_objects: dict[str, Any]) -> dict[str, str]:
    """Return the objects that differ only in their name: old names to new names."""
    gone = {name: replace(obj, name="") for name, obj in old.items() if name not in new_objects}
    added = {name: replace(obj, name="") for name, obj in new_objects.items() if name not in old} if gone else {}
    renamed: dict[str, str] = {}
    for name, obj in gone.items():
        if (new_name := next((new for new, other in added.items() if obj == other), None)) is not None:
            renamed[name] = new_name
            # Each added object is the new name of one object at most.
            del added[new_name]
    return renamed


def _renamed_bindings(old: dict[str, Any], new: dict[str, Any], renamed_policies: Mapping[str, str]) -> dict[str, str]:
    """Return the renamed bindings of renamed policies. Each policy must have exactly one binding before and after."""
    renamed: dict[str, str] = {}
    for old_policy, new_policy in renamed_policies.items():
        gone = [name for name, obj in old.items() if obj.policy_name == old_policy and name not in new]
        come = [name for name, obj in new.items() if obj.policy_name == new_policy and name not in old]
        if len(gone) == len(come) == 1:
            renamed[gone[0]] = come[0]
    return renamed


def _diff_renamed(old: Any, new: Any, renamed_policies: Mapping[str, str]) -> tuple[FieldDiff, ...]:
    """Return the differences except the names of the object and of its policy."""
    if renamed_policies.get(getattr(old, "policy_name", "")) == getattr(new, "policy_name", ""):
        old = replace(old, policy_name=new.policy_name)
    return tuple(_diff_values("", old, new))


def _described(obj: Any) -> Iterator[FieldDiff]:
    """Yield the effect of an added object, in one or two fields."""
    match = getattr(obj, "match_constraints", None)
    if match is not None:
        yield FieldDiff("matchConstraints", Verb.ADDED, "", _match_text(match))
    for webhook in getattr(obj, "webhooks", ()):
        yield FieldDiff(f"webhooks[{webhook.name}]", Verb.ADDED, "", "; ".join(map(rule_text, webhook.rules)))
    if getattr(obj, "policy_name", ""):
        actions = ", ".join(getattr(obj, "validation_actions", ()))
        yield FieldDiff("policyName", Verb.ADDED, "", f"{obj.policy_name} ({actions})" if actions else obj.policy_name)


def _match_text(match: MatchResources) -> str:
    return "; ".join(map(rule_text, match.resource_rules))


def _diff_values(path: str, old: Any, new: Any) -> Iterator[FieldDiff]:
    """Yield the differences of two values of one type, field by field, and of lists item by item."""
    if old == new:
        return
    if isinstance(old, MatchResources) and isinstance(new, MatchResources):
        yield from _diff_match(path, old, new)
    elif isinstance(old, LabelSelector) and isinstance(new, LabelSelector):
        yield _diff_selector(path, old, new)
    elif isinstance(old, tuple) and isinstance(new, tuple):
        yield from _diff_lists(path, old, new)
    elif isinstance(old, Struct) and type(old) is type(new):
        for name in old.__struct_fields__:
            if path or name not in _NOT_COMPARED:
                inner = f"{path}.{api_name(name)}" if path else api_name(name)
                yield from _diff_values(inner, getattr(old, name), getattr(new, name))
    else:
        yield FieldDiff(path, _verb(old, new), _text(old), _text(new))


def _verb(old: Any, new: Any) -> Verb:
    if old in (None, "", ()):
        return Verb.ADDED
    return Verb.REMOVED if new in (None, "", ()) else Verb.CHANGED


def _diff_lists(path: str, current: tuple[Any, ...], candidate: tuple[Any, ...]) -> Iterator[FieldDiff]:
    items = (*current, *candidate)
    if all(isinstance(item, Rule) for item in items):
        yield _diff_rules(path, current, candidate)
    elif all(isinstance(item, str) for item in items):
        yield FieldDiff(path, _verb(current, candidate), ", ".join(current), ", ".join(candidate))
    elif all(hasattr(item, "name") or hasattr(item, "key") for item in items):
        yield from _diff_named(path, current, candidate)
    else:
        for index in range(max(len(current), len(candidate))):
            old = current[index] if index < len(current) else None
            new = candidate[index] if index < len(candidate) else None
            yield from _diff_values(f"{path}[{index}]", old, new)


def _diff_named(path: str, current: tuple[Any, ...], candidate: tuple[Any, ...]) -> Iterator[FieldDiff]:
    """Yield the differences of items with a name or key. A new order counts, because it is the order of evaluation."""
    old, new = ({getattr(item, "name", None) or item.key: item for item in items} for items in (current, candidate))
    for name in dict.fromkeys((*old, *new)):
        yield from _diff_values(f"{path}[{name}]", old.get(name), new.get(name))
    if list(old) != list(new) and old.keys() == new.keys():
        yield FieldDiff(path, Verb.CHANGED, f"in order {', '.join(old)}", f"in order {', '.join(new)}")


def _diff_match(path: str, current: MatchResources, candidate: MatchResources) -> Iterator[FieldDiff]:
    for name in MatchResources.__struct_fields__:
        old, new = getattr(current, name), getattr(candidate, name)
        if old == new:
            continue
        at = f"{path}.{api_name(name)}"
        if name == "exclude_resource_rules":
            # What is excluded more is matched less.
            diff = _diff_rules(at, new, old)
            yield FieldDiff(at, diff.verb, diff.new, diff.old)
        elif name == "resource_rules":
            yield _diff_rules(at, old, new)
        elif isinstance(old, LabelSelector):
            yield _diff_selector(at, old, new)
        else:
            verb = Verb.WIDENED if new == "Equivalent" else Verb.NARROWED
            yield FieldDiff(at, verb, str(old), str(new))


def _diff_selector(path: str, current: LabelSelector, candidate: LabelSelector) -> FieldDiff:
    old, new = _requirements(current), _requirements(candidate)
    verb = Verb.WIDENED if new < old else Verb.NARROWED if old < new else Verb.CHANGED
    return FieldDiff(path, verb, selector_text(current), selector_text(candidate))


def _requirements(selector: LabelSelector) -> frozenset[object]:
    """Return all requirements of a selector. More requirements select fewer objects."""
    return frozenset((*selector.match_labels.items(), *selector.match_expressions))


def _diff_rules(path: str, current: tuple[Rule, ...], candidate: tuple[Rule, ...]) -> FieldDiff:
    wider = all(any(_covers(new, old) for new in candidate) for old in current)
    narrower = all(any(_covers(old, new) for old in current) for new in candidate)
    verb = Verb.WIDENED if wider and not narrower else Verb.NARROWED if narrower and not wider else Verb.CHANGED
    return FieldDiff(path, verb, "; ".join(map(rule_text, current)), "; ".join(map(rule_text, candidate)))


def _covers(one: Rule, other: Rule) -> bool:
    """Return whether a rule alone matches everything that another rule matches."""
    lists = (
        (one.operations, other.operations),
        (one.api_groups, other.api_groups),
        (one.api_versions, other.api_versions),
    )
    if not all("*" in wide or set(narrow) <= set(wide) for wide, narrow in lists):
        return False
    if not all(any(_resource_covers(wide, narrow) for wide in one.resources) for narrow in other.resources):
        return False
    if one.scope not in ("*", other.scope):
        return False
    named = bool(other.resource_names) and set(other.resource_names) <= set(one.resource_names)
    # A rule without names matches every name.
    return not one.resource_names or named


def _resource_covers(wide: str, narrow: str) -> bool:
    """Return whether one resource pattern includes another.

    `*` is all resources without subresources, and `*/*` is everything. `pods/*` and `*/scale` have a wildcard on one
    side.
    """
    if wide in (narrow, "*/*"):
        return True
    resource, slash, subresource = wide.partition("/")
    other, other_slash, other_subresource = narrow.partition("/")
    return (
        bool(slash) == bool(other_slash) and resource in ("*", other) and subresource in ("*", other_subresource)
        if slash
        else wide == "*" and not other_slash
    )


def api_name(name: str) -> str:
    """Return a field's name as the API spells it."""
    head, *rest = name.split("_")
    return _API_NAMES.get(name) or head + "".join(part.capitalize() for part in rest)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, MatchResources):
        return _match_text(value) or "everything"
    if isinstance(value, Struct):
        shown = (getattr(value, name) for name in value.__struct_fields__)
        return ": ".join(str(item) for item in shown if item not in ("", None, ()))
    return str(value)


# Expressions that compile on a server of only one of two versions, for the same objects and without a log.

COMPILES = "compiles"


def diff_minors(current: ManifestSet, candidate: ManifestSet, versions: Versions) -> Iterator[ObjectDiff]:
    """Yield the unchanged objects with expressions that compile on only one server, with the error of the other."""
    if not versions.differ:
        return
    before, after = ({(kind, name): each for kind, name, each in _holders(of_set)} for of_set in (current, candidate))
    for key, holder in after.items():
        if before.get(key) != holder:
            continue
        old, new = (dict(_errors(holder, version)) for version in versions)
        changes = tuple(_changes(old, new, versions))
        if changes:
            yield ObjectDiff(*key, Verb.CHANGED, changes)


def _changes(before: dict[str, str], after: dict[str, str], versions: Versions) -> Iterator[FieldDiff]:
    for path, old in before.items():
        new = after[path]
        if bool(old) != bool(new):
            told = (f"on {minor}: {text or COMPILES}" for minor, text in zip(versions, (old, new), strict=True))
            yield FieldDiff(path, Verb.CHANGED, *told)


def _holders(manifests: ManifestSet) -> Iterator[tuple[str, str, Policy | Webhook]]:
    for policy in manifests.policies:
        yield policy.kind, policy.name, policy
    for configuration in manifests.configurations():
        for webhook in configuration.webhooks:
            yield configuration.kind, f"{configuration.name}/{webhook.name}", webhook


def _errors(holder: Policy | Webhook, version: KubernetesVersion) -> Iterator[tuple[str, str]]:
    """Yield the error of each stored expression in one line. It is empty if the expression compiles."""
    if isinstance(holder, Webhook):
        compiler = ExpressionCompiler(version, has_params=False)
    else:
        compiler = compiler_of(holder, version)
        for index, variable in enumerate(holder.variables):
            yield f"spec.variables[{index}].expression", _line(compiler.variables[variable.name])
    for path, kind, text in expressions_of(holder):
        yield path, _line(compiler.compile(kind, text))


def _line(compiled: CompiledExpression) -> str:
    return " ".join((compiled.error or "").partition("\n |")[0].split())
