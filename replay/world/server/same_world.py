"""Answers about an object that is still as in the log: only the verdicts of the sets differ."""

from __future__ import annotations

from collections.abc import Iterator

from replay.admission.decision import Verdict
from replay.kube.attributes import Missing
from replay.reconstruct.record.known import GONE, Known
from replay.reconstruct.server.deletion import left_by_deletion
from replay.world.request_adapter import RequestAdapter, after_write
from replay.world.result import ABSENT, CONFLICT, EXISTS, INVALID, UNKNOWN, VERSION_NAMED, Cause
from replay.world.server.answer import (
    ServerAnswer,
    connected,
    denied,
    mutated_later,
    subresource_done,
    succeeds,
)
from replay.world.server.invalidity import breaks_update
from replay.world.state import known_or_missing
from replay.world.step import WorldStep
from replay.world.validation import may_break


class SameWorld:
    """Answers requests about an object that is still as in the log."""

    def __init__(self, request_adapter: RequestAdapter) -> None:
        """Keep the inputs. `request_adapter` computes what a write stores if it stored nothing in the log."""
        self._adapter = request_adapter

    def answers(self, step: WorldStep) -> Iterator[ServerAnswer]:
        """Yield the possible answers."""
        log = step.logged
        if step.isolated_end is not None or step.is_undetermined:
            yield from self._as_found(step)
            return
        if not (step.is_reached or step.is_invalid_by_current):
            yield ServerAnswer(log, None)
            return
        current, candidate = step.decisions
        if current is candidate or candidate.verdict is Verdict.NOT_REACHED:
            yield ServerAnswer(log, None)
        elif candidate.denials and not candidate.denials[0].is_of_mutation and step.is_made_invalid:
            yield ServerAnswer(INVALID._replace(certain=False), step.state_after_refusal)
        elif candidate.denials:
            # The outcome line lacks these denials if the request was invalid in the log.
            decision = candidate if step.is_invalid_by_current else None
            yield ServerAnswer(denied(candidate), step.state_after_refusal, decision)
        elif candidate.verdict is Verdict.UNDETERMINED:
            yield from self._undetermined(step)
        elif step.is_refused_by_current:
            yield from self._newly_admitted(step)
        elif log.cause == Cause.SUCCEEDS and candidate.patch != current.patch:
            yield self._mutated(step)
        elif log.cause == Cause.EXISTS and candidate.patch != current.patch and step.is_made_invalid:
            yield ServerAnswer(INVALID, None)  # validation comes before storage finds that the object exists
        else:
            yield ServerAnswer(log, None)

    def _as_found(self, step: WorldStep) -> Iterator[ServerAnswer]:
        """Yield what the first pass found: a refusal, a valid object with another mutation, or neither."""
        if step.isolated_end is None:
            yield from self._undetermined(step)
        elif step.isolated_end.result.cause != Cause.SUCCEEDS:
            yield ServerAnswer(step.isolated_end.result, step.state_after_refusal)
        else:
            yield ServerAnswer(step.logged, None if step.is_last or step.is_dry else mutated_later(step))

    def _undetermined(self, step: WorldStep) -> Iterator[ServerAnswer]:
        """Yield both answers: the one of the log, and the one with the opposite verdict."""
        if step.is_refused_by_current:
            yield ServerAnswer(UNKNOWN, None)
            for answer in self._newly_admitted(step):
                yield answer._replace(result=UNKNOWN)
        elif step.logged.cause == Cause.SUCCEEDS:
            yield ServerAnswer(UNKNOWN, None)
            # If the candidate refuses the write, the object stays as it was.
            if step.is_stored:
                yield ServerAnswer(UNKNOWN, step.old)
        else:
            yield ServerAnswer(UNKNOWN, None)

    def _newly_admitted(self, step: WorldStep) -> Iterator[ServerAnswer]:
        """Yield the answers to a request that only the baseline refused: API validation and storage follow."""
        verb, record = step.record.verb, step.record
        if verb == "delete":
            for left in left_by_deletion(step.old, step.exchange):
                yield ServerAnswer(succeeds(200), left if not step.is_dry else None)
        elif step.is_made_invalid:
            yield ServerAnswer(INVALID, None)
        elif verb == "create" and not record.subresource:
            yield self._created(step, exists=step.existed_before)
        elif verb in ("update", "patch"):
            yield self._updated(step)
        elif not step.existed_before:
            yield ServerAnswer(ABSENT, None)
        elif step.conflicts:
            yield ServerAnswer(CONFLICT, None)
        elif step.exchange.is_connect:
            yield ServerAnswer(connected(step.old), None)
        else:
            yield subresource_done(step, None)

    def _created(self, step: WorldStep, *, exists: bool = False) -> ServerAnswer:
        if step.is_of_new_version:
            return ServerAnswer(VERSION_NAMED, None)
        if exists:
            return ServerAnswer(EXISTS, None)
        stored = None if step.is_dry else self._adapter.stored_after_failure(step, GONE, known_or_missing(step.new))
        return ServerAnswer(succeeds(201), stored)

    def _updated(self, step: WorldStep) -> ServerAnswer:
        new = known_or_missing(step.new)
        if not isinstance(step.old, Missing) and step.old.value is None:
            return self._created(step)
        if breaks_update(step, step.old, new):
            return ServerAnswer(INVALID, None)
        stored = after_write(step.old, step.exchange, self._adapter.stored_after_failure(step, step.old, new))
        return ServerAnswer(succeeds(200), stored if not step.is_dry else None)

    def _mutated(self, step: WorldStep) -> ServerAnswer:
        """Return the answer if the candidate mutates differently: another stored object, if it is valid."""
        if step.is_last and not may_break(step.candidate.patch):
            return ServerAnswer(step.logged, None)
        new = known_or_missing(step.new)
        if isinstance(new, Known) and step.is_made_invalid:
            return ServerAnswer(INVALID, step.state_after_refusal)
        return ServerAnswer(
            step.logged, None if step.is_dry else step.state_after_write(after_write(step.old, step.exchange, new))
        )
