"""Texts of denials and warnings, written and recognised."""

from __future__ import annotations

import pytest

from replay.kube.denial import PolicyWarning, deniers, policy_warning, webhook_denial, without_webhook

AS_CONFIGURED = 'policy "p" denied request: failed to configure policy: no'
MESSAGES = [
    ("a validating policy", "x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", "p b"),
    ("a validating policy alone", "x is forbidden: ValidatingAdmissionPolicy 'p' denied request: no", "p"),
    ("a mutating policy", "policy 'p' with binding 'b' denied request: no", "p b"),
    ("a mutating policy alone", AS_CONFIGURED, "p"),
    ("a webhook", webhook_denial("w", "no"), "w"),
    ("a webhook without a word", webhook_denial("w", None), "w"),
    ("a webhook that fails", 'Internal error occurred: failed calling webhook "w": no', ""),
    ("an author's own words", "the policy 'p' says no", ""),
]


@pytest.mark.parametrize(("message", "names"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_who_denied(message: str, names: str) -> None:
    assert deniers(message) == tuple(names.split())


def test_what_a_webhook_says() -> None:
    messages = [webhook_denial("w", "no"), webhook_denial("w", None), AS_CONFIGURED]
    assert [without_webhook(each) for each in messages] == ["no", *messages[1:]]


def test_a_warning_is_recognised_as_it_is_written() -> None:
    warning = PolicyWarning("p", "b", "it's 'x'\nand y")
    assert (policy_warning(warning.text), policy_warning("would violate PodSecurity")) == (warning, None)
