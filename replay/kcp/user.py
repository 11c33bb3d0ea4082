"""The user that admission sees in kcp, and the `authorizer` of policies."""

from __future__ import annotations

from msgspec.structs import replace

from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.lister import Lister

SCOPES = "authentication.kcp.io/scopes"


def scoped_user(user: UserInfo, workspace: str) -> UserInfo:
    """Return an impersonated user as admission sees it.

    It is confined to the request's workspace, unless system:masters impersonates.
    `kcp-dev/kcp/pkg/server/filters.WithImpersonationScoping` does this after the audit event took the user.
    """
    extra = {**user.extra, SCOPES: (*user.extra.get(SCOPES, ()), f"cluster:{workspace}")}
    return replace(user, extra=extra)


MASTERS = "system:masters"


class UnknownRolesAuthorizer:
    """The server's authorizer without the workspace of the request in its context.

    Without roles, it allows only system:masters. Its reason is added by
    `kcp-dev/kcp/pkg/authorization.Decorator.AddAnonymization`.
    """

    def __init__(self, lister: Lister) -> None:
        """Accept a lister like other authorizers. Nothing is looked up."""
        del lister

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Return that system:masters is allowed, and no opinion for everybody else. It never fails."""
        is_allowed = MASTERS in attributes.user.groups
        return AuthorizationDecision(is_allowed, "" if is_allowed else "access denied")
