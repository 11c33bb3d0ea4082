"""Every request of a store put to the authorizers of both sets; equal questions are decided once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from replay.audit.part import user_info_from_json
from replay.audit.store import Store
from replay.authorization.chain import Question
from replay.authorization.request_info import attributes_from_uri
from replay.authorization.trace import Authorization
from replay.compare.authorization import (
    AuthorizationOutcome,
    AuthorizationSummary,
    authorization_outcome,
    cell_of,
    is_newly_let_in,
    is_newly_refused,
    webhooks_asked,
)
from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac import NODE_PREFIX
from replay.pipeline.authorization.chains import Chains, StateKey
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


@dataclass(slots=True)
class AuthorizationReplay:
    """All questions of a store and their answers by both chains."""

    store: Store
    chains: Chains
    questions: Mapping[int, AuthorizationAttributes]
    _decided: dict[tuple[int, object], Decided] = field(default_factory=dict)
    _grants: dict[tuple[int, int, str], int] = field(default_factory=dict)
    _grant_numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    _by_shape: dict[tuple[object, ...], Decided] = field(default_factory=dict)
    _told: dict[int, bytes] = field(default_factory=dict)

    def requests(self) -> Iterator[Request]:
        """All requests, in the order of the log."""
        frame = self.store.query("authorization_requests")
        for part in frame.iter_slices(4096):
            yield from map(Request._make, part.iter_rows())

    def decide(self, request: Request) -> Decided:
        """The answers of both chains to a request, at the time it was made."""
        attributes = self.questions[request.question]
        of_node = attributes.user.username.startswith(NODE_PREFIX)
        state = self.chains.state_of(request.received, request.stage_time, of_node=of_node)
        key = (request.question, state)
        found = self._decided.get(key)
        if found is None:
            found = self._decided[key] = self._shared(attributes, request, state)
        return found

    def _shared(self, attributes: AuthorizationAttributes, request: Request, state: StateKey) -> Decided:
        """The answers, made once for all names where the name does not matter."""
        shape = (
            *(id(attributes.user), attributes.verb, attributes.api_group, attributes.api_version, attributes.resource),
            *(attributes.subresource, attributes.namespace, attributes.field_selector, attributes.label_selector),
            *(self._grants_of(attributes, state), state[1], attributes.is_resource_request),
        )
        found = self._by_shape.get(shape)
        if found is None:
            of_node = attributes.user.username.startswith(NODE_PREFIX)
            chains = self.chains.at(request.received, request.stage_time, of_node=of_node)
            asked = Question(attributes)
            current, candidate = (chain.decide(asked) for chain in chains)
            found = Decided(current, candidate)
            if all(chain.ignores_name(attributes, each) for chain, each in zip(chains, found, strict=True)):
                self._by_shape[shape] = found
        return found

    def _grants_of(self, attributes: AuthorizationAttributes, state: StateKey) -> int:
        """A number for what RBAC gives the user where the request is about."""
        place = state[0], id(attributes.user), attributes.namespace
        found = self._grants.get(place)
        if found is None:
            grants = self.chains.grants_of(state, attributes.user, attributes.namespace)
            found = self._grants[place] = self._grant_numbers.setdefault(grants, len(self._grant_numbers))
        return found

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
    effects: dict[int, _Effect] = {}
    for request in replayed.requests():
        summary.requests += 1
        if not request.reached:
            summary.not_reached[request.not_reached_because] += 1
            continue
        decided = replayed.decide(request)
        summary.observe(request.audit_id, decided.current, request.decision or "", request.reason or "")
        effect = effects.get(id(decided))
        if effect is None:
            effect = effects[id(decided)] = _Effect.of(replayed.questions[request.question], decided)
        effect.count(summary, request)
        refused += [request.seq] if effect.refused else []
        let_in += [request.seq] if effect.let_in else []
    summary.writes_newly_refused, summary.writes_newly_let_in = len(refused), len(let_in)
    return summary, Gate(frozenset(refused), frozenset(let_in))


@dataclass(frozen=True, slots=True)
class _Effect:
    """What every request with the same answers adds to the counts."""

    outcome: AuthorizationOutcome
    add: Callable[[AuthorizationSummary, Request], None]
    refused: bool
    let_in: bool

    def count(self, summary: AuthorizationSummary, request: Request) -> None:
        """Add one request."""
        self.add(summary, request)

    @classmethod
    def of(cls, attributes: AuthorizationAttributes, decided: Decided) -> _Effect:
        """Worked out once for each pair of answers."""
        outcome = authorization_outcome(*decided)
        verdicts = (decided.current.decision, decided.candidate.decision)
        cell = cell_of(attributes, *decided, outcome) if outcome is not AuthorizationOutcome.UNCHANGED else None
        asked = [
            (side, name)
            for side, each in zip(("current", "candidate"), decided, strict=True)
            for name in webhooks_asked(each)
        ]

        def add(summary: AuthorizationSummary, request: Request) -> None:
            summary.outcomes[outcome] += 1
            summary.decisions[verdicts] += 1
            for each in asked:
                summary.webhooks[each] += 1
            if cell is not None:
                summary.cells[cell] += 1
                summary.examples.setdefault(cell, request.audit_id)

        is_write = attributes.verb in _WRITES or attributes.subresource in _CONNECT
        refused, let_in = is_write and is_newly_refused(*decided), is_write and is_newly_let_in(*decided)
        return cls(outcome, add, refused, let_in)
