"""Authorization checks in CEL (apiserver `pkg/cel/library/authz.go`).

The values build a question, and `check` asks an `Authorizer`. An answer that it does not know becomes an unknown.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from replay.cel.declare.cost import ONE
from replay.cel.declare.library import Function, Implementation, Library, overloaded
from replay.cel.value.equality import NO_SUCH_OVERLOAD
from replay.cel.value.types import BOOL, STRING, Type, struct_type
from replay.cel.value.values import EvalError, OpaqueValue, Unknown, Value
from replay.cellib.library.cost import fixed_cost, fixed_estimate, nominal_cost, selector_cost, selector_estimate
from replay.cellib.library.strings import GO_SPACE
from replay.cellib.version import KubernetesVersion
from replay.kube.attributes import Attributes, Missing, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.names import dns1123_label, dns1123_subdomain

AUTHORIZER_TYPE = struct_type("kubernetes.authorization.Authorizer")
PATH_CHECK_TYPE = struct_type("kubernetes.authorization.PathCheck")
GROUP_CHECK_TYPE = struct_type("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK_TYPE = struct_type("kubernetes.authorization.ResourceCheck")
DECISION_TYPE = struct_type("kubernetes.authorization.Decision")

_CHECK_COST = 350_000
"""Cost that allows two checks within the limit of one expression."""


class _ReceiverOnly(OpaqueValue):
    """A value that only has members. Even comparing it with itself is an error."""

    __slots__ = ()

    def equal(self, _other: Value) -> bool:
        """Raise `EvalError`."""
        raise EvalError(NO_SUCH_OVERLOAD)


class AuthorizerValue(Struct, _ReceiverOnly, frozen=True, eq=False):
    """Value of `authorizer`: the user and the authorizer to ask."""

    user: UserInfo
    authorizer: Authorizer
    cel_type = AUTHORIZER_TYPE
    go_type = "library.authorizerVal"


class PathCheckValue(Struct, _ReceiverOnly, frozen=True, eq=False):
    """Value of `authorizer.path(...)`."""

    asker: AuthorizerValue
    path: str
    cel_type = PATH_CHECK_TYPE
    go_type = "library.pathCheckVal"


class GroupCheckValue(Struct, _ReceiverOnly, frozen=True, eq=False):
    """Value of `authorizer.group(...)`."""

    asker: AuthorizerValue
    group: str
    cel_type = GROUP_CHECK_TYPE
    go_type = "library.groupCheckVal"


class ResourceCheckValue(Struct, _ReceiverOnly, eq=False):
    """Value of `authorizer.group(...).resource(...)` and of its members.

    It never changes. It is not frozen only because every request needs one, and a frozen one takes three times as long
    to make.
    """

    asker: AuthorizerValue
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    cel_type = RESOURCE_CHECK_TYPE
    go_type = "library.resourceCheckVal"


class DecisionValue(Struct, _ReceiverOnly, frozen=True, eq=False):
    """Result of `check`."""

    decision: AuthorizationDecision
    cel_type = DECISION_TYPE
    go_type = "library.decisionVal"


def request_resource_check(asker: AuthorizerValue, attributes: Attributes) -> ResourceCheckValue:
    """Return `authorizer.requestResource`: the check for the resource of a request."""
    return ResourceCheckValue(
        asker,
        attributes.resource.group,
        attributes.resource.resource,
        attributes.subresource,
        attributes.namespace,
        attributes.name,
    )


def authorizer_bindings(authorizer: Authorizer | Missing, attributes: Attributes) -> dict[str, Value | Missing]:
    """Return the variables `authorizer` and `authorizer.requestResource` of a request."""
    if isinstance(authorizer, Missing):
        return {"authorizer": authorizer, "authorizer.requestResource": authorizer}
    asker = AuthorizerValue(attributes.user_info, authorizer)
    return {"authorizer": asker, "authorizer.requestResource": request_resource_check(asker, attributes)}


def _path(asker: AuthorizerValue, path: str) -> PathCheckValue:
    # Python strips characters that Go's `strings.TrimSpace` leaves, so the set is given.
    if not path.strip(GO_SPACE):
        raise EvalError("path must not be empty")
    return PathCheckValue(asker, path)


def _resource(check: GroupCheckValue, resource: str) -> ResourceCheckValue:
    if not resource.strip(GO_SPACE):
        raise EvalError("resource must not be empty")
    return ResourceCheckValue(check.asker, check.group, resource)


def _service_account(asker: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    # The server checks the name before the namespace (`authorizerServiceAccount`).
    if dns1123_subdomain(name):
        raise EvalError("Invalid service account name")
    if dns1123_label(namespace):
        raise EvalError("Invalid service account namespace")
    # `MakeGroupNames` adds only these two groups, so `system:authenticated` is not among them.
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return AuthorizerValue(UserInfo(f"system:serviceaccount:{namespace}:{name}", "", groups), asker.authorizer)


def _check_path(check: PathCheckValue, verb: str) -> Value:
    return _ask(check.asker, AuthorizationAttributes(check.asker.user, verb, path=check.path))


def _check_resource(check: ResourceCheckValue, verb: str) -> Value:
    attributes = AuthorizationAttributes(
        check.asker.user,
        verb,
        api_group=check.group,
        resource=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
        field_selector=check.field_selector,
        label_selector=check.label_selector,
    )
    return _ask(check.asker, attributes)


def _ask(asker: AuthorizerValue, attributes: AuthorizationAttributes) -> Value:
    decision = asker.authorizer.authorize(attributes)
    return Unknown((decision,)) if isinstance(decision, Missing) else DecisionValue(decision)


def _member(name: str, *rows: tuple[str, tuple[Type, ...], Type, Implementation]) -> Function:
    cost = {"check": fixed_cost(_CHECK_COST), "fieldSelector": selector_cost, "labelSelector": selector_cost}
    estimate = {
        "check": fixed_estimate(_CHECK_COST),
        "fieldSelector": selector_estimate,
        "labelSelector": selector_estimate,
    }
    return overloaded(name, *rows, member=True, cost=cost.get(name, nominal_cost), estimate=estimate.get(name))


def _narrowing(name: str, id_: str, field: str) -> Function:
    args = (RESOURCE_CHECK_TYPE, STRING)
    return _member(name, (id_, args, RESOURCE_CHECK_TYPE, lambda check, text: replace(check, **{field: text})))


AUTHZ = Library(
    name="kubernetes.authz",
    functions=(
        _member("path", ("authorizer_path", (AUTHORIZER_TYPE, STRING), PATH_CHECK_TYPE, _path)),
        _member("group", ("authorizer_group", (AUTHORIZER_TYPE, STRING), GROUP_CHECK_TYPE, GroupCheckValue)),
        _member(
            "serviceAccount",
            ("authorizer_serviceaccount", (AUTHORIZER_TYPE, STRING, STRING), AUTHORIZER_TYPE, _service_account),
        ),
        _member("resource", ("groupcheck_resource", (GROUP_CHECK_TYPE, STRING), RESOURCE_CHECK_TYPE, _resource)),
        _narrowing("subresource", "resourcecheck_subresource", "subresource"),
        _narrowing("namespace", "resourcecheck_namespace", "namespace"),
        _narrowing("name", "resourcecheck_name", "name"),
        _member(
            "check",
            ("pathcheck_check", (PATH_CHECK_TYPE, STRING), DECISION_TYPE, _check_path),
            ("resourcecheck_check", (RESOURCE_CHECK_TYPE, STRING), DECISION_TYPE, _check_resource),
        ),
        _member(
            "errored", ("decision_errored", (DECISION_TYPE,), BOOL, lambda value: value.decision.error is not None)
        ),
        _member("error", ("decision_error", (DECISION_TYPE,), STRING, lambda value: value.decision.error or "")),
        _member("allowed", ("decision_allowed", (DECISION_TYPE,), BOOL, lambda value: value.decision.allowed)),
        _member("reason", ("decision_reason", (DECISION_TYPE,), STRING, lambda value: value.decision.reason)),
    ),
    equality={
        type_.name: ONE
        for type_ in (AUTHORIZER_TYPE, PATH_CHECK_TYPE, GROUP_CHECK_TYPE, RESOURCE_CHECK_TYPE, DECISION_TYPE)
    },
)
"""Checks of the user of the request and of service accounts."""

AUTHZ_SELECTORS = Library(
    name="kubernetes.authzSelectors",
    functions=(
        _narrowing("fieldSelector", "authorizer_fieldselector", "field_selector"),
        _narrowing("labelSelector", "authorizer_labelselector", "label_selector"),
    ),
)
"""Selectors in checks."""

_WITHOUT_EFFECT = replace(
    AUTHZ_SELECTORS,
    functions=tuple(
        _member(name, (id_, (RESOURCE_CHECK_TYPE, STRING), RESOURCE_CHECK_TYPE, lambda check, _text: check))
        for name, id_ in (("fieldSelector", "authorizer_fieldselector"), ("labelSelector", "authorizer_labelselector"))
    ),
)


def authz_selectors(server: KubernetesVersion) -> Library:
    """Return the selectors of a server version. They exist since 1.32 (gate `AuthorizeWithSelectors`)."""
    return AUTHZ_SELECTORS if server.minor >= 32 else _WITHOUT_EFFECT
