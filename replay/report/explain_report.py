"""Explanation of one request through the chain, without the contents of Secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, tzinfo
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.decision import Decision, Verdict
from replay.admission.explain.explanation import (
    BindingExplanation,
    ExpressionStep,
    PassExplanation,
    PolicyExplanation,
    WebhookExplanation,
)
from replay.audit.answer import Observed
from replay.authorization.trace import Authorization
from replay.cel.value.values import Value, untyped
from replay.json import JSON
from replay.kcp.binding import NO_WORKSPACE, DecidedIn
from replay.kube.attributes import Missing, PartialObject
from replay.kube.redact import REDACTED, SECRETS, Redactor
from replay.reconstruct.request import Reached, ReplayRequest
from replay.report.access import authorization_trace
from replay.report.expression import expression_lines, shown
from replay.report.render.document import (
    Document,
    Fact,
    Listing,
    Section,
    Tone,
    inert,
    moment,
    number,
    plural,
)

_OPEN = ("object.metadata.", "oldObject.metadata.", "request.", "namespaceObject", "has(")


class Concealer:
    """Redaction of an explanation."""

    def __init__(self, redactor: Redactor) -> None:
        """`redactor` knows which parts of the request must not appear."""
        self._redactor = redactor

    def value(self, text: str, value: Value) -> Value:
        """Return the value of an expression's part, redacted if needed. `text` is the text of the part."""
        plain = untyped(value)
        if not self._redactor.redact or not isinstance(plain, str | bytes | list | dict):
            return value
        if self._redactor.resource == SECRETS and not text.startswith(_OPEN):
            return REDACTED
        if isinstance(plain, str):
            return self.text(plain)
        return value if isinstance(plain, bytes) else self._redactor.object(plain)

    def text(self, text: str) -> str:
        """Return a message or an annotation, redacted."""
        return self._redactor.text(text)

    def patch(self, patch: Iterable[JSON]) -> tuple[JSON, ...]:
        """Return a JSON patch, redacted."""
        return self._redactor.patch(patch)


_REPEATS = 3
TONES = {Verdict.DENIED: Tone.BAD, Verdict.UNDETERMINED: Tone.WARN, Verdict.NOT_REACHED: Tone.PLAIN}


class SetExplanation(Struct, frozen=True):
    """Decision of one set, with the explanation of each policy. There are none if the request did not reach admission."""

    name: str
    decision: Decision
    passes: tuple[PassExplanation, ...] = ()
    """Mutating passes in which something happened."""
    validating: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[WebhookExplanation, ...] = ()

    @property
    def side(self) -> str:
        """The set's name for people: baseline or candidate."""
        return "baseline" if self.name == "current" else self.name

    @property
    def policies(self) -> tuple[PolicyExplanation, ...]:
        """All policies, in order of evaluation."""
        first = (policy for each in self.passes if each.number == 1 for policy in each.policies)
        return (*first, *self.validating)

    @property
    def steps(self) -> Iterator[tuple[int, PolicyExplanation]]:
        """Every policy as often as it runs, with the number of the mutating pass, or 0 for validating policies."""
        yield from ((each.number, policy) for each in self.passes for policy in each.policies)
        yield from ((0, policy) for policy in self.validating)

    @property
    def is_reinvoked(self) -> bool:
        """Whether any part of the mutating phase runs twice."""
        return any(each.number > 1 for each in self.passes)


class Explained(Struct, frozen=True):
    """A request, or one object of a `deletecollection`. `repeats` are other events with its auditID.

    `workload` owns its object. `owner` is the value of the namespace's label, or empty.
    """

    log: str
    request: ReplayRequest
    item: int
    items: int
    observed: Observed
    repeats: tuple[str, ...]
    sets: tuple[SetExplanation, ...]
    concealer: Concealer
    workload: str = ""
    owner: str = ""
    decided_in: DecidedIn = NO_WORKSPACE
    authorized: tuple[tuple[str, Authorization], ...] = ()
    """The authorizers' decision under each set that names authorizers."""


def explain_document(explained: Explained, zone: tzinfo = UTC) -> Document:
    """Return the whole explanation."""
    record = explained.request.record
    sections = [
        _policy(explained, each, number, policy)
        for each in explained.sets
        for number, policy in each.steps
        if policy.matches and denies_request(policy)
    ]
    sections += [_observed(explained), _knowledge(explained), *authorization_trace(explained.authorized)]
    for each in explained.sets:
        sections.append(_decision(explained, each))
        sections += (
            _policy(explained, each, number, policy)
            for number, policy in each.steps
            if policy.matches and not denies_request(policy)
        )
        sections += [_second_pass_section(each), _unmatched_section(each), _webhooks(explained, each)]
    if not explained.sets:
        sections.append(
            Section("sets", "No manifests given", "Give --current or --candidate to see what policies decide.")
        )
    verdicts = [each.decision.verdict for each in explained.sets]
    return Document(
        "What happened to this request?",
        inert(f"{record.audit_id} · {explained.log}"),
        _verdict(explained),
        TONES.get(verdicts[-1], Tone.GOOD) if verdicts else Tone.PLAIN,
        tuple(_facts(explained, zone)),
        tuple(section for section in sections if section.blocks or section.lead),
    )


def _verdict(explained: Explained) -> str:
    request = explained.request
    if request.reached is Reached.FAILED_BEFORE:
        return inert(f"No validating policy evaluated the request: {request.reached_reason}.")
    decisions = [f"{each.side.capitalize()}: {_text_of(explained, each.decision)}" for each in explained.sets]
    denial = explained.observed.denial
    observation = (
        f"In the log: denied by {', '.join(each.policy for each in denial.by_policy)}"
        if denial
        else f"In the log: answered with {request.record.code}"
    )
    return inert(". ".join([observation, *decisions])) + "."


def _text_of(explained: Explained, decision: Decision) -> str:
    if decision.denials:
        first = decision.denials[0]
        more = f" and {plural(len(decision.denials) - 1, 'other denial')}" if len(decision.denials) > 1 else ""
        return f"denied by {first.policy} ({explained.concealer.text(first.message)}){more}"
    if decision.verdict is Verdict.UNDETERMINED:
        first_gap = decision.undetermined[0]
        return f"undetermined: {explained.concealer.text(first_gap.reason)}"
    mutated = f", changed by {', '.join(dict.fromkeys(m.policy for m in decision.mutated))}" if decision.mutated else ""
    return f"{decision.verdict.value}{mutated}"


def _facts(explained: Explained, zone: tzinfo) -> Iterator[Fact]:
    request = explained.request
    record, attributes = request.record, request.attributes
    groups = f"groups {', '.join(record.user.groups)}" if record.user.groups else ""
    yield Fact("User", inert(record.user.username), inert(groups))
    if record.caller != record.user.username:
        yield Fact("Caller", inert(record.caller), "impersonated the user above")
    resource = "/".join(filter(None, (attributes.resource.resource, attributes.subresource)))
    where = "/".join(filter(None, (attributes.namespace, attributes.name or record.name)))
    kind = attributes.kind.kind
    dry = ", dry run" if attributes.dry_run else ""
    workspace, own, planned = explained.decided_in
    if workspace:
        text = f"decided by the policies of {own or 'an unknown workspace'}"
        text += f", with the candidate by those of {planned or 'an unknown workspace'}" if planned != own else ""
        yield Fact("Workspace", inert(workspace), inert(text))
    yield Fact("Request", inert(f"{attributes.operation} {resource} {where}"), inert(f"{kind}, {record.verb}{dry}"))
    if explained.workload:
        yield Fact("Owner", inert(explained.workload), inert(f"of {explained.owner}" if explained.owner else ""))
    yield Fact("Time", moment(record.stage_time, zone), f"{(record.stage_time - record.received) // 1000} ms")
    reason = " ".join(filter(None, (record.status_reason, explained.concealer.text(record.status_message))))
    yield Fact("Answer", str(record.code) if record.code else "not recorded", inert(reason))
    yield Fact("Event", inert(f"{record.file}:{record.line}"), f"level {record.level}, stage {record.stage}")
    if explained.items > 1:
        yield Fact("Object", f"{explained.item} of 0 to {explained.items - 1}", "--item shows another one")
    for other in explained.repeats[:_REPEATS]:
        yield Fact("Same auditID", inert(other), "not used", Tone.WARN)
    if len(explained.repeats) > _REPEATS:
        yield Fact("", f"and {number(len(explained.repeats) - _REPEATS)} more", "", Tone.WARN)


def _knowledge(explained: Explained) -> Section:
    """Return the attributes, and how each is known."""
    request = explained.request
    attributes = request.attributes
    parts = {"object": attributes.object, "oldObject": attributes.old_object}
    parts["namespaceObject"] = attributes.namespace_object
    lines = [line for name, value in parts.items() for line in _known(name, _basis(request.basis.get(name)), value)]
    attributes_before = request.before_mutation
    if not isinstance(attributes_before, Missing) and attributes_before.object is not attributes.object:
        lines += _known("object before mutation", "reconstructed", attributes_before.object)
    lines += [line for missing in attributes.missing for line in _known(missing.path, "missing", missing)]
    reached = {
        Reached.VALIDATION: "The request reached the validating policies",
        Reached.FAILED_BEFORE: "The request did not reach the validating policies",
        Reached.UNKNOWN: "It is not known whether the request reached the validating policies",
    }[request.reached]
    lead = f"{reached}: {request.reached_reason}." if request.reached_reason else f"{reached}."
    text = "\n".join(map(inert, (*lines, "request, userInfo: recorded", *request.notes)))
    return Section("known", "What is known", inert(lead), (Listing("", text),))


def _known(name: str, basis: str, value: Any) -> Iterator[str]:
    """Yield how a part is known, and which of its paths are unknown. Paths with the same reason are on one line."""
    yield f"{name}: {basis}"
    gaps = value.missing if isinstance(value, PartialObject) else (value,) if isinstance(value, Missing) else ()
    paths: dict[str, list[str]] = {}
    for gap in gaps:
        fix = f" ({gap.fix})" if gap.fix else ""
        paths.setdefault(f"{gap.reason}{fix}", []).append(gap.path)
    for reason, paths_of_reason in paths.items():
        yield f"    not known: {', '.join(paths_of_reason)}: {reason}"


def _basis(basis: Any) -> str:
    return "null by rule" if basis is None else str(basis.value)


def _observed(explained: Explained) -> Section:
    """Return what the log itself says about admission."""
    observed, text = explained.observed, explained.concealer.text
    rows: list[tuple[str, str, str]] = []
    if observed.denial:
        rows += [("denied", each.policy, text(each.message)) for each in observed.denial.by_policy]
    rows += [("audited failure", str(f.get("policy", "")), text(str(f.get("message", "")))) for f in observed.failures]
    rows += [("annotation", key, text(value)) for key, value in observed.policy_annotations.items()]
    rows += [
        (f"webhook, round {each.round}", each.webhook, "changed the object" if each.mutated else "changed nothing")
        for each in observed.mutations
    ]
    rows += [("failed open", webhook, key) for key, webhook in observed.failed_open.items()]
    lines = [inert(f"{what}: {name}: {message}") for what, name, message in rows]
    lead = "" if rows else "No denial and no annotation of a policy or webhook."
    blocks = (Listing("", "\n".join(lines)),) if rows else ()
    return Section("observed", "What the log says", lead, blocks)


def _decision(explained: Explained, each: SetExplanation) -> Section:
    """Return the section with the verdict of a set."""
    decision, text = each.decision, explained.concealer.text
    denials = [
        f"{'masked' if d.message != decision.denials[0].message else 'first'} denial: {d.policy} ({f'{d.reason} {d.code}'.strip()}): {text(d.message)}"
        for d in decision.denials
    ]
    denials += [f"  {d.policy}: {text(place)}" for d in decision.denials for place in d.places]
    gaps = [
        f"undetermined: {gap.policy}: {text(gap.reason)}{f' ({gap.fix})' if gap.fix else ''}"
        for gap in decision.undetermined
    ]
    lines = [
        *denials,
        *gaps,
        *(f"warning: {text(warning)}" for warning in decision.warnings),
        *(f"annotation {text(key)}: {text(value)}" for key, value in sorted(decision.audit_annotations.items())),
        *(f"patch by {entry.policy}: {_json(explained.concealer.patch(entry.patch))}" for entry in decision.mutated),
        *(
            f"{'called' if call.answer else 'would call'} the {call.phase} webhook {call.webhook} ({call.configuration})"
            for call in decision.webhooks
        ),
    ]
    blocks = (Listing("", "\n".join(map(inert, lines))),) if lines else ()
    title = f"The {each.side}: {decision.verdict.value.replace('_', ' ')}"
    matching = sum(policy.matches for policy in each.policies)
    lead = f"{matching} of {plural(len(each.policies), 'policy', 'policies')} match."
    if not each.policies and each.webhooks:
        called = sum(not webhook.reason for webhook in each.webhooks)
        lead = (
            f"{number(called)} of {plural(len(each.webhooks), 'webhook')} of the set decide on the request."
            if called
            else "No webhook of the set is called, so no policy behind a webhook is evaluated."
        )
    if decision.verdict is Verdict.NOT_REACHED:
        lead = "The request fails before the policies run."
    return Section(f"{each.name}-set", title, lead, blocks, TONES.get(decision.verdict, Tone.GOOD))


def _policy(explained: Explained, each: SetExplanation, number: int, policy: PolicyExplanation) -> Section:
    outcomes = [b.outcome for b in policy.bindings if not b.mismatch and b.outcome]
    outcomes = list(dict.fromkeys(map(explained.concealer.text, outcomes)))
    turn = f", pass {number}" if number and each.is_reinvoked else ""
    denies = denies_request(policy)
    of_set = f" in the {each.side}" if denies else ""  # what denies stands at the top, apart from its set
    title = f"{policy.policy}{of_set}{turn}: {', '.join(outcomes) or 'matches'}"
    lead = f"{policy.kind}, failurePolicy {policy.failure_policy.value}"
    if policy.matched_as:
        lead += f", matched {policy.matched_as}"
    if policy.error:
        lead += f", cannot be used: {policy.error}"
    listings = tuple(
        Listing(_caption(binding), "\n".join(_binding_lines(explained, binding))) for binding in policy.bindings
    )
    tone = Tone.BAD if denies else Tone.PLAIN
    again = f"-pass-{number}" if number > 1 else ""
    return Section(f"{each.name}-{policy.policy}{again}", inert(title), inert(lead), listings, tone)


def denies_request(policy: PolicyExplanation) -> bool:
    """Return whether the policy denies the request."""
    return any(b.outcome.startswith(("denies", "refused")) for b in policy.bindings if not b.mismatch)


def _caption(binding: BindingExplanation) -> str:
    actions = f" ({', '.join(binding.actions)})" if binding.actions else ""
    param = f" with {binding.param}" if binding.param else ""
    if not binding.binding and not binding.steps:
        return inert(actions.strip())  # no binding, and nothing that costs
    return inert(f"{binding.binding}{actions}{param}: cost {number(binding.cost)}")


def _binding_lines(explained: Explained, binding: BindingExplanation) -> Iterator[str]:
    if binding.mismatch:
        yield inert(f"does not match: {binding.mismatch}")
        return
    if not binding.steps:
        yield inert(explained.concealer.text(binding.outcome))
    for depth, place in enumerate(binding.place):
        yield inert(f"{'  ' * (depth + 1)}{explained.concealer.text(place)}")
    for step in binding.steps:
        yield from map(inert, step_lines(explained, step))
    if binding.patch:
        yield inert(f"patch: {_json(explained.concealer.patch(binding.patch))}")


def step_lines(explained: Explained, step: ExpressionStep) -> Iterator[str]:
    """Yield the lines of an expression: its value and cost, its text, and its parts with their values."""
    concealer, expression = explained.concealer, " ".join(step.compiled.expression.split())
    value = concealer.text(shown(concealer.value(expression, step.value)))
    effect = f"; {concealer.text(step.effect)}" if step.effect else ""
    yield f"{step.label} → {value}  (cost {step.cost}{effect})"
    yield f"  {expression}"
    if step.compiled.program is not None:
        for line in expression_lines(step.compiled.program.ast, step.trace, concealer.value):
            yield f"    {concealer.text(line)}"


def _unmatched_section(each: SetExplanation) -> Section:
    """Return the section with the policies that do not match, with the first criterion that fails."""
    lines = [inert(f"{policy.policy}: {_reason(policy)}") for policy in each.policies if not policy.matches]
    blocks = (Listing("The first criterion that fails", "\n".join(lines)),) if lines else ()
    return Section(f"{each.name}-others", f"Policies of the {each.side} that do not match", "", blocks, quiet=True)


def _second_pass_section(each: SetExplanation) -> Section:
    """Return the section with the webhooks of the second pass."""
    names = [inert(name) for again in each.passes for name in again.webhooks]
    blocks = (Listing("", "\n".join(names)),) if names else ()
    return Section(f"{each.name}-again", "Webhooks that would be called again in pass 2", "", blocks)


def _webhooks(explained: Explained, each: SetExplanation) -> Section:
    """Return the webhooks that are not called, grouped by reason."""
    by_reason: dict[str, list[WebhookExplanation]] = {}
    for webhook in each.webhooks:
        if webhook.reason:
            by_reason.setdefault(webhook.reason, []).append(webhook)
    lines = []
    for why, webhooks_of_reason in by_reason.items():
        lines.append(f"{', '.join(f'{webhook.webhook} ({webhook.phase})' for webhook in webhooks_of_reason)}: {why}")
        steps = (step for webhook in webhooks_of_reason for step in webhook.steps)
        lines += (f"  {line}" for step in steps for line in step_lines(explained, step))
    blocks = (Listing("", "\n".join(map(inert, lines))),) if lines else ()
    return Section(f"{each.name}-webhooks", f"Webhooks of the {each.side} that are not called", "", blocks, quiet=True)


def _reason(policy: PolicyExplanation) -> str:
    """Return why a policy does not match."""
    reasons = dict.fromkeys(f"binding {each.binding}: {each.mismatch}" for each in policy.bindings)
    return policy.mismatch or "; ".join(reasons) or "no binding"


def _json(value: Iterable[Any]) -> str:
    return json.dumps(list(value), ensure_ascii=False)


# The explanation of a request as plain values.


def explain_json(explained: Explained, zone: tzinfo = UTC) -> dict[str, Any]:
    """Return an explanation as plain values. Expressions with their parts are the lines of the document."""
    request, text = explained.request, explained.concealer.text
    record, denial = request.record, explained.observed.denial
    document = replace(explain_document(explained, zone), sections=())
    return {
        "auditID": record.audit_id,
        "verdict": document.verdict,
        "workload": explained.workload,
        "owner": explained.owner,
        "facts": {fact.label: f"{fact.value} {fact.note}".strip() for fact in document.facts},
        "reached": {"how": request.reached.value, "reason": request.reached_reason},
        "basis": {name: basis.value if basis else None for name, basis in request.basis.items()},
        "observed": {
            "denial": ", ".join(each.policy for each in denial.by_policy) if denial else None,
            "failures": [
                {key: text(value) if isinstance(value, str) else value for key, value in each.items()}
                for each in explained.observed.failures
            ],
            "annotations": {key: text(value) for key, value in explained.observed.policy_annotations.items()},
        },
        "sets": {each.name: _set_json(explained, each) for each in explained.sets},
        **(
            {"authorization": {name: each.as_json() for name, each in explained.authorized}}
            if explained.authorized
            else {}
        ),
    }


def _set_json(explained: Explained, each: SetExplanation) -> dict[str, Any]:
    decision, concealer = each.decision, explained.concealer
    return {
        "verdict": decision.verdict.value,
        "denials": [
            {
                "policy": d.policy,
                "binding": d.binding,
                "message": concealer.text(d.message),
                "reason": d.reason,
                "code": d.code,
                **({"places": [concealer.text(place) for place in d.places]} if d.places else {}),
            }
            for d in decision.denials
        ],
        "warnings": [concealer.text(warning) for warning in decision.warnings],
        "auditAnnotations": {key: concealer.text(value) for key, value in decision.audit_annotations.items()},
        "mutated": [
            {"policy": m.policy, "binding": m.binding, "patch": list(concealer.patch(m.patch))}
            for m in decision.mutated
        ],
        "undetermined": [
            {"policy": gap.policy, "path": gap.path, "reason": concealer.text(gap.reason), "fix": gap.fix}
            for gap in decision.undetermined
        ],
        "policies": [_policy_json(explained, number, policy) for number, policy in each.steps],
        "webhooks": [
            {
                "webhook": webhook.webhook,
                "configuration": webhook.configuration,
                "phase": webhook.phase,
                "called": not webhook.reason,
                "again": any(webhook.webhook in again.webhooks for again in each.passes),
                "reason": webhook.reason,
            }
            for webhook in each.webhooks
        ],
    }


def _policy_json(explained: Explained, number: int, policy: PolicyExplanation) -> Mapping[str, Any]:
    return {
        "policy": policy.policy,
        "kind": policy.kind,
        "pass": number or None,
        "matches": policy.matches,
        "reason": "" if policy.matches else _reason(policy),
        "bindings": [
            {
                "binding": each.binding,
                "outcome": explained.concealer.text(each.outcome or each.mismatch),
                "cost": each.cost,
                **({"place": [explained.concealer.text(place) for place in each.place]} if each.place else {}),
                "patch": list(explained.concealer.patch(each.patch)),
                "steps": [
                    {"label": step.label, "cost": step.cost, "lines": list(step_lines(explained, step))}
                    for step in each.steps
                ],
            }
            for each in policy.bindings
        ],
    }
