"""Writers of the fields of records, made once for each record type and version: the forms are those of ``codec``."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from highwater.traces.kafka.codec import FORMATS
from highwater.traces.kafka.schemas import ArrayOf, Field

StructWriter = Callable[[bytearray, Any, bool], None]
Writer = Callable[[bytearray, Any, bool], None]
RANGES = {
    "int8": (-(1 << 7), 1 << 7),
    "int16": (-(1 << 15), 1 << 15),
    "uint16": (0, 1 << 16),
    "int32": (-(1 << 31), 1 << 31),
    "int64": (-(1 << 63), 1 << 63),
}
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_FROM_URL_SAFE = str.maketrans("-_", "+/")


class FieldError(ValueError):
    """JSON that is no value of its field. ``path`` is the field's, from the outermost: ``endPoints[0].port``."""

    def __init__(self, path: str, message: str) -> None:
        self.path, self.message = path, message
        super().__init__(f"{path}: {message}" if path else message)

    def within(self, outer: str) -> FieldError:
        """The same, seen from the structure around it."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return FieldError(f"{outer}{dot}{self.path}", self.message)


def put_varint(out: bytearray, value: int) -> None:
    """An unsigned number in groups of seven bits."""
    while value > 127:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)


def uuid_bytes(text: Any) -> bytes:
    """The 16 bytes of an id that Kafka wrote as text."""
    if isinstance(text, str) and len(text) == 22 and text.isascii():
        try:
            raw = b64decode(text.translate(_FROM_URL_SAFE) + "==", validate=True)
        except ValueError:
            raw = b""
        if len(raw) == 16:
            return raw
    raise FieldError("", "not an id of 22 characters of base64")


def _put_length(out: bytearray, items: Any, nullable: bool) -> bool:
    if items is None:
        if not nullable:
            raise FieldError("", "is null")
        out.append(0)
        return False
    if not isinstance(items, list):
        raise FieldError("", "not a list")
    put_varint(out, len(items) + 1)
    return True


def _array_writer(field: Field, version: int) -> Writer:
    assert isinstance(field.type, ArrayOf)
    element = writer(Field("element", field.type.of), version)

    def write(out: bytearray, value: Any, lenient: bool) -> None:
        if _put_length(out, value, field.nullable):
            for i, item in enumerate(value):
                try:
                    element(out, item, lenient)
                except FieldError as wrong:
                    raise wrong.within(f"[{i}]") from None

    return write


def _fixed_writer(kind: str) -> Writer:
    form = struct.Struct(">" + FORMATS[kind])

    def write(out: bytearray, value: Any, lenient: bool) -> None:
        if kind == "uuid":
            out += uuid_bytes(value)
            return
        if kind == "bool":
            if not isinstance(value, bool):
                raise FieldError("", "not true or false")
        elif kind == "float64":
            if isinstance(value, str) and value in NOT_FINITE:
                value = float(value)
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise FieldError("", "not a number")
        else:
            low, high = RANGES[kind]
            if not isinstance(value, int) or isinstance(value, bool):
                raise FieldError("", "not a whole number")
            if not low <= value < high:
                raise FieldError("", f"not within {low} and {high - 1}")
        try:
            out += form.pack(value)
        except (struct.error, OverflowError):
            raise FieldError("", "out of range") from None

    return write


def _text_writer(field: Field) -> Writer:
    binary = field.type == "bytes"

    def write(out: bytearray, value: Any, lenient: bool) -> None:
        if value is None and field.nullable:
            out.append(0)
            return
        if not isinstance(value, str):
            raise FieldError("", "is null" if value is None else "not a string")
        try:
            raw = b64decode(value, validate=True) if binary else value.encode("utf-8")
        except ValueError:
            raise FieldError("", "not base64" if binary else "not Unicode text") from None
        put_varint(out, len(raw) + 1)
        out += raw

    return write


def writer(field: Field, version: int) -> Writer:
    """The writer of one value."""
    if isinstance(field.type, tuple):
        return struct_writer(field.type, version)
    if isinstance(field.type, ArrayOf):
        return _array_writer(field, version)
    return _fixed_writer(field.type) if field.type in FORMATS else _text_writer(field)


def struct_writer(fields: tuple[Field, ...], version: int) -> StructWriter:
    """The writer of a structure with its tagged fields. Unknown names are errors, or left out by a lenient one."""
    present = [f for f in fields if f.since <= version]
    plain = [(f.name, writer(f, version)) for f in present if f.tag is None]
    by_tag = sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0)
    tagged = [(f.tag or 0, f.name, f.default, writer(f, version)) for f in by_tag]
    names = {f.name for f in present}

    def write(out: bytearray, values: Any, lenient: bool) -> None:
        if not isinstance(values, dict):
            raise FieldError("", "not an object")
        if not lenient and not values.keys() <= names:
            unknown = min(str(name) for name in values.keys() - names)
            raise FieldError(unknown, f"no field of version {version}")
        for name, put in plain:
            if name not in values:
                raise FieldError(name, "is missing")
            _put_named(put, out, name, values[name], lenient)
        given = [entry for entry in tagged if entry[1] in values and values[entry[1]] != entry[2]]
        put_varint(out, len(given))
        for tag, name, _, put in given:
            content = bytearray()
            _put_named(put, content, name, values[name], lenient)
            put_varint(out, tag)
            put_varint(out, len(content))
            out += content

    return write


def _put_named(put: Writer, out: bytearray, name: str, value: Any, lenient: bool) -> None:
    try:
        put(out, value, lenient)
    except FieldError as wrong:
        raise wrong.within(name) from None
