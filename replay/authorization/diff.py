"""Comparison of two configurations and RBAC states without a log: what is widened and what is narrowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replay.authorization.configuration import AuthorizationConfiguration, AuthorizerConfiguration
from replay.authorization.manifest import AuthorizationManifests, RBACKey, rbac_key
from replay.go.time import duration_text
from replay.json import JSON
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb

_DENY = "Deny"


def diff_authorization(
    current: AuthorizationManifests, candidate: AuthorizationManifests, default: AuthorizationConfiguration
) -> list[ObjectDiff]:
    """Return the differences of the chains, then those of the RBAC objects, sorted by kind and name.

    `default` is the chain of a set without a configuration. RBAC is compared if the candidate has RBAC objects.
    """
    differences: list[ObjectDiff] = []
    if current.configuration is not None or candidate.configuration is not None:
        current_configuration = current.configuration or default
        candidate_configuration = candidate.configuration or (current_configuration if candidate.alone else default)
        differences += _chain_differences(current_configuration, candidate_configuration)
    if candidate.rbac is not None:
        differences += _rbac_differences(current.rbac or (), candidate.rbac)
    return differences


def _chain_differences(
    current: AuthorizationConfiguration, candidate: AuthorizationConfiguration
) -> Iterator[ObjectDiff]:
    old = {each.name: each for each in current.authorizers}
    new = {each.name: each for each in candidate.authorizers}
    order = [" → ".join(names) for names in (old, new)]
    if order[0] != order[1]:
        field = FieldDiff("authorizers", Verb.CHANGED, *order)
        yield ObjectDiff("AuthorizationConfiguration", "order", Verb.CHANGED, fields=(field,))
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield ObjectDiff("Authorizer", name, Verb.REMOVED)
        elif name not in old:
            yield ObjectDiff("Authorizer", name, Verb.ADDED, fields=tuple(_authorizer_fields(None, new[name])))
        elif fields := tuple(_authorizer_fields(old[name], new[name])):
            yield ObjectDiff("Authorizer", name, Verb.CHANGED, fields=fields)


def _authorizer_fields(
    current: AuthorizerConfiguration | None, candidate: AuthorizerConfiguration
) -> Iterator[FieldDiff]:
    old, new = _texts(current), _texts(candidate)
    for field in dict.fromkeys((*old, *new)):
        one, other = old.get(field, ""), new.get(field, "")
        if one == other:
            continue
        verb = Verb.CHANGED if one and other else Verb.ADDED if other else Verb.REMOVED
        if field == "failurePolicy" and one and other:
            verb = Verb.WIDENED if one == _DENY else Verb.NARROWED
        yield FieldDiff(field, verb, one, other)
    old_conditions, new_conditions = _conditions(current), _conditions(candidate)
    if removed := old_conditions - new_conditions:
        yield FieldDiff("matchConditions", Verb.REMOVED, old="\n".join(sorted(removed)))
    if added := new_conditions - old_conditions:
        yield FieldDiff("matchConditions", Verb.ADDED, new="\n".join(sorted(added)))


def _conditions(authorizer: AuthorizerConfiguration | None) -> set[str]:
    webhook = authorizer.webhook if authorizer is not None else None
    return {text.strip() for text in webhook.match_conditions or ()} if webhook is not None else set()


def _texts(authorizer: AuthorizerConfiguration | None) -> dict[str, str]:
    """Return the fields of an authorizer as texts, without its match conditions."""
    if authorizer is None:
        return {}
    texts = {"type": authorizer.type}
    webhook = authorizer.webhook
    if webhook is not None:
        texts |= {
            "failurePolicy": webhook.failure_policy,
            "timeout": duration_text(webhook.timeout),
            "subjectAccessReviewVersion": webhook.subject_access_review_version,
            "kubeConfigFile": webhook.kube_config_file or "",
        }
    return texts


def _rbac_differences(current: Iterable[JSON], candidate: Iterable[JSON]) -> Iterator[ObjectDiff]:
    old = {rbac_key(obj): obj for obj in current}
    new = {rbac_key(obj): obj for obj in candidate}
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            yield ObjectDiff(key[0], _name(key), Verb.REMOVED)
        elif key not in old:
            yield ObjectDiff(key[0], _name(key), Verb.ADDED)
        elif fields := tuple(_object_fields(old[key], new[key])):
            verbs = {field.verb for field in fields}
            yield ObjectDiff(key[0], _name(key), verbs.pop() if len(verbs) == 1 else Verb.CHANGED, fields=fields)


def _name(key: RBACKey) -> str:
    return f"{key[1]}/{key[2]}" if key[1] else key[2]


def _object_fields(current: JSON, candidate: JSON) -> Iterator[FieldDiff]:
    """Yield the changes of a role's rules or a binding's subjects. More is widened, less is narrowed."""
    if current["kind"].endswith("Binding"):
        refs = [f"{obj['roleRef']['kind']} {obj['roleRef']['name']}" for obj in (current, candidate)]
        if refs[0] != refs[1]:
            yield FieldDiff("roleRef", Verb.CHANGED, *refs)
        yield from _set_difference("subjects", _subjects(current), _subjects(candidate))
    else:
        yield from _set_difference("rules", _grants(current.get("rules") or ()), _grants(candidate.get("rules") or ()))


def _set_difference(field: str, current: set[str], candidate: set[str]) -> Iterator[FieldDiff]:
    if current - candidate:
        yield FieldDiff(field, Verb.NARROWED, old="\n".join(sorted(current - candidate)))
    if candidate - current:
        yield FieldDiff(field, Verb.WIDENED, new="\n".join(sorted(candidate - current)))


def _subjects(binding: JSON) -> set[str]:
    subjects = binding.get("subjects") or ()
    return {" ".join(filter(None, (each.get("kind"), each.get("namespace"), each.get("name")))) for each in subjects}


def _grants(rules: Sequence[JSON]) -> set[str]:
    """Return each verb on each resource or URL, as `verb resource.group name`."""
    grants: set[str] = set()
    for rule in rules:
        targets = [*(rule.get("nonResourceURLs") or ())]
        for resource in rule.get("resources") or ():
            for group in rule.get("apiGroups") or ():
                target = f"{resource}.{group}" if group else resource
                targets += [f"{target} {name}" for name in rule.get("resourceNames") or ()] or [target]
        grants |= {f"{verb} {target}" for verb in rule.get("verbs") or () for target in targets}
    return grants
