"""The `authorizer` of policies' CEL: the chains of the sets, as of the time of a request."""

from __future__ import annotations

from collections.abc import Callable

from replay.kube.attributes import Missing
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.lister import Lister
from replay.kube.rbac import RBACAuthorizer
from replay.pipeline.authorization.chains import Chains, asks_graph
from replay.reconstruct.cluster import ClusterLister

_DIFFERENT = Missing("authorizer", "the authorizers of the two sets answer it differently")


def policy_authorizer(chains: Chains) -> Callable[[Lister], Authorizer | Missing]:
    """Who answers at the instant of a lister.

    Policies that say the same are evaluated once for both sets: where their authorizers do not give the same answer, what
    depends on it is not known.
    """

    def at(lister: Lister) -> Authorizer:
        return _ChainsAt(chains, lister) if isinstance(lister, ClusterLister) else RBACAuthorizer(lister)

    return at


class _ChainsAt:
    """The chains of both sets at one time."""

    def __init__(self, chains: Chains, lister: ClusterLister) -> None:
        self._chains = chains
        self._lister = lister

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """See `Authorizer`."""
        start, end = self._lister.start, self._lister.end
        state = self._chains.state_of(start, end, with_graph=asks_graph(attributes))
        answers = [chain.authorize(attributes) for chain in self._chains.at(start, end, state)]
        return answers[0] if all(answer == answers[0] for answer in answers) else _DIFFERENT
