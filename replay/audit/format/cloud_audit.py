"""Records of clouds that are not audit events: Cloud Audit Logs of GKE, and the table AKSAudit of Azure.

`google.cloud.audit.AuditLog` and `google.logging.v2.LogEntry` define the fields. An entry has method, resource,
principal, bodies, status and annotations. It lacks groups (except those that follow from a name), and uid and extra of
the user, which are null here. It also lacks the query, level and stage. The level follows from the bodies. The status
is one of gRPC.

AKSAudit has one row per event, with its own column names, which Azure Monitor's table reference states. Objects are JSON
in an export, and text in a query result. A fixed word replaces a body that was too large for a row.
"""

from __future__ import annotations

from typing import Any

from replay.audit.format.wrapper import REFERENCE, STATUS, Columns, Translation, structure

_SERVICE = "k8s.io"
_COLUMNS: Columns = {
    "protoPayload": {
        "serviceName": "VARCHAR",
        "methodName": "VARCHAR",
        "resourceName": "VARCHAR",
        "authenticationInfo": {"principalEmail": "VARCHAR"},
        "requestMetadata": {"callerIp": "VARCHAR", "callerSuppliedUserAgent": "VARCHAR"},
        "status": {"code": "INTEGER", "message": "VARCHAR"},
        "request": "VARCHAR",
        "response": "VARCHAR",
    },
    "insertId": "VARCHAR",
    "operation": {"id": "VARCHAR"},
    "labels": "JSON",
    "timestamp": "VARCHAR",
}
_HTTP_OF_GRPC = (
    "map {3: 400, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 4: 504, 16: 401}"
)
"""HTTP status of each code, as `google.rpc.Code` states it."""
_REASON_OF_GRPC = (
    "map {5: 'NotFound', 6: 'AlreadyExists', 7: 'Forbidden', 8: 'TooManyRequests', 10: 'Conflict', 16: 'Unauthorized'}"
)
"""Reasons of codes that only one reason of the API server has (`apimachinery/pkg/apis/meta/v1.StatusReason`)."""
_TYPED = '{"@type":"'


def _untyped(body: str) -> str:
    """Return SQL for a body without the type that protobuf's JSON adds to it.

    The first case is the usual one, in which the type is the first field and the order of fields is kept.
    """
    return (
        f"try_cast(case when starts_with({body}, '{_TYPED}') "
        f"then regexp_replace({body}, '^.{_TYPED[1:]}[^\"]*\",?', '{{') "
        f"when contains({body}, '\"@type\"') then try(json_merge_patch({body}, '{{\"@type\": null}}'))::varchar "
        f"else {body} end as json)"
    )


def _is_entry(value: Any) -> bool:
    payload = value.get("protoPayload") if isinstance(value, dict) else None
    return isinstance(payload, dict) and payload.get("serviceName") == _SERVICE


CLOUD_AUDIT = Translation(
    columns=_COLUMNS,
    terms={
        "place": "string_split(protoPayload.resourceName, '/')",
        # `request.RequestInfoFactory`: a namespace's own subresources stand where the resources in it do.
        "is_inside": "place[3] = 'namespaces' and len(place) > 4 and place[5] not in ('status', 'finalize')",
        "path": "if(is_inside, place[5:], place[3:])",
        "api_group": "if(place[1] = 'core', '', place[1])",
        "method": "string_split(protoPayload.methodName, '.')[-1]",
        "principal": "protoPayload.authenticationInfo.principalEmail",
        "rpc": "coalesce(protoPayload.status.code, 0)",
        "answer": "if(rpc <> 0 or method in ('update', 'patch'), try(json_extract_string(protoPayload.response, "
        "['$.kind', '$.status', '$.message', '$.reason', '$.code', '$.metadata.creationTimestamp'])), [])",
        "is_status": "coalesce(answer[1] = 'Status', false)",
        # A PUT without a revision, or an apply, may have created what came into being when it was sent: that is not told.
        "is_new": "method in ('update', 'patch') and try_cast(answer[6] as timestamptz) >= "
        "date_trunc('second', try_cast(\"timestamp\" as timestamptz)) and if(method = 'update', "
        "try(json_extract_string(protoPayload.request, '$.metadata.resourceVersion')) is null, "
        "try(json_extract_string(protoPayload.request, '$.apiVersion')) is not null)",
    },
    fields={
        "kind": f"if(protoPayload is null, null, if(protoPayload.serviceName = '{_SERVICE}', 'Event', ''))",
        "apiVersion": "if(protoPayload is null, null, 'audit.k8s.io/v1')",
        "level": "case when protoPayload.response is not null then 'RequestResponse' "
        "when protoPayload.request is not null then 'Request' else 'Metadata' end",
        "auditID": "coalesce(operation.id, insertId)",
        "stage": "'ResponseComplete'",
        "requestURI": "concat_ws('/', if(api_group = '', '/api', '/apis/' || api_group), array_to_string(place[2:], '/'))",
        "verb": "method",
        "user": "json_object('username', principal, 'uid', null, 'extra', null, 'groups', case "
        "when starts_with(principal, 'system:serviceaccount:') then ['system:serviceaccounts', "
        "'system:serviceaccounts:' || split_part(principal, ':', 3), 'system:authenticated'] "
        "when starts_with(principal, 'system:node:') then ['system:nodes', 'system:authenticated'] "
        "when principal = 'system:anonymous' then ['system:unauthenticated'] end)",
        "sourceIPs": "list_filter([protoPayload.requestMetadata.callerIp], lambda address: address is not null)",
        "userAgent": "protoPayload.requestMetadata.callerSuppliedUserAgent",
        "objectRef": "struct_pack(resource := path[1], \"namespace\" := if(is_inside or (path[1] = 'namespaces' and method <> 'create'), place[4], ''), "
        "\"name\" := coalesce(path[2], ''), uid := '', apiGroup := api_group, apiVersion := place[2], "
        "resourceVersion := '', subresource := coalesce(path[3], ''))",
        "responseStatus": "struct_pack(status := if(is_status, answer[2], if(rpc <> 0, 'Failure', '')), "
        "message := if(is_status, answer[3], coalesce(protoPayload.status.message, '')), "
        f"reason := if(is_status, answer[4], coalesce({_REASON_OF_GRPC}[rpc], '')), "
        "code := case when is_status then try_cast(answer[5] as integer) "
        f"when rpc <> 0 then coalesce({_HTTP_OF_GRPC}[rpc], 500) "
        "when is_new then null when method = 'create' then 201 else 200 end)",
        "requestObject": _untyped("protoPayload.request"),
        "responseObject": _untyped("protoPayload.response"),
        "requestReceivedTimestamp": '"timestamp"',
        "stageTimestamp": '"timestamp"',
        "annotations": "labels",
    },
    tells=_is_entry,
)


_AKS_COLUMNS: Columns = {
    "AuditId": "VARCHAR",
    "Level": "VARCHAR",
    "Stage": "VARCHAR",
    "RequestUri": "VARCHAR",
    "Verb": "VARCHAR",
    "User": "VARCHAR",
    "SourceIps": "VARCHAR",
    "UserAgent": "VARCHAR",
    "ObjectRef": "VARCHAR",
    "ResponseStatus": "VARCHAR",
    "RequestObject": "VARCHAR",
    "ResponseObject": "VARCHAR",
    "RequestReceivedTime": "VARCHAR",
    "StageReceivedTime": "VARCHAR",
    "Annotations": "VARCHAR",
}


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and {"AuditId", "Stage", "Verb"} <= value.keys()


AKS_TABLE = Translation(
    columns=_AKS_COLUMNS,
    fields={
        "kind": "if(AuditId is null and Verb is null, null, 'Event')",
        "apiVersion": "if(AuditId is null and Verb is null, null, 'audit.k8s.io/v1')",
        "level": "Level",
        "auditID": "AuditId",
        "stage": "Stage",
        "requestURI": "RequestUri",
        "verb": "Verb",
        "user": "try_cast(User as json)",
        "sourceIPs": "try(from_json(SourceIps, '[\"VARCHAR\"]'))",
        "userAgent": "UserAgent",
        "objectRef": f"try(from_json(ObjectRef, '{structure(REFERENCE)}'))",
        "responseStatus": f"try(from_json(ResponseStatus, '{structure(STATUS)}'))",
        "requestObject": "try_cast(RequestObject as json)",
        "responseObject": "try_cast(ResponseObject as json)",
        "requestReceivedTimestamp": "RequestReceivedTime",
        "stageTimestamp": "StageReceivedTime",
        "annotations": "try_cast(Annotations as json)",
    },
    tells=_is_row,
)
"""Bodies that were left out are null, as if not recorded. No column has the impersonated user."""
