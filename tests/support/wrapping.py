"""Audit events put into the envelopes that clouds and log shippers put them into, in their documented shapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

TIME = "2026-01-01T00:00:00.000Z"
Wrap = Callable[[Sequence[str]], bytes]
"""From the lines of a log to the content of a file."""


class Wrapping(NamedTuple):
    """`name` is what `--from` calls the format, or a product's name where that has the same form."""

    name: str
    what: str
    wrap: Wrap


def _lines(values: Iterable[Any]) -> bytes:
    return "".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in values).encode()


def _each(wrap: Callable[[str], Any]) -> Wrap:
    return lambda events: _lines(map(wrap, events))


def _runs(events: Sequence[str], size: int = 50) -> Iterator[Sequence[str]]:
    return (events[start : start + size] for start in range(0, len(events), size))


def _subscription(events: Sequence[str]) -> dict[str, Any]:
    return {
        "messageType": "DATA_MESSAGE",
        "owner": "111122223333",
        "logGroup": "/aws/eks/shop/cluster",
        "logStream": "kube-apiserver-audit-0f1e2d3c",
        "subscriptionFilters": ["audit"],
        "logEvents": [{"id": str(n), "timestamp": 1767225600000, "message": line} for n, line in enumerate(events)],
    }


def _log_events(events: Sequence[str]) -> dict[str, Any]:
    return {
        "events": [
            {"timestamp": 1767225600000, "message": line, "ingestionTime": 1767225600001, "eventId": str(n)}
            for n, line in enumerate(events)
        ],
        "searchedLogStreams": [],
    }


def _azure(line: str) -> dict[str, Any]:
    return {
        "time": TIME,
        "resourceId": "/SUBSCRIPTIONS/0/RESOURCEGROUPS/SHOP/PROVIDERS/MICROSOFT.CONTAINERSERVICE/MANAGEDCLUSTERS/SHOP",
        "operationName": "Microsoft.ContainerService/managedClusters/diagnosticLogs/Read",
        "category": "kube-audit",
        "properties": {"log": line + "\n", "stream": "stdout", "pod": "kube-apiserver-5d8c"},
    }


def _container(events: Sequence[str]) -> bytes:
    lines = []
    for event in events:
        parts = [event[start : start + 16384] for start in range(0, len(event), 16384)]
        lines += [f"2026-01-01T00:00:00.123456789Z stdout P {part}" for part in parts[:-1]]
        lines += [f"2026-01-01T00:00:00.123456789Z stdout F {parts[-1]}"]
    return "".join(f"{line}\n" for line in lines).encode()


def _event_lists(events: Sequence[str]) -> bytes:
    head = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}}
    return _lines({**head, "items": [json.loads(event) for event in run]} for run in _runs(events))


def _loki_query(events: Sequence[str]) -> bytes:
    values = [[f"{1767225600000000000 + n}", event] for n, event in enumerate(events)]
    result = [{"stream": {"job": "audit"}, "values": values}]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": result}}).encode()


def _hits(events: Sequence[str]) -> bytes:
    hits = [{"_index": "audit", "_id": str(n), "_source": json.loads(each)} for n, each in enumerate(events)]
    return json.dumps({"took": 1, "hits": {"total": {"value": len(hits)}, "hits": hits}}, ensure_ascii=False).encode()


def _aks_row(line: str) -> dict[str, Any]:
    event = json.loads(line)
    names = {
        "level": "Level",
        "auditID": "AuditId",
        "stage": "Stage",
        "requestURI": "RequestUri",
        "verb": "Verb",
        "user": "User",
        "sourceIPs": "SourceIps",
        "userAgent": "UserAgent",
        "objectRef": "ObjectRef",
        "responseStatus": "ResponseStatus",
        "requestObject": "RequestObject",
        "responseObject": "ResponseObject",
        "requestReceivedTimestamp": "RequestReceivedTime",
        "stageTimestamp": "StageReceivedTime",
        "annotations": "Annotations",
    }
    columns = {to: event[name] for name, to in names.items() if name in event}
    return {"TimeGenerated": TIME, **columns, "PodName": "kube-apiserver-5d8c", "Type": "AKSAudit"}


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value, separators=(",", ":"), ensure_ascii=False) if isinstance(value, (dict, list)) else value
        for name, value in row.items()
    }


WRAPPINGS = (
    Wrapping("plain", "lines", lambda events: "".join(f"{event}\n" for event in events).encode()),
    Wrapping("plain", "EventLists of a webhook backend", _event_lists),
    Wrapping(
        "openshift",
        "the fields of a forwarder beside those of the event",
        _each(
            lambda event: {
                "@timestamp": TIME,
                "log_type": "audit",
                "hostname": "m0",
                **json.loads(event),
                "message": None,
            }
        ),
    ),
    Wrapping(
        "prefixed", "CloudWatch export to S3", lambda events: "".join(f"{TIME} {each}\n" for each in events).encode()
    ),
    Wrapping(
        "prefixed", "oc adm node-logs", lambda events: "".join(f"master-0 {each}\r\n" for each in events).encode()
    ),
    Wrapping("cri", "lines of a container runtime", _container),
    Wrapping("eks", "subscription, one a line", lambda events: _lines(map(_subscription, _runs(events)))),
    Wrapping(
        "cloudwatch-subscription",
        "subscription without line ends",
        lambda events: b"".join(json.dumps(_subscription(run)).encode() for run in _runs(events)),
    ),
    Wrapping(
        "cloudwatch-events",
        "aws logs filter-log-events",
        lambda events: json.dumps(_log_events(events), indent=4).encode(),
    ),
    Wrapping(
        "cloudwatch-events",
        "aws logs get-log-events, in a line",
        lambda events: json.dumps(_log_events(events)).encode(),
    ),
    Wrapping("azure-record", "AKS in storage", _each(_azure)),
    Wrapping(
        "aks",
        "AKS in an Event Hub",
        lambda events: _lines({"records": [_azure(event) for event in run]} for run in _runs(events)),
    ),
    Wrapping(
        "azure-diagnostics",
        "AzureDiagnostics",
        _each(
            lambda event: {"TimeGenerated": TIME, "Category": "kube-audit", "log_s": event, "Type": "AzureDiagnostics"}
        ),
    ),
    Wrapping("aks-table", "AKSAudit, exported to storage", _each(_aks_row)),
    Wrapping(
        "aks-table",
        "AKSAudit, from a query",
        lambda events: json.dumps(
            [{**_texts(_aks_row(event)), "TableName": "PrimaryResult"} for event in events], indent=2
        ).encode(),
    ),
    Wrapping(
        "fluentbit",
        "Fluent Bit, as text",
        _each(
            lambda event: {
                "date": 1767225600.1,
                "stream": "stdout",
                "log": event + "\n",
                "kubernetes": {"pod_name": "p"},
            }
        ),
    ),
    Wrapping("log", "Fluentd, as an object", _each(lambda event: {"stream": "stdout", "log": json.loads(event)})),
    Wrapping(
        "log-processed",
        "Fluent Bit, merged under a key",
        _each(lambda event: {"date": 1767225600.1, "log_processed": json.loads(event)}),
    ),
    Wrapping("logstash", "Logstash", _each(lambda event: {"@timestamp": TIME, "@version": "1", "message": event})),
    Wrapping(
        "event-original",
        "Logstash with ECS",
        _each(lambda event: {"@timestamp": TIME, "event": {"original": event}, "host": {"name": "m0"}}),
    ),
    Wrapping(
        "vector",
        "Vector",
        _each(lambda event: {"file": "/var/log/audit.log", "message": event, "source_type": "file", "timestamp": TIME}),
    ),
    Wrapping(
        "elasticsearch",
        "a dump of an index",
        _each(lambda event: {"_index": "audit", "_id": "1", "_source": {"@timestamp": TIME, "message": event}}),
    ),
    Wrapping("elastic-hits", "a search", _hits),
    Wrapping(
        "elasticsearch",
        "a dump of an index in the common schema",
        _each(
            lambda event: {
                "_index": "logs-kubernetes.audit_logs-default",
                "_source": {"@timestamp": TIME, "kubernetes": {"audit": json.loads(event)}},
            }
        ),
    ),
    Wrapping(
        "splunk",
        "Splunk export",
        _each(lambda event: {"preview": False, "offset": 0, "result": {"_raw": event, "sourcetype": "kube:audit"}}),
    ),
    Wrapping("splunk-raw", "Splunk, raw", _each(lambda event: {"_time": TIME, "_raw": event})),
    Wrapping(
        "event",
        "Splunk's HTTP collector",
        _each(lambda event: {"time": 1767225600.1, "sourcetype": "kube:audit", "event": json.loads(event)}),
    ),
    Wrapping(
        "loki",
        "logcli --output=jsonl",
        _each(lambda event: {"labels": {"job": "audit"}, "line": event, "timestamp": TIME}),
    ),
    Wrapping("loki-query", "Loki's query_range", _loki_query),
    Wrapping(
        "cri",
        "Fluent Bit's record in a container's log",
        lambda events: _container([json.dumps({"log": event}) for event in events]),
    ),
    Wrapping(
        "cloudwatch-events",
        "Fluent Bit's record in CloudWatch",
        lambda events: json.dumps(_log_events([json.dumps({"log": event}) for event in events])).encode(),
    ),
)
"""Each wrapping loses nothing of an event but the names under which other things stand beside it."""
