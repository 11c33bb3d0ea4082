from __future__ import annotations

import pytest

from replay.authorization.case import case_from_attributes
from replay.authorization.question import attributes_from_uri
from replay.json import JSON
from replay.kube.attributes import UserInfo

PODS = {"resourceRequest": True, "apiVersion": "v1", "resource": "pods"}


@pytest.mark.parametrize(
    ("verb", "uri", "expected"),
    [
        ("get", "/healthz", {"resourceRequest": False, "path": "/healthz"}),
        ("get", "/api/v1", {"resourceRequest": False, "path": "/api/v1"}),
        ("get", "/apis/apps/v1", {"resourceRequest": False, "path": "/apis/apps/v1"}),
        ("get", "/api/v1/", {"resourceRequest": False, "path": "/api/v1/"}),
        ("list", "/api/v1/pods", {**PODS, "path": "/api/v1/pods"}),
        ("get", "/api/v1/namespaces/a%2Fb", {**PODS, "resource": "b", "namespace": "a"}),
        ("get", "/api/v1/namespaces/a", {**PODS, "resource": "namespaces", "namespace": "a", "name": "a"}),
        (
            "update",
            "/api/v1/namespaces/a/finalize",
            {**PODS, "resource": "namespaces", "namespace": "a", "name": "a", "subresource": "finalize"},
        ),
        (
            "get",
            "/api/v1/namespaces/a/pods/p/log?follow=1",
            {**PODS, "namespace": "a", "name": "p", "subresource": "log"},
        ),
        (
            "create",
            "/api/v1/namespaces/a/pods/p/proxy/x/y",
            {**PODS, "namespace": "a", "name": "p", "subresource": "proxy"},
        ),
        (
            "list",
            "/api/v1/pods?fieldSelector=metadata.name%3Dx",
            {**PODS, "name": "x", "fieldSelector": "metadata.name=x"},
        ),
        (
            "get",
            "/api/v1/pods/%ff%E2%82(%C3%A9",
            {**PODS, "path": "/api/v1/pods/\ufffd\ufffd\ufffd(é", "name": "\ufffd\ufffd\ufffd(é"},
        ),
        ("get", "/api/v1/pods/p?fieldSelector=a%3Db", {**PODS, "name": "p"}),
        ("list", "/api/v1/pods?labelSelector=a+in+(b)", {**PODS, "labelSelector": "a in (b)"}),
        (
            "list",
            "/api/v1/pods?fieldSelector=metadata.name%3Dx&limit=y",
            {**PODS, "fieldSelector": "metadata.name=x"},
        ),
        (
            "list",
            "/api/v1/pods?fieldSelector=metadata.name%3Dx&labelSelector=(",
            {**PODS, "fieldSelector": "metadata.name=x", "labelSelector": "("},
        ),
        ("list", "/api/v1/pods?fieldSelector=metadata.name%3Da%2Fb", {**PODS, "fieldSelector": "metadata.name=a/b"}),
        ("list", "/api/v1/pods?fieldSelector=a%3Db;c&fieldSelector=%zz", PODS),
        ("watch", "/api/v1/watch/namespaces/a/pods/p?labelSelector=a", {**PODS, "namespace": "a", "name": "p"}),
        ("watch", "/api/v1/watch/pods?fieldSelector=metadata.name%3Dx", PODS),
        (
            "deletecollection",
            "/api/v1/pods?fieldSelector=metadata.name%3Dx",
            {**PODS, "fieldSelector": "metadata.name=x"},
        ),
        ("proxy", "/api/v1/proxy/namespaces/a/pods/p/x", {**PODS, "namespace": "a", "name": "p"}),
        (
            "list",
            "/apis/apps/v1/namespaces/a/deployments",
            {
                "resourceRequest": True,
                "apiGroup": "apps",
                "apiVersion": "v1",
                "resource": "deployments",
                "namespace": "a",
            },
        ),
    ],
)
def test_attributes(verb: str, uri: str, expected: JSON) -> None:
    told = case_from_attributes(attributes_from_uri(UserInfo("ann"), verb, uri))
    path = uri.partition("?")[0].replace("%2F", "/")
    assert told == {"user": "ann", "groups": [], "verb": verb, "path": path, **expected}
