"""Who admission sees in kcp."""

from __future__ import annotations

from msgspec.structs import replace

from replay.kube.attributes import UserInfo

SCOPES = "authentication.kcp.io/scopes"


def scoped_user(user: UserInfo, workspace: str) -> UserInfo:
    """A user who is impersonated by nobody of system:masters, and so confined to the workspace of the request.

    `kcp-dev/kcp/pkg/server/filters.WithImpersonationScoping` does it after the audit event took the user.
    """
    extra = {**user.extra, SCOPES: (*user.extra.get(SCOPES, ()), f"cluster:{workspace}")}
    return replace(user, extra=extra)
