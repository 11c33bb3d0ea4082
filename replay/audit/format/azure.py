"""The table AKSAudit of a Log Analytics workspace: one row per event, with its own column names.

Azure Monitor's table reference states the columns. Objects are JSON in an export, and text in a query result. A fixed
word replaces a body that was too large for a row.
"""

from __future__ import annotations

from typing import Any

from replay.audit.format.columns import REFERENCE, STATUS, Columns, structure
from replay.audit.format.wrapper import Translation

_COLUMNS: Columns = {
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
    columns=_COLUMNS,
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
