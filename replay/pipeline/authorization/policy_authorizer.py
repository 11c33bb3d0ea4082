"""The `authorizer` of policies' CEL: the chains of the sets, as of the time of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.rbac.authorizer import RBACAuthorizer
from replay.pipeline.authorization.chains import Chains, asks_graph
from replay.reconstruct.cluster import ClusterLister

_DIFFERENT = Missing("authorizer", "the authorizers of the two sets answer it differently")


class SetLister(Struct, frozen=True):
    """A set's view of the cluster, with the time and the set's number, for its authorizers."""

    lister: Lister
    at: ClusterLister
    number: int

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return self.lister.get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        return self.lister.list(kind, namespace)


def asked_by(number: int, lister: Lister, lister_seen: Lister) -> Lister:
    """Return the view of a numbered set, whose own authorizers answer."""
    return SetLister(lister_seen, lister, number) if isinstance(lister, ClusterLister) else lister_seen


def policy_authorizer(chains: Chains) -> Callable[[Lister], Authorizer | Missing]:
    """Return the authorizer at a lister's time: the chain of the set that a `SetLister` names.

    Without a set, both chains must agree. Otherwise the answer is unknown.
    """

    def at(lister: Lister) -> Authorizer:
        if isinstance(lister, SetLister):
            return _ChainsAt(chains, lister.at, lister.number)
        return _ChainsAt(chains, lister) if isinstance(lister, ClusterLister) else RBACAuthorizer(lister)

    return at


class _ChainsAt:
    """The chain of one set, or of both, at one time."""

    def __init__(self, chains: Chains, lister: ClusterLister, number: int | None = None) -> None:
        self._chains = chains
        self._lister = lister
        self._number = number

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """See `Authorizer`."""
        start, end = self._lister.start, self._lister.end
        state = self._chains.state_of(start, end, with_graph=asks_graph(attributes))
        chains = self._chains.at(start, end, state)
        if self._number is not None:
            return chains[self._number].authorize(attributes)
        answers = [chain.authorize(attributes) for chain in chains]
        return answers[0] if all(answer == answers[0] for answer in answers) else _DIFFERENT
