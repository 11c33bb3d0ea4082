"""The `authorizer` of policies in kcp.

It is that of the server without the workspace of the request in its context: system:masters may all, nobody else has a role. All
that it adds is a reason (`kcp-dev/kcp/pkg/authorization.Decorator.AddAnonymization`).
"""

from __future__ import annotations

from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.lister import Lister

MASTERS = "system:masters"


class UnknownRolesAuthorizer:
    """It knows no workspace, and so no role of anybody: it has no opinion but on the group system:masters."""

    def __init__(self, lister: Lister) -> None:
        """Nothing is looked up."""
        del lister

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Allowed to system:masters, else no opinion; it never fails."""
        is_allowed = MASTERS in attributes.user.groups
        return AuthorizationDecision(is_allowed, "" if is_allowed else "access denied")
