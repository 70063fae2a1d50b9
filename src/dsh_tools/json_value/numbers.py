"""Scalars as text: JavaScript's way, for contract wording and canonical forms (SCHEMA-D7)."""

from __future__ import annotations

import re
from decimal import Decimal
from json.encoder import encode_basestring

__all__ = ["integer_text", "js_number", "js_string", "literal_text"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_SAFE = 2**53


def js_number(value: int | float) -> str:
    """Write a number as JavaScript's ``String(Number(value))`` does (SCHEMA-D7).

    An integer beyond 2**53 is written as the nearest double, beyond the double range as ``Infinity``.
    """
    if type(value) is not float:
        if -_SAFE <= value <= _SAFE:
            return str(int(value))
        try:
            value = float(value)
        except OverflowError:
            return "Infinity" if value > 0 else "-Infinity"
    if value - value != 0.0:
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if value == 0.0:
        return "0"
    return _lay_out(repr(value))


def _lay_out(shortest: str) -> str:
    """Lay the shortest round-trip digits of a finite float out by ECMAScript's Number::toString."""
    sign = ""
    if shortest[0] == "-":
        sign, shortest = "-", shortest[1:]
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).rstrip("0")
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits, count = stripped, len(stripped)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = point - 1
    head = digits if count == 1 else digits[0] + "." + digits[1:]
    return f"{sign}{head}e{'+' if power > 0 else '-'}{abs(power)}"


def integer_text(value: int) -> str:
    """Write an integer exactly, however long it is."""
    try:
        return str(value)
    except ValueError:
        # The interpreter refuses long int-to-str conversions (4,300 digits); Decimal has no such limit.
        return str(Decimal(value))


def js_string(text: str) -> str:
    """Write a string as compact JSON: non-ASCII raw, lone surrogates as lower-case escapes (SCHEMA-D7)."""
    quoted = encode_basestring(text)
    return quoted if quoted.isascii() else _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", quoted)


def literal_text(value: str | int | float | bool | None) -> str:
    """Write a scalar as it stands in a message: JavaScript's form, but integers exactly (SCHEMA-D7, D24)."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return js_string(value)
    return js_number(value) if isinstance(value, float) else integer_text(value)
