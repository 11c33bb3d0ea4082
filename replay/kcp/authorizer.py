"""The `authorizer` of policies in kcp.

It is the server's authorizer without the workspace of the request in its context: system:masters is allowed everything,
and no other user has a role. Its reason is added by `kcp-dev/kcp/pkg/authorization.Decorator.AddAnonymization`.
"""

from __future__ import annotations

from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.lister import Lister

MASTERS = "system:masters"


class UnknownRolesAuthorizer:
    """Authorizer without a workspace, and so without roles: it allows only the group system:masters."""

    def __init__(self, lister: Lister) -> None:
        """Nothing is looked up."""
        del lister

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Allowed to system:masters, else no opinion; it never fails."""
        is_allowed = MASTERS in attributes.user.groups
        return AuthorizationDecision(is_allowed, "" if is_allowed else "access denied")
