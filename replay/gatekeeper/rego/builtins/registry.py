"""Registry of all Rego builtins (`opa/v1/ast/builtins.go`). Some are known by name only, and their result is unknown.

`http.send` is missing: Gatekeeper's released manifests disable it, so a template that uses it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from replay.gatekeeper.rego.builtins import (
    collection,
    encoding,
    network,
    number,
    number_text,
    pattern,
    string,
    time,
)
from replay.gatekeeper.rego.builtins.operand import ARITIES, DEPRECATED, FUNCTIONS, plain, wrong
from replay.gatekeeper.rego.builtins.string import interpolated
from replay.gatekeeper.rego.value import UnknownTouchedError, Value

# Builtin `external_data`, answered from recorded answers (`constraint/pkg/client/drivers/rego/builtin.go`).


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


__all__ = ["ARITIES", "DEPRECATED", "FUNCTIONS", "UNDECIDED", "interpolated"]

MODULES = (collection, encoding, network, number, number_text, pattern, string, time)

UNDECIDED = {
    "crypto.parse_private_keys": 1,
    "crypto.x509.parse_and_verify_certificates": 1,
    "crypto.x509.parse_and_verify_certificates_with_options": 2,
    "crypto.x509.parse_certificate_request": 1,
    "crypto.x509.parse_certificates": 1,
    "crypto.x509.parse_keypair": 2,
    "crypto.x509.parse_rsa_private_key": 1,
    "graphql.is_valid": 2,
    "graphql.parse": 2,
    "graphql.parse_and_verify": 2,
    "graphql.parse_query": 1,
    "graphql.parse_schema": 1,
    "graphql.schema_is_valid": 1,
    "io.jwt.decode": 1,
    "io.jwt.decode_verify": 2,
    "io.jwt.encode_sign": 3,
    "io.jwt.encode_sign_raw": 3,
    **{
        f"io.jwt.verify_{name}": 2
        for name in (
            "eddsa",
            "es256",
            "es384",
            "es512",
            "hs256",
            "hs384",
            "hs512",
            "ps256",
            "ps384",
            "ps512",
            "rs256",
            "rs384",
            "rs512",
        )
    },
    "json.match_schema": 2,
    "json.patch": 2,
    "json.verify_schema": 1,
    "net.lookup_ip_addr": 1,
    "opa.runtime": 0,
    "providers.aws.sign_req": 3,
    "rand.intn": 2,
    "regex.globs_match": 2,
    "regex.template_match": 4,
    "rego.metadata.chain": 0,
    "rego.metadata.rule": 0,
    "rego.parse_module": 2,
    "strings.render_template": 2,
    "time.now_ns": 0,
    "uri.is_valid": 1,
    "uri.parse": 1,
    "uuid.parse": 1,
    "uuid.rfc4122": 1,
    "yaml.marshal": 1,
}
"""Builtins without a result here, by number of arguments.

They need a clock, randomness or a network, or are not implemented.
"""


def _undecided(name: str, arity: int) -> None:
    @plain(name, arity)
    def ask(*_: Value) -> Value:
        raise UnknownTouchedError(f"the answer of {name} is not known")


for _name, _arity in UNDECIDED.items():
    _undecided(_name, _arity)
