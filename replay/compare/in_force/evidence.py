"""Evidence about each policy of the baseline in one request: whether the log shows its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from replay.admission.decision import Decision, Verdict
from replay.audit.answer.observed import VALIDATION_FAILURE, Observed
from replay.audit.event import RequestRecord
from replay.compare.in_force.same_text import equal_texts
from replay.go.format import parse_uint
from replay.json import JSON
from replay.kube.attributes import PartialObject


class Sign(StrEnum):
    """Comparison of log and replay for one policy and one request."""

    SEEN = "seen"
    """Log and replay show the same."""
    ABSENT = "absent"
    """The policy would have acted, but the log does not show it."""
    OTHER = "other"
    """The policy acted, with a text that differs from its current one."""
    SURPLUS = "surplus"
    """The policy acted, although the replay says that it does not."""


FIRST_ONLY = "older API servers write only the first failure"


class Evidence(NamedTuple):
    """One sign: its time, log file and request, and its aspect (denial, failure, annotation, mutation)."""

    time: int
    seq: int
    audit_id: str
    file: str
    policy: str
    aspect: str
    sign: Sign
    observed: str
    replayed: str
    contention: str = ""


PolicyTexts = Mapping[str, str]
"""Effect of each policy, as text."""


def evidence_of(
    record: RequestRecord, observed: Observed, decision: Decision, policies: frozenset[str], contention: str
) -> Iterator[Evidence]:
    """Yield the evidence of one request.

    Policies that are undetermined for it, and policies of other sets, give no evidence. `contention` names other events
    of the object or its namespace at that time, and is empty if there are none.
    """
    open_policies = {each.policy for each in decision.undetermined}
    if "" in open_policies:
        return
    decided_policies = policies - open_policies
    failures = _replayed_failures(decision)
    is_first = len(observed.failures) == 1 and list(observed.failures) == failures[:1]
    pairs: tuple[tuple[str, PolicyTexts, PolicyTexts], ...] = (
        ("failure", _failures(observed.failures), _failures(failures)),
        ("annotation", _annotations(observed.policy_annotations), _annotations(decision.audit_annotations)),
    )
    for aspect, observation, replayed in pairs:
        for policy in sorted((observation.keys() | replayed.keys()) & decided_policies):
            sign = _sign(observation.get(policy), replayed.get(policy))
            if open_policies and sign is Sign.SURPLUS:
                continue  # what an undetermined decision does not say is open
            texts = observation.get(policy, ""), replayed.get(policy, "")
            first_only = aspect == "failure" and sign is not Sign.SEEN and is_first
            yield _evidence(record, policy, aspect, sign, texts, FIRST_ONLY if first_only else contention)
    for policy, sign, texts in _denials(observed, decision, open_policies, in_any_order=bool(record.workspace)):
        if policy in decided_policies and not (open_policies and sign is Sign.SURPLUS):
            yield _evidence(record, policy, "denial", sign, texts, contention)


def mutation_evidence(
    record: RequestRecord,
    decision: Decision,
    validated: JSON | PartialObject | None,
    policies: frozenset[str],
    shown: Callable[[Iterable[JSON]], tuple[JSON, ...]] = tuple,
) -> Iterator[Evidence]:
    """Yield evidence of mutating policies: whether the validated object has the changes that they make.

    Full patches are compared, and kept in the form that `shown` returns.
    """
    if decision.verdict is Verdict.UNDETERMINED or not isinstance(validated, dict) or not 200 <= record.code < 300:
        return
    for mutated in decision.mutated:
        if mutated.policy in policies:
            sign = Sign.SEEN if shows(validated, mutated.patch) else Sign.ABSENT
            text = orjson.dumps(shown(mutated.patch)).decode()
            yield _evidence(record, mutated.policy, "mutation", sign, ("", text), "")


def shows(value: JSON, patch: Iterable[JSON]) -> bool:
    """Return whether an object has what a patch writes and lacks what it removes."""
    for operation in patch:
        part, at = value, True
        for key in str(operation["path"]).split("/")[1:]:
            part, at = _child(part, key.replace("~1", "/").replace("~0", "~"))
            if not at:
                break
        if operation["op"] == "remove":
            if at:
                return False
        elif not at or not _contains(part, operation.get("value")):
            return False
    return True


def _child(value: JSON, key: str) -> tuple[JSON, bool]:
    if isinstance(value, dict):
        return value.get(key), key in value
    index = parse_uint(key) if isinstance(value, list) else None
    if index is not None and index < len(value):
        return value[index], True
    return None, False


def _contains(superset: JSON, part: JSON) -> bool:
    """Return whether a value contains another. Additional fields may be defaults."""
    if isinstance(superset, dict) and isinstance(part, dict):
        return all(key in superset and _contains(superset[key], value) for key, value in part.items())
    if isinstance(superset, list) and isinstance(part, list):
        return len(superset) >= len(part) and all(map(_contains, superset, part))
    return bool(superset == part)


def _sign(observation: str | None, replayed: str | None) -> Sign:
    if observation is None:
        return Sign.ABSENT
    if replayed is None:
        return Sign.SURPLUS
    return Sign.SEEN if equal_texts(observation, replayed) else Sign.OTHER


def _evidence(  # noqa: PLR0913, PLR0917 - the fields of the result
    record: RequestRecord, policy: str, aspect: str, sign: Sign, texts: tuple[str, str], contention: str
) -> Evidence:
    observation, replayed = texts
    if sign is Sign.SEEN:
        observation = replayed = contention = ""
    return Evidence(
        time=record.received,
        seq=record.seq,
        audit_id=record.audit_id,
        file=record.file,
        policy=policy,
        aspect=aspect,
        sign=sign,
        observed=observation,
        replayed=replayed,
        contention=contention,
    )


def _denials(
    observed: Observed, decision: Decision, open_policies: set[str], *, in_any_order: bool
) -> Iterator[tuple[str, Sign, tuple[str, str]]]:
    """Yield the policies with a sign about their denial.

    The client sees only the first denial, so the log shows nothing about others. If it has no denial, they are all
    absent. A kcp shard reports any of them (`in_any_order`). If the policy that denied is undetermined in the replay,
    there is no evidence: its denial may have been the first.
    """
    refusal = observed.denial or observed.refusal
    if refusal is not None and refusal.policy in open_policies:
        return
    denial = None if refusal is None or refusal.webhook else refusal
    replayed = {each.policy: each.message for each in reversed(decision.denials)}
    if denial is None:
        if refusal is None:
            yield from ((policy, Sign.ABSENT, ("", message)) for policy, message in replayed.items())
        return
    for each in decision.denials:
        if in_any_order or each.policy == denial.policy:
            break
        yield each.policy, Sign.ABSENT, ("", each.message)  # it would have been the first
    message = replayed.get(denial.policy)
    yield denial.policy, _sign(denial.message, message), (denial.message, message or "")


def _replayed_failures(decision: Decision) -> list[Any]:
    text = decision.audit_annotations.get(VALIDATION_FAILURE)
    return orjson.loads(text) if text else []


def _failures(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    failures: dict[str, list[Any]] = {}
    for entry in entries:
        failures.setdefault(str(entry.get("policy")), []).append(entry)
    return {policy: orjson.dumps(each, option=orjson.OPT_SORT_KEYS).decode() for policy, each in failures.items()}


def _annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    values_by_policy: dict[str, dict[str, str]] = {}
    for key, value in annotations.items():
        policy, slash, name = key.rpartition("/")
        if slash and key != VALIDATION_FAILURE:
            values_by_policy.setdefault(policy, {})[name] = value
    return {
        policy: orjson.dumps(each, option=orjson.OPT_SORT_KEYS).decode() for policy, each in values_by_policy.items()
    }
