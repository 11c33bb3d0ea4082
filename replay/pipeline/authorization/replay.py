"""Every request of a store put to the authorizers of both sets; equal questions are decided once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from replay.audit.part import user_info_from_json
from replay.audit.store import Store
from replay.authorization.question import Question
from replay.authorization.request_info import attributes_from_uri
from replay.authorization.trace import Authorization
from replay.compare.authorization import (
    Agreement,
    AuthorizationOutcome,
    AuthorizationSummary,
    Cell,
    agreement_of,
    authorization_outcome,
    cell_of,
    is_newly_let_in,
    is_newly_refused,
    webhooks_asked,
)
from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes
from replay.pipeline.authorization.chains import Chains, StateKey, asks_graph
from replay.pipeline.replay.gate import Gate
from replay.report.outcome_line import timestamp

_WRITES = frozenset(["create", "update", "patch", "delete", "deletecollection"])
_CONNECT = frozenset(["attach", "exec", "portforward", "proxy"])
NOT_REACHED = {401: "authentication failed", 403: "impersonation refused", 429: "too many requests"}
"""Why a request without any annotation of the authorizers did not come to them, by the code of the response."""
NO_DECISION = "the log holds no decision"


class Request(NamedTuple):
    """One request: a row of `authorization_requests`."""

    seq: int
    audit_id: str
    received: int
    stage_time: int
    question: int
    code: int
    decision: str | None
    reason: str | None

    @property
    def reached(self) -> bool:
        """Whether the log shows that the authorizers were asked."""
        return self.decision is not None or self.reason is not None

    @property
    def not_reached_because(self) -> str:
        """Why not, as far as the response tells."""
        return NOT_REACHED.get(self.code, NO_DECISION)


class Decided(NamedTuple):
    """What the current and the candidate chain say."""

    current: Authorization
    candidate: Authorization


class _Asking(NamedTuple):
    """A question with what is worked out once: `shape` is a number for all that it asks but for the name of the object."""

    asked: Question
    asks_graph: bool
    shape: int


@dataclass(slots=True)
class AuthorizationReplay:
    """All questions of a store and their answers by both chains."""

    store: Store
    chains: Chains
    questions: Mapping[int, AuthorizationAttributes]
    _decided: dict[tuple[int, StateKey], Decided] = field(default_factory=dict)
    _askings: dict[int, _Asking] = field(default_factory=dict)
    _shapes: dict[tuple[object, ...], int] = field(default_factory=dict)
    _by_shape: dict[tuple[object, ...], Decided] = field(default_factory=dict)
    _told: dict[int, bytes] = field(default_factory=dict)

    def requests(self) -> Iterator[Request]:
        """All requests, in the order of the log."""
        frame = self.store.query("authorization_requests")
        for part in frame.iter_slices(4096):
            yield from map(Request._make, part.iter_rows())

    def decide(self, request: Request) -> Decided:
        """The answers of both chains to a request, at the time it was made."""
        known = self._askings.get(request.question)
        if known is None:
            known = self._askings[request.question] = self._asking(request.question)
        state = self.chains.state_of(request.received, request.stage_time, with_graph=known.asks_graph)
        key = (request.question, state)
        found = self._decided.get(key)
        if found is None:
            found = self._decided[key] = self._shared(known, request, state)
        return found

    def _shared(self, known: _Asking, request: Request, state: StateKey) -> Decided:
        """The answers, made once for all names and all states of the cluster that do not matter."""
        attributes = known.asked.attributes
        grants = self.chains.grants_of(state, attributes.user, attributes.namespace)
        named = attributes.name if any(attributes.name in each.names for each in grants) else None
        shape = (known.shape, named, grants, state[1])
        found = self._by_shape.get(shape)
        if found is None:
            chains = self.chains.at(request.received, request.stage_time, state)
            current, candidate = (chain.decide(known.asked) for chain in chains)
            found = Decided(current, candidate)
            if named is not None or all(
                chain.ignores_name(attributes, each) for chain, each in zip(chains, found, strict=True)
            ):
                self._by_shape[shape] = found
        return found

    def _asking(self, question: int) -> _Asking:
        asked = self.questions[question]
        path = "" if asked.is_resource_request else asked.path
        shape = (
            *(id(asked.user), asked.verb, path, asked.is_resource_request),
            *(asked.api_group, asked.api_version, asked.resource, asked.subresource, asked.namespace),
            *(asked.field_selector, asked.label_selector),
        )
        number = self._shapes.setdefault(shape, len(self._shapes))
        return _Asking(Question(asked), asks_graph(asked), number)

    def decided_by(self, request: Request) -> str:
        """Who decides a request in the current chain."""
        return self.decide(request).current.decided_by

    def line(self, request: Request) -> bytes:
        """A line of `--outcomes` for a request that admission never sees."""
        attributes = self.questions[request.question]
        value = {
            "auditID": request.audit_id,
            "stageTimestamp": timestamp(request.stage_time),
            "user": attributes.user.username,
            "verb": attributes.verb,
            "resource": {
                "group": attributes.api_group,
                "version": attributes.api_version,
                "resource": attributes.resource,
                "subresource": attributes.subresource,
            },
            "namespace": attributes.namespace,
            "name": attributes.name,
            **({} if attributes.is_resource_request else {"path": attributes.path}),
        }
        return with_authorization(orjson.dumps(value, default=str), self.told(request))

    def told(self, request: Request) -> bytes:
        """The JSON of `authorization` in a line."""
        if not request.reached:
            return orjson.dumps({"notReachedBecause": request.not_reached_because})
        decided = self.decide(request)
        known = self._told.get(id(decided))
        if known is None:
            sides: JSON = {"current": decided.current.as_json(), "candidate": decided.candidate.as_json()}
            known = self._told[id(decided)] = orjson.dumps(sides)
        return known


def with_authorization(line: bytes, told: bytes) -> bytes:
    """A line with what the authorizers say, put in before the closing brace."""
    return line[:-1] + b',"authorization":' + told + b"}"


def read_questions(store: Store) -> dict[int, AuthorizationAttributes]:
    """The different questions of a store, by number."""
    return {
        question: attributes_from_uri(user_info_from_json(user), verb, uri)
        for question, user, verb, uri, _ in store.query("authorization_questions").iter_rows()
    }


def summarized(replayed: AuthorizationReplay) -> tuple[AuthorizationSummary, Gate]:
    """Count what changes, and collect the writes that one set alone lets through to admission."""
    summary = AuthorizationSummary(questions=len(replayed.questions))
    refused: list[int] = []
    let_in: list[int] = []
    tallies: dict[tuple[int, str | None, str | None], _Tally] = {}
    for request in replayed.requests():
        summary.requests += 1
        if not request.reached:
            summary.not_reached[request.not_reached_because] += 1
            continue
        decided = replayed.decide(request)
        key = (id(decided), request.decision, request.reason)
        tally = tallies.get(key)
        if tally is None:
            tally = tallies[key] = _Tally.of(request, replayed.questions[request.question], decided)
        tally.requests += 1
        if tally.agreement is Agreement.DIFFERS:
            summary.disagree(request.audit_id, decided.current, request.decision or "", request.reason or "")
        refused += [request.seq] if tally.refused else []
        let_in += [request.seq] if tally.let_in else []
    for tally in tallies.values():
        tally.count(summary)
    summary.writes_newly_refused, summary.writes_newly_let_in = len(refused), len(let_in)
    return summary, Gate(frozenset(refused), frozenset(let_in))


@dataclass(slots=True)
class _Tally:
    """The requests with the same answers, in the log and by both chains: what each of them adds to the counts."""

    first: str
    decided: Decided
    agreement: Agreement
    outcome: AuthorizationOutcome
    cell: Cell | None
    refused: bool
    let_in: bool
    requests: int = 0

    @classmethod
    def of(cls, request: Request, attributes: AuthorizationAttributes, decided: Decided) -> _Tally:
        """Worked out for the first of them."""
        outcome = authorization_outcome(*decided)
        cell = cell_of(attributes, *decided, outcome) if outcome is not AuthorizationOutcome.UNCHANGED else None
        is_write = attributes.verb in _WRITES or attributes.subresource in _CONNECT
        refused, let_in = is_write and is_newly_refused(*decided), is_write and is_newly_let_in(*decided)
        agreement = agreement_of(decided.current, request.decision or "", request.reason or "")
        return cls(request.audit_id, decided, agreement, outcome, cell, refused, let_in)

    def count(self, summary: AuthorizationSummary) -> None:
        """Add them all; tallies are added in the order of their first requests."""
        current, candidate = self.decided
        summary.agreements[self.agreement] += self.requests
        summary.outcomes[self.outcome] += self.requests
        summary.decisions[current.decision, candidate.decision] += self.requests
        for side, each in (("current", current), ("candidate", candidate)):
            for webhook in webhooks_asked(each):
                summary.webhooks[side, webhook] += self.requests
        if self.cell is not None:
            summary.cells[self.cell] += self.requests
            summary.examples.setdefault(self.cell, self.first)
