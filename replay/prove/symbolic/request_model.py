"""Symbolic request: its parts, and facts about every request that reaches admission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from replay.cellib.declared_type import NAMESPACE_TYPE, REQUEST_TYPE
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupResource
from replay.kube.schema import Schema
from replay.prove.request import Target
from replay.prove.search.target import ParamSlot
from replay.prove.symbolic.node import LABEL_NAME, JsonNode, Root
from replay.prove.symbolic.term import (
    BOOL,
    INT,
    TRUE,
    Term,
    boolean,
    conj,
    disj,
    equal,
    implies,
    integer,
    negated,
    variable,
)
from replay.prove.symbolic.unknown import schema_of
from replay.prove.symbolic.value import NULL, JsonMap, Opaque, SymbolicValue, known, value_of

NAMESPACES = GroupResource("", "namespaces")
_ALWAYS = ("kind", "resource", "requestKind", "requestResource", "operation", "userInfo", "dryRun", "options")
_LEFT_OUT = ("name", "namespace", "subResource", "requestSubResource")
_USER_LEFT_OUT = ("username", "uid", "groups", "extra")


_OTHER_NAMES = frozenset({"rbac.authorization.k8s.io", "apiregistration.k8s.io"})
"""Groups with kinds whose names are path segments instead of DNS names."""


def _has_dns_name(target: Target) -> bool:
    """Return whether validation accepts only DNS names (`NameIsDNSSubdomain`), as for custom resources."""
    is_address = target.kind.kind == "IPAddress"
    return target.operation is not Operation.CONNECT and target.kind.group not in _OTHER_NAMES and not is_address


ParamKey = tuple[ParamSlot, object]
"""Parameter of bindings: its slot, and the reference to it."""


class ModelTarget(Struct, frozen=True):
    """Target in formulas. If it is open, its group, version, resource and kind are unknown."""

    target: Target
    is_open: bool


class RequestModel:
    """Bindings of expressions over one root, and the facts about them."""

    def __init__(  # noqa: PLR0913 - what a request is known by
        self,
        root: Root,
        targets: Sequence[ModelTarget],
        schema: Schema | None,
        metadata: Schema | None,
        *,
        is_struct: bool | None,
        is_served: bool,
    ) -> None:
        """`schema` is that of the objects if all targets share one, `metadata` that of any metadata.

        `is_struct` is None if it is unknown whether the objects are Go structs.
        """
        self.root = root
        self.targets = targets
        struct = variable("objects are structs", BOOL) if is_struct is None else boolean(is_struct)
        self.choice = variable("target", INT)
        root.has_dns_names = all(_has_dns_name(each.target) for each in targets)
        if schema is None:
            # Of custom resources, too, the server reads the metadata into its own type (apiextensions `schemaobjectmeta`).
            for name in ("object", "oldObject"):
                root.node(f"{name}.metadata", (name, "metadata"), metadata, is_struct=struct)
        self.object = root.node("object", ("object",), schema, is_struct=struct, is_served=is_served)
        self.old_object = root.node("oldObject", ("oldObject",), schema, is_struct=struct, is_served=is_served)
        self.request = root.node("request", ("request",), schema_of(REQUEST_TYPE), is_struct=boolean(False))
        self.namespace = root.node(
            "namespaceObject", ("namespaceObject",), schema_of(NAMESPACE_TYPE), is_struct=boolean(False)
        )
        self.params: dict[ParamKey, tuple[Term, JsonNode]] = {}
        """Parameters that bindings look up: whether each exists, and its value."""
        self.has_object = variable("has object", BOOL)
        self.has_old_object = variable("has oldObject", BOOL)
        self.has_namespace = variable("has namespaceObject", BOOL)
        self.has_namespace_early = variable("has namespaceObject in match conditions", BOOL)
        root.facts += self._facts()

    def param(self, key: ParamKey) -> tuple[Term, JsonNode]:
        """Return whether the parameter of some bindings exists, and its value.

        If a selector finds several objects, each decides by itself, so what holds for one holds for all. Differently
        referenced parameters may be equal or not. The formulas allow both.
        """
        if key not in self.params:
            name = f"params {len(self.params)}"
            node = self.root.node(name, (name,), None, is_struct=variable(f"{name} is a struct", BOOL))
            self.root.facts.append(node.is_kind("map"))
            self.params[key] = variable(f"has {name}", BOOL), node
        return self.params[key]

    def bindings(self, *, matching: bool, param: ParamKey | None) -> Mapping[str, SymbolicValue]:
        """Return the bindings of expressions. `matching` means match conditions. Without a parameter, `params` is null."""
        namespace = conj(self.has_namespace, self.has_namespace_early) if matching else self.has_namespace
        return {
            "object": self._or_null(self.has_object, self.object),
            "oldObject": self._or_null(self.has_old_object, self.old_object),
            "request": known(JsonMap(self.request)),
            "namespaceObject": self._or_null(namespace, self.namespace),
            "params": known(NULL) if param is None else self._or_null(*self.param(param)),
            "authorizer": known(Opaque("binding", ("authorizer",))),
        }

    def _or_null(self, there: Term, node: JsonNode) -> SymbolicValue:
        return value_of([(there, JsonMap(node)), (negated(there), NULL)])

    def text(self, *path: str) -> Term:
        """Return the text number at a path of the request, if it is present."""
        node = self.request
        for key in path:
            node = node.part(key)[1]
        return node.text

    def is_text(self, text: str, *path: str) -> Term:
        """Return the formula that a text of the request is present and equals `text`."""
        node, there = self.request, TRUE
        for key in path:
            present, node = node.part(key)
            there = conj(there, present)
        return conj(there, node.is_kind("string"), self.root.texts.same(node.text, self.root.texts.literal(text)))

    def is_target(self, index: int) -> Term:
        """Return the formula that the request is for a target."""
        return equal(self.choice, integer(index))

    def label(self, node: JsonNode, key: str) -> tuple[Term, Term]:
        """Return whether an object has a label, and the label's text."""
        has_metadata, metadata = node.part("metadata")
        has_labels, labels = metadata.part("labels")
        present, value = labels.part(key)
        there = conj(has_metadata, metadata.is_kind("map"), has_labels, labels.is_kind("map"), present)
        return conj(there, value.is_kind("string")), value.text

    def _facts(self) -> list[Term]:
        facts = [node.is_kind("map") for node in (self.object, self.old_object, self.request, self.namespace)]
        facts += [self.request.part(key)[0] for key in _ALWAYS]
        user = self.request.part("userInfo")[1]
        for node, keys in ((self.request, _LEFT_OUT), (user, _USER_LEFT_OUT)):
            for key in keys:
                present, child = node.part(key)
                # Go omits an empty field, so a present one is not empty.
                facts.append(implies(present, child.is_not_empty()))
        facts += [user.is_kind("map"), user.part("username")[0], self._has_metadata()]
        for name in ("kind", "requestKind"):
            node = self.request.part(name)[1]
            facts += [node.is_kind("map"), *(node.part(key)[0] for key in ("group", "version", "kind"))]
        for name in ("resource", "requestResource"):
            node = self.request.part(name)[1]
            facts += [node.is_kind("map"), *(node.part(key)[0] for key in ("group", "version", "resource"))]
        facts.append(self._namespace_is_named())
        facts.append(disj(*(self.is_target(index) for index in range(len(self.targets)))))
        for index, each in enumerate(self.targets):
            facts.append(implies(self.is_target(index), conj(*self._target_facts(each))))
        return facts

    def _has_metadata(self) -> Term:
        """Return that objects have metadata, except the options of a CONNECT, and that namespace names are labels."""
        is_connect = self.is_text(str(Operation.CONNECT), "operation")
        terms = []
        for there, node in ((self.has_object, self.object), (self.has_old_object, self.old_object)):
            present, metadata = node.part("metadata")
            terms.append(implies(conj(there, negated(is_connect)), conj(present, metadata.is_kind("map"))))
        namespace = self.request.part("namespace")[1]
        return conj(*terms, self.root.texts.holds(LABEL_NAME, namespace.text))

    def _namespace_is_named(self) -> Term:
        """Return that a namespace has the label that the server sets."""
        there, text = self.label(self.namespace, "kubernetes.io/metadata.name")
        present, name = self.request.part("namespace")
        same = self.root.texts.same(text, name.text)
        metadata_there, metadata = self.namespace.part("metadata")
        return implies(self.has_namespace, conj(metadata_there, metadata.is_kind("map"), there, implies(present, same)))

    def _target_facts(self, model: ModelTarget) -> list[Term]:
        target = model.target
        operation = target.operation
        facts = [
            self.is_text(str(operation), "operation"),
            self._is_there(self.has_old_object, operation in {Operation.UPDATE, Operation.DELETE}),
        ]
        # Some CONNECT requests have options as their object, others have none.
        if operation is not Operation.CONNECT:
            facts.append(self._is_there(self.has_object, operation is not Operation.DELETE))
        if model.is_open:
            return facts
        is_namespace = target.resource.group_resource == NAMESPACES
        for prefix in ("resource", "requestResource"):
            facts += [
                self.is_text(target.resource.group, prefix, "group"),
                self.is_text(target.resource.version, prefix, "version"),
                self.is_text(target.resource.resource, prefix, "resource"),
            ]
        for prefix in ("kind", "requestKind"):
            facts += [
                self.is_text(target.kind.group, prefix, "group"),
                self.is_text(target.kind.version, prefix, "version"),
                self.is_text(target.kind.kind, prefix, "kind"),
            ]
        for name in ("subResource", "requestSubResource"):
            facts.append(
                self.is_text(target.subresource, name) if target.subresource else negated(self.request.part(name)[0])
            )
        facts.append(self._is_there(self.request.part("namespace")[0], target.namespaced or is_namespace))
        # By a rule of the dispatcher a Namespace is never its own namespaceObject; subresources carry other kinds.
        if target.kind.kind != "Namespace" or target.kind.group:
            facts.append(self._is_there(self.has_namespace, target.namespaced or is_namespace))
        else:
            facts.append(self._is_there(self.has_namespace, is_there=False))
        facts += self._kind_facts(target)
        if not target.subresource and operation in {Operation.UPDATE, Operation.DELETE}:
            facts += self._name_facts(operation)
        return facts

    def _name_facts(self, operation: Operation) -> list[Term]:
        """Return that an updated or deleted object keeps its name, which is the request's."""
        same = self.root.texts.same
        old = self.old_object.part("metadata")[1].part("name")
        present, name = self.request.part("name")
        facts = [old[0], old[1].is_kind("string"), present, same(name.text, old[1].text)]
        if operation is Operation.UPDATE:
            new = self.object.part("metadata")[1].part("name")
            facts += [new[0], new[1].is_kind("string"), same(new[1].text, old[1].text)]
        return facts

    def _kind_facts(self, target: Target) -> list[Term]:
        """Return the facts about `apiVersion` and `kind` of present objects."""
        facts = []
        literal = self.root.texts.literal
        for there, node in ((self.has_object, self.object), (self.has_old_object, self.old_object)):
            for key, text in (("kind", target.kind.kind), ("apiVersion", target.kind.api_version)):
                present, child = node.part(key)
                same = self.root.texts.same(child.text, literal(text))
                facts.append(implies(there, conj(present, child.is_kind("string"), same)))
        return facts

    @staticmethod
    def _is_there(there: Term, is_there: bool) -> Term:
        return there if is_there else negated(there)
