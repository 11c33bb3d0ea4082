"""Quantities in CEL (apiserver `pkg/cel/library/quantity.go`, `pkg/cel/quantity.go`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replay.cel.declare.cost import ONE
from replay.cel.declare.library import Function, Implementation, Library, overloaded
from replay.cel.value.equality import NO_SUCH_OVERLOAD
from replay.cel.value.types import BOOL, DOUBLE, INT, STRING, Type, struct_type
from replay.cel.value.values import EvalError, OpaqueValue, Value
from replay.cellib.library.cost import argument_estimate, first_traversal, nominal_cost
from replay.kube.quantity import Quantity, QuantityError, QuantityFormat, is_quantity, parse_quantity

QUANTITY_TYPE = struct_type("kubernetes.Quantity")


class QuantityValue(OpaqueValue):
    """A quantity. A computed one (`is_pointer`) equals nothing on the right side of `==`.

    A comparison with a big decimal makes the receiver big for good, as in the server.
    """

    __slots__ = ("is_pointer", "quantity")
    cel_type = QUANTITY_TYPE
    native_go_type = "*resource.Quantity"

    def __init__(self, quantity: Quantity, *, is_pointer: bool = False) -> None:
        """`quantity` is the amount."""
        self.quantity = quantity
        self.is_pointer = is_pointer

    @property
    def go_type(self) -> str:
        """Go type of the server's value."""
        return "*cel.Quantity" if self.is_pointer else "cel.Quantity"

    def __str__(self) -> str:
        """Return the canonical form."""
        return str(self.quantity)

    def equal(self, other: Value) -> bool:
        """Return whether the amounts are equal. Raises `EvalError` for a value other than a parsed quantity."""
        if not isinstance(other, QuantityValue) or other.is_pointer:
            raise EvalError(NO_SUCH_OVERLOAD)
        return self.quantity.compare(other.quantity) == 0

    def compare_to(self, other: QuantityValue) -> int:
        """Return -1, 0 or 1."""
        if self.quantity.big or other.quantity.big:
            self.quantity = self.quantity.as_big()
        return self.quantity.compare(other.quantity)


def _parse(text: str) -> QuantityValue:
    try:
        return QuantityValue(parse_quantity(text))
    except QuantityError as error:
        raise EvalError(str(error)) from None


def _as_integer(value: QuantityValue) -> int:
    integer = value.quantity.as_int64
    if integer is None:
        raise EvalError("cannot convert value to integer")
    return integer


def _computed(operation: Callable[[Quantity, Quantity], Quantity]) -> Implementation:
    def compute(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
        other = (
            right.quantity
            if isinstance(right, QuantityValue)
            # The server makes the quantity of an int in this format (`resource.NewQuantity`).
            else Quantity(right, format=QuantityFormat.DECIMAL_EXPONENT)
        )
        try:
            return QuantityValue(operation(left.quantity, other), is_pointer=True)
        except QuantityError as error:
            raise EvalError(str(error)) from None

    return compute


def _member(name: str, *rows: tuple[str, Sequence[Type], Type, Implementation]) -> Function:
    return overloaded(name, *rows, member=True, cost=nominal_cost)


def _global(name: str, id_: str, result: Type, body: Implementation) -> Function:
    return overloaded(name, (id_, (STRING,), result, body), cost=first_traversal, estimate=argument_estimate())


_Q = QUANTITY_TYPE
_ADD, _SUBTRACT = _computed(Quantity.add), _computed(Quantity.subtract)

QUANTITY = Library(
    name="kubernetes.quantity",
    functions=(
        _global("quantity", "string_to_quantity", _Q, _parse),
        _global("isQuantity", "is_quantity_string", BOOL, is_quantity),
        overloaded("sign", ("quantity_sign", (_Q,), INT, lambda value: value.quantity.sign), cost=nominal_cost),
        _member("isGreaterThan", ("quantity_is_greater_than", (_Q, _Q), BOOL, lambda a, b: a.compare_to(b) == 1)),
        _member("isLessThan", ("quantity_is_less_than", (_Q, _Q), BOOL, lambda a, b: a.compare_to(b) == -1)),
        _member("compareTo", ("quantity_compare_to", (_Q, _Q), INT, QuantityValue.compare_to)),
        _member("asApproximateFloat", ("quantity_get_float", (_Q,), DOUBLE, lambda value: value.quantity.as_float)),
        _member("asInteger", ("quantity_get_int", (_Q,), INT, _as_integer)),
        _member("isInteger", ("quantity_is_integer", (_Q,), BOOL, lambda value: value.quantity.as_int64 is not None)),
        _member("add", ("quantity_add", (_Q, _Q), _Q, _ADD), ("quantity_add_int", (_Q, INT), _Q, _ADD)),
        _member("sub", ("quantity_sub", (_Q, _Q), _Q, _SUBTRACT), ("quantity_sub_int", (_Q, INT), _Q, _SUBTRACT)),
    ),
    equality={QUANTITY_TYPE.name: ONE},
)
"""`quantity`, `isQuantity` and the members of quantities."""
