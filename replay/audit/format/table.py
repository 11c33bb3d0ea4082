"""The table of log formats, with one row each. A new format needs a row here, a fixture, and a row of `docs/logs.md`."""

from __future__ import annotations

from msgspec import Struct

from replay.audit.format.admission_review import events_of_reviews
from replay.audit.format.cloud_audit import AKS_TABLE, CLOUD_AUDIT
from replay.audit.format.flattened import unflattened
from replay.audit.format.wrapper import FieldWrapper, TextWrapper, Wrapper, after_prefix, container_documents
from replay.errors import ReplayError


class LogFormat(Struct, frozen=True):
    """A way to wrap audit events: its name, the products that write it (also names), and how to unwrap it.

    Without a wrapper, events are one per line, documents over several lines, or items of an array or of an EventList.
    """

    name: str
    products: tuple[str, ...]
    wrapper: Wrapper | None


PLAIN = LogFormat("plain", ("openshift", "k3s", "rke2", "eventlist"), None)
PREFIXED = LogFormat("prefixed", ("eks", "openshift", "syslog"), TextWrapper(after_prefix))
CONTAINER = LogFormat("cri", (), TextWrapper(container_documents))
FLATTENED = LogFormat("flattened", ("fluentd", "vector", "splunk"), TextWrapper(unflattened))
REVIEWS = LogFormat("admission-review", ("webhook",), TextWrapper(events_of_reviews))
FORMATS: tuple[LogFormat, ...] = (
    PLAIN,
    PREFIXED,
    CONTAINER,
    FLATTENED,
    LogFormat("cloudwatch-subscription", ("eks",), FieldWrapper("logEvents[].message")),
    LogFormat("cloudwatch-events", ("eks",), FieldWrapper("events[].message")),
    LogFormat("azure-records", ("aks",), FieldWrapper("records[].properties.log")),
    LogFormat("azure-record", ("aks",), FieldWrapper("properties.log")),
    LogFormat("azure-diagnostics", ("aks",), FieldWrapper("log_s")),
    LogFormat("aks-table", ("aks",), AKS_TABLE),
    LogFormat("cloud-audit", ("gke",), CLOUD_AUDIT),
    REVIEWS,
    LogFormat("splunk-export", ("splunk",), FieldWrapper("result._raw")),
    LogFormat("splunk-raw", ("splunk",), FieldWrapper("_raw")),
    LogFormat("loki-query", ("loki",), FieldWrapper("data.result[].values[][1]")),
    LogFormat("loki-push", ("loki",), FieldWrapper("streams[].values[][1]")),
    LogFormat("loki-line", ("loki",), FieldWrapper("line")),
    LogFormat("elastic-hits", ("elasticsearch", "logstash"), FieldWrapper("hits.hits[]._source")),
    LogFormat("elastic-hit", ("elasticsearch", "logstash"), FieldWrapper("_source")),
    LogFormat("elastic-common-schema", ("elasticsearch",), FieldWrapper("kubernetes.audit")),
    LogFormat("event-original", ("logstash", "elasticsearch"), FieldWrapper("event.original")),
    LogFormat("log", ("fluentbit", "fluentd", "docker"), FieldWrapper("log")),
    LogFormat("log-processed", ("fluentbit",), FieldWrapper("log_processed")),
    LogFormat("message", ("fluentd", "logstash", "vector"), FieldWrapper("message")),
    LogFormat("event", ("splunk", "vector"), FieldWrapper("event")),
)


def formats_named(name: str) -> tuple[LogFormat, ...]:
    """Return the formats with this name or of this product. Raises ReplayError for an unknown name."""
    formats = tuple(each for each in FORMATS if name == each.name or name in each.products)
    if not formats:
        raise ReplayError(f"--from: `{name}` is not known: there are {', '.join(products())}")
    return formats


def products() -> list[str]:
    """Return the names of all products that write logs, sorted."""
    return sorted({product for each in FORMATS for product in each.products})
