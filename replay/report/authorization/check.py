"""Output of `replay check --authorization`, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from replay.authorization.start import PANIC, Checked, LoadResult
from replay.json import JSON


def checked_text(name: str, checked: Checked) -> Iterator[str]:
    """Yield one line per error, then our warnings, then the server's action."""
    if checked.problems:
        place = checked.problems[0].position
        yield f"{name}:{place.line}:{place.column}: {checked.error}"
    elif checked.field_errors:
        yield from (f"{name}: {error}" for error in checked.field_errors)
    elif checked.error:
        yield f"{name}: {checked.explained}"
    yield from (f"{name}: warning: {warning}" for warning in checked.warnings)
    yield f"{name}: {checked.result.value}"


def checked_json(checked: Checked) -> JSON:
    """`ok`, `error` and `result`; `panic` where the server dies, `warnings` where there are any."""
    fields: JSON = {"ok": checked.is_accepted, "error": checked.error or "", "result": checked.result.value}
    if checked.result is LoadResult.PANIC:
        fields["panic"] = PANIC
    if checked.warnings:
        fields["warnings"] = list(checked.warnings)
    return fields
