"""Several sets at once: what they share, and what one of them carries over to the object of the time."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from replay.admission.decision import Decision, Verdict

_spec = importlib.util.spec_from_file_location("chain_sets", Path(__file__).parent / "chain_sets.py")
assert _spec is not None
assert _spec.loader is not None
chain_sets = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(chain_sets)

ADD_A = chain_sets.ADD_A
ADD_SIDECAR = chain_sets.ADD_SIDECAR
POD = chain_sets.POD
policy = chain_sets.policy
validating = chain_sets.validating
request = chain_sets.request
decide = chain_sets.decide
add = chain_sets.add


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
