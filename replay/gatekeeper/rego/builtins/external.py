"""Builtin `external_data`, answered from recorded answers (`constraint/pkg/client/drivers/rego/builtin.go`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from replay.gatekeeper.rego.builtins.operand import plain, wrong
from replay.gatekeeper.rego.value import UnknownTouchedError, Value


class ProviderAnswer(Struct, frozen=True):
    """Answer of a provider for a key: a value or an error."""

    value: Value = None
    error: str = ""


Answers = Mapping[str, Mapping[str, ProviderAnswer]]
"""Recorded answers by provider and key."""
_known: ContextVar[Answers] = ContextVar("answers", default={})  # noqa: B039 - nobody changes it


@contextmanager
def answering(answers: Answers) -> Iterator[None]:
    """Make these answers available to evaluations."""
    token = _known.set(answers)
    try:
        yield
    finally:
        _known.reset(token)


@plain("external_data", 1)
def external_data(request: Value) -> Value:
    """Return the response to a request. It is unknown if the answer for a key is not recorded."""
    if not isinstance(request, dict):
        return wrong(request)
    provider, keys = request.get("provider"), request.get("keys", [])
    if not isinstance(provider, str) or not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        return wrong(provider, keys, *(keys if isinstance(keys, list) else ()))
    recorded = _known.get().get(provider)
    if recorded is None:
        raise UnknownTouchedError(f"the answers of the provider {provider} are not known (--webhook {provider}=FILE)")
    if missing := [key for key in keys if key not in recorded]:
        raise UnknownTouchedError(f"the recording has no answer of the provider {provider} about {missing[0]!r}")
    answers = [(key, recorded[key]) for key in keys]
    return {
        "responses": [[key, answer.value] for key, answer in answers if not answer.error],
        "errors": [[key, answer.error] for key, answer in answers if answer.error],
        "status_code": 200 if keys else 0,
        "system_error": "",
    }
