"""Refused requests of a period from the log, and unused bindings from a replay of the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from replay.audit.period import Period
from replay.audit.store import Store
from replay.compare.refusal import Refusals, Refused
from replay.pipeline.authorization.run import authorization_inputs, replay_authorization
from replay.pipeline.forensic.past import past_job
from replay.pipeline.manifests import Manifests
from replay.pipeline.options import Options


def refusals(store: Store, periods: Sequence[Period], manifests: Manifests, options: Options) -> Refusals:
    """The last of the periods, with the one before it if there are two; unused bindings where the current set has authorizers."""
    counts = [_counted(store, each) for each in periods]
    inputs = authorization_inputs(manifests, options)
    unused: tuple[str, ...] = ()
    if inputs is not None:
        unused = replay_authorization(store, inputs, past_job(store, manifests)).summary.unused
    return Refusals(counts[-1], counts[0] if len(counts) > 1 else None, unused)


def _counted(store: Store, period: Period) -> Counter[Refused]:
    rows = store.query("forbidden", start=period.start, end=period.end).iter_rows()
    return Counter({Refused(user, verb, target): count for user, verb, target, count in rows})
