"""Replays every request of a store with the authorizers of both sets. Equal questions are decided once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import orjson
from msgspec import Struct, field

from replay.audit import queries
from replay.audit.part import user_info_from_json
from replay.audit.store import Store
from replay.authorization.chains import Chains, StateKey, asks_graph
from replay.authorization.question import Question, attributes_from_uri
from replay.authorization.trace import Authorization
from replay.compare.authorization import (
    MOST_EXAMPLES,
    AuthorizationAgreement,
    AuthorizationCell,
    AuthorizationOutcome,
    AuthorizationSummary,
    agreement_of,
    authorization_outcome,
    cell_of,
    decision_of_log,
    is_newly_let_in,
    is_newly_refused,
    is_no_longer_known,
    webhooks_asked,
)
from replay.go.time import timestamp
from replay.identity import IdentityMap
from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac_authorizer import Grants
from replay.matching.coarse import Predicate
from replay.on_demand import pl
from replay.world.decide import Gate

_WRITES = frozenset(["create", "update", "patch", "delete", "deletecollection"])
_CONNECT = frozenset(["attach", "exec", "portforward", "proxy"])
NOT_REACHED = {401: "authentication failed", 403: "impersonation refused", 429: "too many requests"}
"""Why a request without authorizer annotations did not reach them, by response code."""
NO_DECISION = "the log holds no decision"


class AuthorizedRequest(NamedTuple):
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
        """Return whether the log shows that the request reached the authorizers."""
        return self.decision is not None or self.reason is not None

    @property
    def not_reached_because(self) -> str:
        """The reason why the request did not reach the authorizers, as far as the response shows it."""
        return NOT_REACHED.get(self.code, NO_DECISION)


class AuthorizationPair(NamedTuple):
    """Decisions of the baseline's and the candidate's chain."""

    current: Authorization
    candidate: Authorization


class _QuestionKey(NamedTuple):
    """A question with computed parts. `shape` numbers the combination of everything that decisions can depend on."""

    attributes: AuthorizationAttributes
    asks_graph: bool
    shape: int


class EqualRequests(NamedTuple):
    """Requests with equal decisions: the first one, the sequence numbers of all, and some audit IDs."""

    first: AuthorizedRequest
    seqs: Sequence[int]
    audit_ids: Sequence[str]


_ALIKE = ("shape", "rbac", "alone", "decision", "reason")
"""Columns that decide a request. Requests with equal values are decided once."""


class AuthorizationReplay(Struct):
    """All questions of a store, with both chains' answers."""

    store: Store
    chains: Chains
    questions: Mapping[int, AuthorizationAttributes]
    within: Predicate | None = None
    """The selected requests, if not all."""
    _decided: dict[tuple[int, StateKey], AuthorizationPair] = field(default_factory=dict)
    _question_keys: dict[int, _QuestionKey] = field(default_factory=dict)
    _shapes: dict[tuple[object, ...], int] = field(default_factory=dict)
    _by_grants: dict[tuple[int, tuple[Grants, ...], tuple[int, int]], AuthorizationPair] = field(default_factory=dict)
    _sides_json: IdentityMap[AuthorizationPair, bytes] = field(default_factory=IdentityMap)
    _frame: pl.DataFrame | None = None

    def requests(self) -> Iterator[AuthorizedRequest]:
        """Yield all selected requests, in log order."""
        for part in self.frame.iter_slices(4096):
            yield from map(AuthorizedRequest._make, part.iter_rows())

    @property
    def frame(self) -> pl.DataFrame:
        """The selected requests as a table."""
        if self._frame is None:
            text = queries.text("authorization_requests")
            self._frame = self.store.sql(
                text.replace("$within", self.within.sql if self.within is not None else "true")
            )
        return self._frame

    def equal_requests(self) -> Iterator[EqualRequests]:
        """Yield the requests that reached the authorizers, grouped by equal decisions of both chains and the log."""
        reached = self.frame.filter(_is_reached())
        askings = pl.DataFrame(
            [(question, *self._question_key(question)[1:]) for question in reached["question"].unique()],
            {"question": reached.schema["question"], "asks_graph": pl.Boolean, "shape": pl.Int64},
            orient="row",
        )
        rbac = self.chains.rbac_states(reached["received"], reached["stage_time"])
        questions = reached.with_columns(rbac=rbac).join(askings, on="question", how="left", maintain_order="left")
        # Objects that belong to nodes may change at any time, so that these questions are decided one by one.
        alone = questions.with_columns(alone=pl.when("asks_graph").then(pl.col("seq")))
        of_first = [pl.col(name).first() for name in AuthorizedRequest._fields if name not in _ALIKE]
        of_all = pl.col("seq").alias("seqs"), pl.col("audit_id").head(MOST_EXAMPLES).alias("audit_ids")
        groups = alone.group_by(_ALIKE, maintain_order=True).agg(*of_first, *of_all)
        for *first, seqs, audit_ids in groups.select(*AuthorizedRequest._fields, "seqs", "audit_ids").iter_rows():
            yield EqualRequests(AuthorizedRequest._make(first), seqs, audit_ids)

    def decide(self, request: AuthorizedRequest) -> AuthorizationPair:
        """Return the decisions of both chains about a request, at its time."""
        question_key = self._question_keys.get(request.question) or self._question_key(request.question)
        state = self.chains.state_of(request.received, request.stage_time, with_graph=question_key.asks_graph)
        key = (question_key.shape, state)
        pair = self._decided.get(key)
        if pair is None:
            pair = self._decided[key] = self._shared(question_key, request, state)
        return pair

    def _shared(self, question_key: _QuestionKey, request: AuthorizedRequest, state: StateKey) -> AuthorizationPair:
        """Return the decisions, computed once for all cluster states that grant the same."""
        attributes = question_key.attributes
        key = (question_key.shape, self.chains.grants_of(state, attributes.user, attributes.namespace), state[1])
        pair = self._by_grants.get(key)
        if pair is None:
            question = Question(attributes)
            current, candidate = (
                chain.decide(question) for chain in self.chains.at(request.received, request.stage_time, state)
            )
            pair = self._by_grants[key] = AuthorizationPair(current, candidate)
        return pair

    def _question_key(self, question: int) -> _QuestionKey:
        attributes = self.questions[question]
        # A name counts only if some rule distinguishes it, so that most requests have the same shape.
        is_named = bool(attributes.name) and self.chains.reads_name(attributes)
        shape = (
            *(
                id(attributes.user),
                attributes.verb,
                "" if attributes.is_resource_request else attributes.path,
                attributes.is_resource_request,
            ),
            *(
                attributes.api_group,
                attributes.api_version,
                attributes.resource,
                attributes.subresource,
                attributes.namespace,
            ),
            *(attributes.field_selector, attributes.label_selector, attributes.name if is_named else ""),
        )
        number = self._shapes.setdefault(shape, len(self._shapes))
        question_key = self._question_keys[question] = _QuestionKey(attributes, asks_graph(attributes), number)
        return question_key

    def decided_by(self, request: AuthorizedRequest) -> str:
        """Return the authorizer that decides a request in the baseline's chain."""
        return self.decide(request).current.decided_by

    def line(self, request: AuthorizedRequest) -> bytes:
        """Return a line of `--outcomes` for a request that admission never sees."""
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
        return with_authorization(orjson.dumps(value, default=str), self.authorization_json(request))

    def authorization_json(self, request: AuthorizedRequest) -> bytes:
        """Return the JSON for `authorization` in a line."""
        if not request.reached:
            return orjson.dumps({"notReachedBecause": request.not_reached_because})
        decided = self.decide(request)
        line = self._sides_json.get(decided)
        if line is None:
            sides: JSON = {"current": decided.current.as_json(), "candidate": decided.candidate.as_json()}
            line = self._sides_json[decided] = orjson.dumps(sides)
        return line


def with_authorization(line: bytes, authorization: bytes) -> bytes:
    """Return a line with the authorizers' decisions, inserted before the closing brace."""
    return line[:-1] + b',"authorization":' + authorization + b"}"


def read_questions(store: Store) -> dict[int, AuthorizationAttributes]:
    """Return the distinct questions of a store, by number."""
    return {
        question: attributes_from_uri(user_info_from_json(user), verb, uri)
        for question, user, verb, uri, _ in store.query("authorization_questions").iter_rows()
    }


def _is_reached() -> pl.Expr:
    return pl.col("decision").is_not_null() | pl.col("reason").is_not_null()


def summarized(replayed: AuthorizationReplay) -> tuple[AuthorizationSummary, Gate]:
    """Return the counts of changed decisions, and the writes that only one set's authorizers allow."""
    summary = AuthorizationSummary(questions=len(replayed.questions))
    frame = replayed.frame
    summary.requests = len(frame)
    unreached = frame.filter(~_is_reached()).group_by("code", maintain_order=True).len()
    for code, count in unreached.iter_rows():
        summary.not_reached[NOT_REACHED.get(code, NO_DECISION)] += count
    refused: list[int] = []
    newly_allowed: list[int] = []
    unknown: list[int] = []
    differing: list[tuple[int, str, _Tally]] = []
    tallies: dict[tuple[int, str | None, str | None], _Tally] = {}
    for alike in replayed.equal_requests():
        first, decided = alike.first, replayed.decide(alike.first)
        key = (id(decided), first.decision, first.reason)
        tally = tallies.get(key)
        if tally is None:
            tally = tallies[key] = _Tally.from_decision(first, replayed.questions[first.question], decided)
        tally.requests += len(alike.seqs)
        refused += alike.seqs if tally.refused else []
        newly_allowed += alike.seqs if tally.newly_allowed else []
        unknown += alike.seqs if tally.unknown else []
        if tally.agreement is AuthorizationAgreement.DIFFERS:
            differing += [(*each, tally) for each in zip(alike.seqs, alike.audit_ids, strict=False)]
    for tally in tallies.values():
        tally.count(summary)
    for _, audit_id, tally in sorted(differing, key=itemgetter(0, 1))[:MOST_EXAMPLES]:
        summary.disagree(audit_id, tally.decided.current, *tally.recorded)
    summary.writes_newly_refused, summary.writes_newly_let_in = len(refused), len(newly_allowed)
    return summary, Gate(frozenset(refused), frozenset(newly_allowed), frozenset(unknown))


class _Tally(Struct):
    """The requests with equal decisions in the log and by both chains, and the number that each adds to the counts."""

    first: str
    recorded: tuple[str, str]
    decided: AuthorizationPair
    agreement: AuthorizationAgreement
    outcome: AuthorizationOutcome
    cell: AuthorizationCell | None
    refused: bool
    newly_allowed: bool
    unknown: bool
    requests: int = 0

    @classmethod
    def from_decision(
        cls, request: AuthorizedRequest, attributes: AuthorizationAttributes, decided: AuthorizationPair
    ) -> _Tally:
        """Return the tally for the first of its requests."""
        outcome = authorization_outcome(*decided)
        cell = cell_of(attributes, *decided, outcome) if outcome is not AuthorizationOutcome.UNCHANGED else None
        is_write = attributes.verb in _WRITES or attributes.subresource in _CONNECT
        recorded = request.decision or "", request.reason or ""
        before = decision_of_log(decided.current, recorded[0])
        refused, newly_allowed, unknown = (
            is_write and each(before, decided.candidate)
            for each in (is_newly_refused, is_newly_let_in, is_no_longer_known)
        )
        agreement = agreement_of(decided.current, *recorded)
        return cls(request.audit_id, recorded, decided, agreement, outcome, cell, refused, newly_allowed, unknown)

    def count(self, summary: AuthorizationSummary) -> None:
        """Add the requests to a summary. Tallies are added in the order of their first requests."""
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
