"""EventRateLimit: token buckets for Events, by server, namespace, user or source.

Source: `plugin/pkg/admission/eventratelimit`.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from replay.admission.builtin.partial import UnknownInputError
from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, check_kind, plain_list
from replay.errors import ManifestError
from replay.go.format import aggregate
from replay.json import JSON
from replay.kube.attributes import Missing

_DEFAULT_CACHE: Final = 4096
_SECOND: Final = 1_000_000_000
_SERVER: Final = "Server"


class _Bucket:
    """`rate.Limiter` of golang.org/x/time: `burst` tokens at first, `rate` more a second, floats as there."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._last: int | None = None

    def take(self, now: int) -> bool:
        """Return whether a token is available at a time in nanoseconds, and take it."""
        passed = max(0, now - self._last) if self._last is not None else 0
        seconds = float(passed // _SECOND) + float(passed % _SECOND) / 1e9
        tokens = min(self._tokens + seconds * self._rate, float(self._burst)) - 1.0
        # Go rounds the wait down to nanoseconds, so a smaller one counts as none.
        if self._burst < 1 or (tokens < 0 and int(-tokens / self._rate * _SECOND) > 0):
            return False
        self._last, self._tokens = now, tokens
        return True


class _Limit:
    """One limit with its buckets by key. The least recently used bucket is dropped if there are too many."""

    def __init__(self, limit: JSON) -> None:
        self._type = str(limit["type"])
        # Go converts the rate to a float32.
        self._rate = struct.unpack("f", struct.pack("f", float(limit["qps"])))[0]
        self._burst = int(limit["burst"])
        self._size = int(limit.get("cacheSize") or 0) or _DEFAULT_CACHE
        self._key = _KEYS[self._type]
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._unknown: Missing | None = None

    def refuse(self, review: Review) -> str:
        """Return why the request exceeds this limit, empty if it does not.

        Raise UnknownInputError if the bucket of this event or an earlier one is unknown.
        """
        try:
            key = self._key(review)
        except UnknownInputError as error:
            self._unknown = error.missing
            raise
        # The earlier event took a token from an unknown bucket, so the fill of every bucket is uncertain since then.
        if self._unknown is not None:
            reason = f"an earlier event counted towards an unknown bucket: {self._unknown.reason}"
            raise UnknownInputError(Missing(self._unknown.path, reason, self._unknown.fix))
        if self._bucket(key).take(review.time * 1000):
            return ""
        return f"limit reached on type {self._type} for key {key}"

    def _bucket(self, key: str) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._rate, self._burst)
            if len(self._buckets) > self._size:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket


def _source_and_object(review: Review) -> str:
    """Return the parts joined without a separator."""
    event = review.object
    source, involved = event.get("source") or {}, event.get("involvedObject") or {}
    fields = ("kind", "namespace", "name", "uid", "apiVersion")
    parts = [source.get("component"), source.get("host"), *(involved.get(field) for field in fields)]
    return "".join(str(part) for part in parts if part)


_KEYS: Final[Mapping[str, Callable[[Review], str]]] = {
    _SERVER: lambda _: "",
    "Namespace": lambda review: review.attributes.namespace,
    "User": lambda review: review.attributes.user_info.username,
    "SourceAndObject": _source_and_object,
}


class EventRateLimit(Plugin):
    """Token buckets for Events. A token is taken from each limit, even if another one denies.

    Dry runs and Events of events.k8s.io do not count.
    """

    name = "EventRateLimit"
    operations = CREATE_UPDATE
    concerns = (("", ("events",)), ("events.k8s.io", ("events",)))
    is_stateful = True
    counts_requests = True
    is_timed = True

    def __init__(self, limits: list[JSON]) -> None:
        """`limits` are those of the configuration."""
        self._limits = [_Limit(limit) for limit in limits]

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> EventRateLimit:
        """See `Plugin.configured`."""
        del flags
        check_kind(configuration, "Configuration", {"eventratelimit.admission.k8s.io/v1alpha1"})
        limits = list((configuration or {}).get("limits") or ())
        if errors := _errors(limits):
            raise ManifestError(aggregate(errors))
        return cls(limits)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse an event without a token, with 429."""
        attributes = review.attributes
        if (attributes.kind.group, attributes.kind.kind) != ("", "Event") or attributes.dry_run:
            return None
        errors: list[str] = []
        unknown: UnknownInputError | None = None
        # Every limit takes its token, even if an earlier one denies or is unknown.
        for limit in self._limits:
            try:
                errors += filter(None, [limit.refuse(review)])
            except UnknownInputError as error:
                unknown = error
        if unknown is not None:
            raise unknown
        return Refusal(429, "TooManyRequests", f"Too many requests: {aggregate(errors)}") if errors else None


def _errors(limits: list[JSON]) -> list[str]:
    """Return the problems of a configuration (`ValidateConfiguration`)."""
    errors = [] if limits else ["limits: Invalid value: null: must not be empty"]
    for index, limit in enumerate(limits):
        path, kind = f"limits[{index}]", limit.get("type") or ""
        if kind not in _KEYS:
            errors.append(f'{path}.type: Unsupported value: "{kind}": supported values: {plain_list(_KEYS)}')
        values = ((field, limit.get(field) or 0) for field in ("burst", "qps"))
        errors += [f"{path}.{field}: Invalid value: {value}: must be positive" for field, value in values if value <= 0]
        if kind != _SERVER and (value := limit.get("cacheSize") or 0) < 0:
            errors.append(f"{path}.cacheSize: Invalid value: {value}: must not be negative")
    return errors
