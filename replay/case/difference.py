"""Differences between a decision and a case's expectation, one per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replay.admission.decision import Decision, Denial, Verdict
from replay.admission.webhook.answer import CALL_ANNOTATIONS
from replay.case.case import UNSTATED, Expectation, ExpectedDenial
from replay.case.decide import DecidedCase
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.go_object import DecodeError
from replay.kube.json_patch import JSONPatchError, apply
from replay.reconstruct.record.known import differences as differing
from replay.reconstruct.record.known import get, rendered

_LONGEST = 200
_MOST_PATHS = 10


def differences(decided: DecidedCase) -> list[str]:
    """Return the differences, or an empty list if all is as expected."""
    expected, decision = decided.case.expected, decided.decision
    return [
        *_verdict(expected, decision),
        *_first_denial_lines(expected, decision),
        *_denials(expected, decision),
        *_warnings(expected, decision),
        *_annotations(expected, decision),
        *_undetermined(expected, decision),
        *_object(expected, decided),
        *_matching(expected, decided),
    ]


def _verdict(expected: Expectation, decision: Decision) -> Iterator[str]:
    if expected.verdict is None:
        # What is expected without a verdict is expected of a decision.
        if decision.verdict is Verdict.UNDETERMINED and expected.undetermined is None:
            yield f"verdict: {_verdict_text(decision)}"
    elif decision.verdict is not expected.verdict:
        yield f"verdict: expected {expected.verdict.value}, got {_verdict_text(decision)}"


def _verdict_text(decision: Decision) -> str:
    """Return a verdict with its reason."""
    if decision.verdict is Verdict.UNDETERMINED:
        gap = decision.undetermined[0]
        by = f" by `{gap.policy}`" if gap.policy else ""
        fix = f"; {gap.fix}" if gap.fix else ""
        return f"undetermined{by}: {gap.reason}{fix}"
    if decision.denials:
        denial = decision.denials[0]
        return f"denied by `{denial.policy}`: {denial.message}"
    return decision.verdict.value


def _first_denial_lines(expected: Expectation, decision: Decision) -> Iterator[str]:
    denial = expected.first
    if denial == ExpectedDenial():
        return
    if decision.denials:
        yield from _denial(denial, decision.denials[0], "")
    elif (denial.message, denial.reason, denial.code) != (None, None, None):
        yield f"message: expected {_value_text(denial.message or denial.reason or denial.code)}, nothing is denied"
    else:
        acting = {(each.policy, each.binding) for each in decision.mutated}
        if not any(_is(denial.policy, policy) and _is(denial.binding, binding) for policy, binding in acting):
            got = ", ".join(f"`{policy}`" for policy, _ in sorted(acting)) or "no policy"
            yield f"policy: expected `{denial.policy or denial.binding}`, {got} acts"


def _is(expectation: str | None, text: str) -> bool:
    return expectation is None or expectation == text


def _denial(expectation: ExpectedDenial, denial: Denial, prefix: str) -> Iterator[str]:
    pairs: tuple[tuple[str, str | int | None, str | int], ...] = (
        ("policy", expectation.policy, denial.policy),
        ("binding", expectation.binding, denial.binding),
        ("message", expectation.message, denial.message),
        ("reason", expectation.reason, denial.reason),
        ("code", expectation.code, denial.code),
    )
    for name, want, got in pairs:
        if want is not None and want != got:
            yield f"{prefix}{name}: expected {_value_text(want)}, got {_value_text(got)}"


def _denials(expected: Expectation, decision: Decision) -> Iterator[str]:
    if expected.denials is None:
        return
    if len(expected.denials) != len(decision.denials):
        names = ", ".join(f"`{each.policy}`" for each in decision.denials) or "none"
        yield f"denials: expected {len(expected.denials)}, got {len(decision.denials)} ({names})"
        return
    for index, (denial_expected, denial) in enumerate(zip(expected.denials, decision.denials, strict=True)):
        yield from _denial(denial_expected, denial, f"denials[{index}].")


def _warnings(expected: Expectation, decision: Decision) -> Iterator[str]:
    expectations, warnings = expected.warnings, decision.warnings
    if expectations is None:
        return
    if expected.bare_texts:
        alike = len(expectations) == len(warnings) and all(map(_ends_with, warnings, expectations))
    else:
        alike = expectations == warnings
    if not alike:
        yield f"warnings: expected {_value_text(list(expectations))}, got {_value_text(list(warnings))}"


def _ends_with(text: str, message: str) -> bool:
    """Return whether a warning has a message. The server puts the names of policy and binding before it."""
    return text == message or text.endswith(f": {message}")


def _annotations(expected: Expectation, decision: Decision) -> Iterator[str]:
    expectations = expected.audit_annotations
    if expectations is None:
        return
    annotations = {
        key: text
        for key, text in decision.audit_annotations.items()
        # The server annotates each webhook call. Few tests state these annotations, so they count only if stated.
        if key in expectations or not key.startswith(CALL_ANNOTATIONS)
    }
    if expected.bare_texts:
        bare = {key.partition("/")[2]: text for key, text in annotations.items()}
        annotations = {key: text for key, text in bare.items() if key in expectations}
    for key in sorted({*expectations, *annotations}):
        if expectations.get(key) != annotations.get(key):
            yield f"auditAnnotations `{key}`: expected {_value_text(expectations.get(key))}, got {_value_text(annotations.get(key))}"


def _undetermined(expected: Expectation, decision: Decision) -> Iterator[str]:
    if expected.undetermined is None:
        return
    policies = sorted({each.policy for each in decision.undetermined})
    if sorted(expected.undetermined) != policies:
        yield f"undetermined: expected {_value_text(sorted(expected.undetermined))}, got {_value_text(policies)}"


def _object(expected: Expectation, decided: DecidedCase) -> Iterator[str]:
    """Yield the differences of the mutated object in canonical form, with defaults."""
    original = plain(decided.attributes.original.object)
    patch = expected.patch
    if patch is None and expected.object is UNSTATED:
        return
    if patch is not None and list(patch) == list(decided.decision.patch):
        return
    result = mutated(decided)
    try:
        expectation = apply(original, list(patch)) if patch is not None else expected.object
    except JSONPatchError as error:
        yield f"patch: what is expected does not fit the object: {error}"
        return
    name = "patch" if patch is not None else "object"
    yield from _value_differences(name, decided, expectation, result)


def mutated(decided: DecidedCase) -> JSON:
    """Return the object after the mutating phase. If the request is denied, that is the object as sent."""
    original = plain(decided.attributes.original.object)
    return apply(original, list(decided.decision.patch)) if decided.decision.patch else original


def _value_differences(name: str, decided: DecidedCase, expectation: JSON, result: JSON) -> Iterator[str]:
    kind = decided.attributes.original.kind
    try:
        expectation, result = (
            _comparable(decided.attributes_maker.settled(kind, value), decided) for value in (expectation, result)
        )
    except DecodeError as error:
        yield f"{name}: the expected object is not a valid {kind.kind}: {error}"
        return
    for index, path in enumerate(sorted(differing(expectation, result), key=rendered)):
        if index == _MOST_PATHS:
            yield f"{name}: there are more differences"
            return
        want, got = get(expectation, path), get(result, path)
        yield f"{name}{rendered(path)}: expected {_value_text(want)}, got {_value_text(got)}"


def _comparable(value: JSON, decided: DecidedCase) -> JSON:
    """Return an object for comparison. A missing namespace is added."""
    namespace = decided.attributes.original.namespace
    metadata = get(value, ("metadata",))
    if not namespace or not isinstance(metadata, dict) or metadata.get("namespace"):
        return value
    return {**value, "metadata": {**metadata, "namespace": namespace}}


def _matching(expected: Expectation, decided: DecidedCase) -> Iterator[str]:
    if expected.matches is None:
        return
    policies = decided.explained()
    is_asked = any(policy.matches and not _is_skipped(policy.bindings) for policy in policies)
    if is_asked is expected.matches:
        return
    if is_asked:
        yield "policy: expected not to be asked, it is"
    else:
        reasons = [policy.mismatch or policy.error or _outcomes_text(policy.bindings) for policy in policies]
        yield f"policy: expected to be asked, it is not: {'; '.join(filter(None, reasons))}"


def _is_skipped(bindings: Sequence[object]) -> bool:
    matches = [binding for binding in bindings if not getattr(binding, "mismatch", "")]
    return bool(matches) and all(str(getattr(binding, "outcome", "")).startswith("skipped") for binding in matches)


def _outcomes_text(bindings: Sequence[object]) -> str:
    return "; ".join(getattr(each, "mismatch", "") or getattr(each, "outcome", "") for each in bindings)


def plain(value: JSON | PartialObject | Missing) -> JSON:
    """Return an object without unknown parts. List items keep their places, as null."""
    if isinstance(value, PartialObject):
        value = value.value
    if isinstance(value, Missing):
        return None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if not isinstance(item, Missing)}
    return [plain(item) for item in value] if isinstance(value, list) else value


def _value_text(value: JSON) -> str:
    text = repr(value) if not isinstance(value, str) else f"`{value}`"
    if value is None:
        return "nothing"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
