"""Resource quantities in their canonical form (k8s.io/apimachinery/pkg/api/resource.Quantity).

The API server parses every quantity and writes it again, so `1000m` is stored as `1` and `0.5` as `500m`.
"""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)([A-Za-z]*|[eE][+-]?[0-9]+)")
_CANONICAL = re.compile(r"0|[1-9][0-9]{0,2}(?:[numkMGTPE]|[KMGTPE]i)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LARGEST = 2**63 - 1

NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
"""The server's text for what is no quantity at all."""


class QuantityError(Exception):
    """A text is no quantity; `str()` is the server's text."""


def canonical_quantity(text: str) -> str:
    """The canonical spelling of a quantity; raises `QuantityError`.

    The suffix keeps its family (decimal, binary, exponent); no digit is lost but those below 10⁻⁹, which round up, as does
    what is beyond 2⁶³-1.
    """
    return text if _is_canonical(text) else _spelled(*_parse(text))


def rounded_up_to_milli(text: str) -> str:
    """The same quantity rounded up to thousandths (`SetDefaults_ResourceList` of k8s.io/kubernetes/pkg/apis/core/v1)."""
    value, family = _parse(text)
    return _spelled(_rounded_up(value, 3), family)


def _is_canonical(text: str) -> bool:
    """Whether a short quantity is plainly canonical, so that parsing is not needed."""
    return _CANONICAL.fullmatch(text) is not None


def _parse(text: str) -> tuple[Fraction, str]:
    """The value and the family of its suffix: `decimal`, `binary` or `exponent`."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(NO_QUANTITY)
    sign, number, suffix = match.groups()
    value = Fraction(number)
    if suffix in _BINARY[1:]:
        family, value = "binary", value * 1024 ** _BINARY.index(suffix)
    elif suffix in _DECIMAL:
        family, value = "decimal", value * Fraction(10) ** _DECIMAL[suffix]
    elif re.fullmatch(r"[eE][+-]?[0-9]{1,4}", suffix):
        family, value = "exponent", value * Fraction(10) ** int(suffix[1:])
    else:
        raise QuantityError("unable to parse quantity's suffix")
    value = min(_rounded_up(value, 9), Fraction(_LARGEST))
    return (-value if sign == "-" else value), family


def _rounded_up(value: Fraction, digits: int) -> Fraction:
    """Rounded away from zero to so many decimals."""
    scaled = abs(value) * 10**digits
    whole = -(-scaled.numerator // scaled.denominator)
    return Fraction(whole if value >= 0 else -whole, 10**digits)


def _spelled(value: Fraction, family: str) -> str:
    if value == 0:
        return "0"
    if family == "binary" and abs(value) >= 1024 and value.denominator == 1:
        whole, power = int(value), 0
        while whole % 1024 == 0 and power < len(_BINARY) - 1:
            whole, power = whole // 1024, power + 1
        return f"{whole}{_BINARY[power]}"
    mantissa, exponent = int(value * 10**9), -9
    while mantissa % 1000 == 0 and (exponent < 18 or family == "exponent"):
        mantissa, exponent = mantissa // 1000, exponent + 3
    if family == "exponent":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
