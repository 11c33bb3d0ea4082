"""Several sets at once: what they share, and what one of them carries over to the object of the time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replay.admission.decision import Decision, Verdict
from replay.admission.ordered.registry import BUILTIN_PLUGINS, names_decided_alike
from replay.cellib.version import NEWEST
from replay.manifests.manifest_set import manifest_set_from_objects
from tests.support.chain_sets import ADD_A, ADD_SIDECAR, POD, add, decide, policy, request, validating


def test_another_set_validates_the_object_as_the_server_would_have_made_it() -> None:
    stored = {**POD, "metadata": {**POD["metadata"], "uid": "u-1"}, "status": {"phase": "Pending"}}
    candidate = [
        *policy("p", ADD_A),
        *validating("v", "object.metadata.uid == 'u-1' && object.metadata.labels.a == '1'"),
        *validating("w", "object.status.phase != 'Pending'"),
    ]
    current, planned = decide(validating("v", "object.metadata.uid == 'u-1'"), candidate, after=request(stored))
    assert current == Decision(Verdict.ADMITTED)
    assert [denial.policy for denial in planned.denials] == ["w"]
    assert planned.patch == (add("/metadata/labels/a", "1"),)


READERS = [
    ("a new item is counted", "object.spec.containers.size() == 1"),
    ("a new item is looked at", "object.spec.containers.all(c, c.name == 'web')"),
    ("an index is any index", "object.spec.containers[0].image == 'web:1' && object.spec.containers.size() < 2"),
    ("a field that came is looked for", "!has(object.metadata.labels.a)"),
    ("a key that came is looked for", "!('a' in object.metadata.labels)"),
    ("the whole object is read", "object.metadata == {'name': 'web', 'namespace': 'shop', 'labels': {'app': 'web'}}"),
    ("another field is read", "object.spec.dnsPolicy == 'Default'"),
    ("a field above is looked for", "!has(object.metadata.labels)"),
    ("a value is compared by itself", "object.metadata.labels.app == 'web'"),
]


@pytest.mark.parametrize(("name", "expression"), READERS, ids=[row[0] for row in READERS])
def test_sets_share_what_does_not_read_the_difference(name: str, expression: str) -> None:  # noqa: ARG001
    check = validating("v", expression)
    mutating = [*policy("p", ADD_A, ADD_SIDECAR), *check]
    (alone,) = decide(mutating)
    plain, beside = decide(check, mutating)
    assert [plain] == decide(check)
    assert replace(beside, caused_by_mutation=(), healed_by_mutation=()) == alone


def test_what_the_set_in_force_mutated_is_not_carried_over_twice() -> None:
    stored = {**POD, "metadata": {**POD["metadata"], "labels": {"app": "web", "a": "1"}}}
    checked = validating("v", "object.metadata.labels == {'app': 'web', 'a': '1'}")
    unlabelled = validating("v", "object.metadata.labels == {'app': 'web'}")
    current, planned = decide([*policy("p", ADD_A), *checked], unlabelled, after=request(stored))
    assert (current.verdict, current.patch) == (Verdict.ADMITTED, (add("/metadata/labels/a", "1"),))
    assert (planned.verdict, planned.patch) == (Verdict.ADMITTED, ())


def test_policies_that_decide_alike() -> None:
    current = [*validating("same", "true"), *validating("space", "namespaceObject.metadata.name == ''")]
    current += [*policy("mutates", ADD_A), *validating("differs", "true"), *validating("gone", "true")]
    candidate = [each for each in current if each["metadata"]["name"] not in ("gone", "differs")]
    sets = (
        manifest_set_from_objects(current),
        manifest_set_from_objects([*candidate, *validating("differs", "false"), *validating("new", "true")]),
    )
    plugins = {each.name for each in BUILTIN_PLUGINS if each.type.is_stateful}
    for with_lookups, expected in ((True, {"same", "space", "mutates"}), (False, {"same", "mutates"})):
        names = names_decided_alike(sets, NEWEST, with_lookups=with_lookups)
        assert {each for each in names if each[0].islower()} == expected
        assert ("LimitRanger" in names) is with_lookups
        assert "AlwaysPullImages" in names
        assert names.isdisjoint(plugins)
