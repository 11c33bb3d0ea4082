"""Times at which the API-based policies of a set existed, from the log's creations and deletions.

A static manifest is in force from the start of its server. An object that was created through the API is in force from
then until its deletion. An object that the candidate has unchanged from the baseline exists at the same times. All
other objects of a candidate are taken to exist throughout. If such an object denies before the baseline's one existed,
that shows the gap that static manifests close.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.webhook.plugin import Backends
from replay.audit.answer import observe
from replay.audit.event import CREATED, RequestRecord
from replay.audit.store import Store
from replay.compare.fidelity import Fidelity
from replay.kcp.shard.chain import instant_of
from replay.kcp.shard.timeline import POLICY_DELAY
from replay.kube.admissionregistration import KINDS, RESOURCES, ManifestSet, Registration, Sets
from replay.kube.attributes import Attributes, Missing
from replay.kube.lister import Lister

MOST_ALTERNATIVES = 16
"""The greatest number of possible states among which the event decides. Of more states, the last is taken."""
_KINDS = dict(zip(RESOURCES, KINDS, strict=True))

Name = tuple[str, str]
"""The kind and name of an object."""


class PolicyWrite(NamedTuple):
    """A logged creation or deletion of a policy object, from receipt to response."""

    start: int
    end: int
    name: Name
    creates: bool


def writes_to(store: Store, manifests: ManifestSet) -> tuple[PolicyWrite, ...]:
    """Return the log's creations and deletions of objects of a set, in time order."""
    own = {each.key for each in manifests.registrations}
    return tuple(
        PolicyWrite(received, answered, (_KINDS[resource], name), code == CREATED)
        for resource, name, verb, code, received, answered in store.answer("written_policies")
        if (code == CREATED or verb == "delete") and (_KINDS.get(resource), name) in own
    )


def written_policies(store: Store, manifests: ManifestSet) -> frozenset[str]:
    """Return the names of policies that the log writes through the API, or that have a binding it writes."""
    written = {(resource, name) for resource, name, *_ in store.answer("written_policies")}
    names = {name for resource, name in written if resource.endswith("policies")}
    bound = {name for resource, name in written if resource.endswith("bindings")}
    return frozenset(names | {each.policy_name for each in manifests.bindings if each.name in bound})


def absent(writes: Sequence[PolicyWrite], start: int, end: int) -> list[frozenset[Name]]:
    """Return the possible sets of absent objects for a request, the earliest state first.

    There may be several because a written policy comes into force only after some seconds.
    """
    settled = sum(write.end + POLICY_DELAY <= start for write in writes)
    begun = max(settled, sum(write.start <= end for write in writes))
    # An object that the log creates first did not exist before.
    gone: set[Name] = {name for name in {write.name for write in writes} if _first(writes, name).creates}
    states: list[frozenset[Name]] = []
    for count in range(begun + 1):
        if count:
            (gone.discard if writes[count - 1].creates else gone.add)(writes[count - 1].name)
        if count >= settled:
            states.append(frozenset(gone))
    return list(dict.fromkeys(states))


def _first(writes: Iterable[PolicyWrite], name: Name) -> PolicyWrite:
    return next(write for write in writes if write.name == name)


def without(sets: Sets, names: frozenset[Name]) -> Sets:
    """Return both sets without some objects of the baseline.

    The candidate keeps an object of the same name if it differs from the baseline's.
    """
    current, candidate = sets
    one = current.filtered(lambda each: each.key not in names)
    if candidate is current:
        return one, one
    return one, candidate.filtered(lambda each: each.key not in names or each not in current.registrations)


def acting(manifests: ManifestSet, names: frozenset[Name]) -> frozenset[Name]:
    """Return `names` with all objects that have no effect without them.

    These are policies without a binding, and bindings without their policy.
    """
    closed = set(names)
    for policy, bindings in manifests.bound_policies(Registration):
        own = {each.key for each in bindings}
        if policy.key in names or (own and own <= names):
            closed |= {policy.key, *own}
    return frozenset(closed)


class TimedChain(Struct):
    """A choice of the chain for each request, by the objects that existed.

    `make` compiles a chain without some objects.
    """

    manifests: ManifestSet
    writes: Sequence[PolicyWrite]
    make: Callable[[frozenset[Name]], Chain]
    _chains: dict[frozenset[Name], Chain] = field(default_factory=dict)

    def chains(self, lister: Lister) -> list[Chain]:
        """Return the chains that may have decided, the earliest first."""
        return [self.chain(each) for each in self.absent(lister)]

    def absent(self, lister: Lister) -> list[frozenset[Name]]:
        """Return the possible sets of absent objects, the earliest state first."""
        at = instant_of(lister, "")
        states = list(dict.fromkeys(acting(self.manifests, each) for each in absent(self.writes, at.start, at.end)))
        return states if len(states) <= MOST_ALTERNATIVES else states[-1:]

    def chain(self, names: frozenset[Name]) -> Chain:
        """Return the chain without some objects. It is compiled once."""
        chain = self._chains.get(names)
        if chain is None:
            chain = self._chains[names] = self.make(names)
        return chain

    def decide(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends | None = None
    ) -> list[Decision]:
        """Return the decisions of the last possible chain (see `Chain.decide`)."""
        return self.chains(lister)[-1].decide(original, attributes, lister, backends or {})

    def validated(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends | None = None
    ) -> list[Attributes]:
        """Return the attributes of the last possible chain (see `Chain.validated`)."""
        return self.chains(lister)[-1].validated(original, attributes, lister, backends or {})


def best_shown(
    record: RequestRecord, alternatives: Sequence[list[Decision]], policies: frozenset[str]
) -> list[Decision]:
    """Return the decisions that agree best with the event, the last ones if several do."""
    if len(alternatives) == 1:
        return alternatives[0]
    scores = [agreement_with_event(record, each[0], policies) for each in alternatives]
    return next(
        each for each, score in zip(reversed(alternatives), reversed(scores), strict=True) if score == max(scores)
    )


def agreement_with_event(record: RequestRecord, decision: Decision, policies: frozenset[str]) -> int:
    """Return how well a decision agrees with the event.

    2 is full agreement, 1 agreement except for undetermined parts, 0 disagreement.
    """
    fidelity = Fidelity()
    fidelity.record(record.seq, record.audit_id, observe(record), decision, policies, in_any_order=True)
    if fidelity.disagreement_count or fidelity.first_only:
        return 0
    return 1 if any(each.undetermined for each in (fidelity.denials, fidelity.failures, fidelity.annotations)) else 2
