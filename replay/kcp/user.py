"""User that admission sees in kcp."""

from __future__ import annotations

from msgspec.structs import replace

from replay.kube.attributes import UserInfo

SCOPES = "authentication.kcp.io/scopes"


def scoped_user(user: UserInfo, workspace: str) -> UserInfo:
    """Return an impersonated user as admission sees it: confined to the request's workspace, unless system:masters impersonates.

    `kcp-dev/kcp/pkg/server/filters.WithImpersonationScoping` does this after the audit event took the user.
    """
    extra = {**user.extra, SCOPES: (*user.extra.get(SCOPES, ()), f"cluster:{workspace}")}
    return replace(user, extra=extra)
