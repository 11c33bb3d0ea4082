"""API versions that an upgrade removes, and their users in the log."""

from __future__ import annotations

from typing import Any

from replay.compare.result import ApiVersionUse, RunResult, Service
from replay.report.render.document import Align, Column, Fact, Section, Table, Tone, inert, moment, number, plural

_MOST_NAMES = 2


def removed_verdict(result: RunResult) -> str:
    """Return a sentence about successful requests that the candidate's server does not serve, or ""."""
    removed = sum(use.succeeded for use in _removed(result))
    if not removed:
        return ""
    version = result.versions.candidate
    return f"{plural(removed, 'request uses', 'requests use')} API versions that Kubernetes {version} does not serve."


def api_versions_fact(result: RunResult) -> Fact | None:
    """Return the number and the users of requests that are not served after the upgrade.

    None without an upgrade or such requests.
    """
    by_service = {service: _requests(result, service) for service in Service}
    if not any(by_service.values()):
        return None
    if removed := sum(use.succeeded for use in _removed(result)):
        users = dict.fromkeys(use.user for use in _removed(result) if use.succeeded)
        more = f" and {number(len(users) - _MOST_NAMES)} more" if len(users) > _MOST_NAMES else ""
        named = ", ".join(inert(user) for user in list(users)[:_MOST_NAMES]) + more
        return Fact("API versions", plural(removed, "request"), f"no longer served; by {named}", Tone.BAD)
    parts = [f"{number(count)} {service}" for service, count in by_service.items() if count]
    return Fact("API versions", "served as before", f"requests: {', '.join(parts)} versions", Tone.GOOD)


def api_versions_section(result: RunResult, rows: int) -> Section | None:
    """Return the section with the users of deprecated or removed versions, or None."""
    uses = result.api_versions
    if not uses:
        return None
    columns = (
        Column("API version", Align.CODE),
        Column("resource", Align.CODE),
        Column("served"),
        Column("use instead", Align.CODE, optional=True),
        Column("user", Align.CODE),
        Column("client", Align.CODE, optional=True),
        Column("last request", optional=True),
        Column("requests", Align.NUMBER),
    )
    shown = tuple(
        (
            use.resource.group + "/" * bool(use.resource.group) + use.resource.version,
            inert(use.resource.resource),
            _served(use),
            use.replacement,
            inert(use.user),
            inert(use.agent),
            moment(use.last),
            number(use.requests),
        )
        for use in uses[:rows]
    )
    table = Table("api-versions-table", "", columns, shown, len(uses))
    is_grave = uses[0].service is Service.REMOVED
    lead = f"Requests of the log to API versions that are deprecated or removed ({result.versions})."
    return Section(
        "api-versions", "API versions", lead, (table,), Tone.BAD if is_grave else Tone.PLAIN, quiet=not is_grave
    )


def api_versions_json(result: RunResult) -> list[dict[str, Any]]:
    """Return the uses as plain JSON."""
    return [
        {
            "group": use.resource.group,
            "version": use.resource.version,
            "resource": use.resource.resource,
            "service": use.service.value,
            **({"removedIn": f"1.{use.removed}"} if use.removed else {}),
            **({"replacement": use.replacement} if use.replacement else {}),
            "user": use.user,
            "userAgent": use.agent,
            "requests": use.requests,
            "succeeded": use.succeeded,
        }
        for use in result.api_versions
    ]


def _served(use: ApiVersionUse) -> str:
    if use.service is Service.DEPRECATED:
        return f"until 1.{use.removed - 1}" if use.removed else "yes, deprecated"
    return f"not since 1.{use.removed}" if use.service is Service.GONE else f"no: 1.{use.removed} removes it"


def _removed(result: RunResult) -> list[ApiVersionUse]:
    return [use for use in result.api_versions if use.service is Service.REMOVED]


def _requests(result: RunResult, service: Service) -> int:
    return sum(use.requests for use in result.api_versions if use.service is service)
