"""The findings of the checker, each worded once (cel-go `checker/errors.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.cel.ast.issues import NO_OFFSET, Issues
from replay.cel.ast.tree import Expr
from replay.cel.release import NEWEST_RELEASE, Release, with_type_names
from replay.cel.value.types import Type


class Diagnostics:
    """Reports findings at the position of a node."""

    __slots__ = ("_issues", "_positions", "_release")

    def __init__(self, issues: Issues, positions: Mapping[int, int], release: Release = NEWEST_RELEASE) -> None:
        """Report to `issues`, with the positions of a tree and the wording of a release."""
        self._issues = issues
        self._positions = positions
        self._release = release

    def report(self, node: Expr, message: str) -> None:
        """Report any other finding at a node."""
        offset = self._positions.get(node.id, NO_OFFSET)
        self._issues.report(node.id, offset, with_type_names(message, self._release))

    def undeclared_reference(self, node: Expr, container: str, name: str) -> None:
        """Report a name that nothing declares."""
        self.report(node, f"undeclared reference to '{name}' (in container '{container}')")

    def undefined_field(self, node: Expr, field: str) -> None:
        """Report a field that its struct type does not have."""
        self.report(node, f"undefined field '{field}'")

    def unexpected_failed_resolution(self, node: Expr, name: str) -> None:
        """Report a type whose fields are declared nowhere."""
        self.report(node, f"unexpected failed resolution of '{name}'")

    def type_does_not_support_field_selection(self, node: Expr, type_: Type) -> None:
        """Report the selection of a field of a type that has none."""
        self.report(node, f"type '{type_.display}' does not support field selection")

    def type_mismatch(self, node: Expr, expected: Type, actual: Type) -> None:
        """Report a type other than the expected one."""
        self.report(node, f"expected type '{expected.display}' but found '{actual.display}'")

    def field_type_mismatch(self, node: Expr, field: str, expected: Type, actual: Type) -> None:
        """Report a field that is set to a value of another type."""
        self.report(
            node, f"expected type of field '{field}' is '{expected.display}' but provided type is '{actual.display}'"
        )

    def no_matching_overload(self, node: Expr, function: str, args: Sequence[Type], *, member: bool) -> None:
        """Report a function that is not defined for these arguments, of which the first is the receiver of a member function."""
        receiver = f"{args[0].display}." if member else ""
        shown = ", ".join([arg.display for arg in args[member:]])
        self.report(node, f"found no matching overload for '{function}' applied to '{receiver}({shown})'")

    def not_a_comprehension_range(self, node: Expr, type_: Type) -> None:
        """Report a comprehension over a type without elements."""
        self.report(
            node,
            f"expression of type '{type_.display}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )

    def incompatible_type(self, node: Expr, earlier_type: Type, after: Type) -> None:
        """Report a node in two places whose second type differs, as the server prints it."""
        self.report(
            node,
            f"incompatible type already exists for expression: ({node.id}) old:{earlier_type.display}, new:{after.display}",
        )

    def not_a_type(self, node: Expr, name: str) -> None:
        """Report a message whose name is not a type."""
        self.report(node, f"'{name}' is not a type")

    def not_a_message_type(self, node: Expr, type_: Type) -> None:
        """Report a message whose type has no fields."""
        self.report(node, f"'{type_.name}' is not a message type")
