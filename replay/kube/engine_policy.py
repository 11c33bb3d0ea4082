"""Names of a policy engine's objects that decide, and the webhooks by which they do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from replay.json import JSON

VALIDATION, MUTATION = "validation.gatekeeper.sh", "mutation.gatekeeper.sh"
"""The names of Gatekeeper's webhooks."""
_DECIDES: Final = {"constraints.gatekeeper.sh": VALIDATION, "mutations.gatekeeper.sh": MUTATION}
"""The groups whose objects are policies, and the webhook that decides with them."""


def webhook_of(value: JSON) -> str:
    """The webhook by which an object of an engine decides; empty for one that only serves others, as a template does."""
    return _DECIDES.get(str(value.get("apiVersion")).partition("/")[0], "")


def policy_name(value: JSON) -> str:
    """How decisions name an object of a policy engine: by kind and name."""
    return f"{value.get('kind')}/{(value.get('metadata') or {}).get('name')}"


def engine_policies(objects: Iterable[JSON], webhook: str = "") -> tuple[str, ...]:
    """The names of all objects that decide, or of those behind one webhook."""
    deciding = [(webhook_of(value), policy_name(value)) for value in objects]
    return tuple(name for decides, name in deciding if decides and webhook in ("", decides))
