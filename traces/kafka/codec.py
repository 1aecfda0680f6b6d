"""Readers and writers of the fields of records, built once for each record type and version.

The wire format is that of Kafka's flexible versions: compact lengths, tagged fields at the end of each structure. The
JSON format is that of Kafka's own converters: camel case, ids as URL-safe base64 without padding, and bytes as base64.
Tagged fields with their default value are omitted, and a NaN or an infinity is a string.

A length is compared with the number of remaining bytes before anything of that length is allocated.
"""

from __future__ import annotations

import binascii
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Literal

from msgspec import Meta, ValidationError, convert, defstruct

from highwater.traces.kafka.schemas import ArrayOf, Field, Type

Values = dict[str, Any]
StructReader = Callable[[bytes, int, Values], int]
"""Reads a structure's fields at a position into a dictionary, and returns the position after the structure."""
Reader = Callable[[bytes, int], tuple[Any, int]]
"""Reads one value at a position, and returns the value and the position after it."""

DAMAGE = (struct.error, IndexError, ValueError, OverflowError)
"""The errors that readers raise on damaged bytes."""

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The fixed-width types, with their format characters of the struct module."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


@lru_cache(maxsize=1 << 14)
def uuid_text(raw: bytes) -> str:
    """The text of a 16-byte id: URL-safe base64 without padding."""
    return binascii.b2a_base64(raw, newline=False)[:22].translate(_URL_SAFE).decode("ascii")


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _same(value: Any) -> Any:
    return value


_SHOWN: dict[str, Callable[[Any], Any]] = {"uuid": uuid_text, "float64": _float}


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes; returns the value and the position after it."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("Buffer is exhausted")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 28:
            raise ValueError("Varint is too long, the most significant bit in the 5th byte is set")


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Read a list's compact length, -1 for null; returns the length and the position after it.

    An element has at least a byte; a length that exceeds the remaining bytes raises ValueError.
    """
    n, at = read_varint(data, at)
    if n - 1 > len(data) - at:
        raise ValueError(f"a length of {n - 1} elements, and {len(data) - at} bytes are left")
    return n - 1, at


def _read_text(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Read the raw bytes of a string or bytes field, None for null; returns them and the position after them."""
    n, at = read_varint(data, at)
    if n - 1 > len(data) - at:
        raise ValueError("Buffer is exhausted")
    return (data[at : at + n - 1], at + n - 1) if n else (None, at)


def _present(raw: bytes | None) -> bytes:
    if raw is None:
        raise ValueError("Unexpectedly read null where compact string/bytes was expected")
    return raw


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("Failed interpreting bytes as UTF-8") from None


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _read_text(data, at)
    return _text(_present(raw)), at


def _read_nullable_string(data: bytes, at: int) -> tuple[str | None, int]:
    raw, at = _read_text(data, at)
    return None if raw is None else _text(raw), at


def _read_bytes(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _read_text(data, at)
    return b64encode(_present(raw)).decode("ascii"), at


def _array_reader(of: Type, version: int) -> Reader:
    element = reader(Field("element", of), version)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        n, at = read_length(data, at)
        if n < 0:
            return None, at
        found = []
        for _ in range(n):
            value, at = element(data, at)
            found.append(value)
        return found, at

    return read


def reader(field: Field, version: int) -> Reader:
    """Return a function that reads one value of a field."""
    kind = field.type
    if isinstance(kind, tuple):
        inner = struct_reader(kind, version)

        def read_struct(data: bytes, at: int) -> tuple[Any, int]:
            values: Values = {}
            return values, inner(data, at, values)

        return read_struct
    if isinstance(kind, ArrayOf):
        array = _array_reader(kind.of, version)
        if field.nullable:
            return array

        def read_array(data: bytes, at: int) -> tuple[Any, int]:
            found = array(data, at)
            if found[0] is None:
                raise ValueError(f"{field.name} is null")
            return found

        return read_array
    if kind == "string":
        return _read_nullable_string if field.nullable else _read_string
    if kind == "bytes":
        return _read_bytes
    form, show = struct.Struct(">" + FORMATS[kind]), _SHOWN.get(kind, _same)

    def read_fixed(data: bytes, at: int) -> tuple[Any, int]:
        return show(form.unpack_from(data, at)[0]), at + form.size

    return read_fixed


def struct_reader(fields: tuple[Field, ...], version: int) -> StructReader:
    """Return a function that reads a structure with its tagged fields. Unknown tags are skipped."""
    present = [f for f in fields if f.since <= version]
    plain = [(f.name, reader(f, version)) for f in present if f.tag is None]
    tagged = {f.tag: (f.name, f.default, reader(f, version)) for f in present if f.tag is not None}

    def read(data: bytes, at: int, values: Values) -> int:
        for name, read_value in plain:
            values[name], at = read_value(data, at)
        count, at = read_varint(data, at)
        previous = -1
        for _ in range(count):
            tag, at = read_varint(data, at)
            size, at = read_varint(data, at)
            end = at + size
            if tag <= previous:
                raise ValueError("tagged fields out of order")
            if tag in tagged:
                name, default, read_value = tagged[tag]
                value, at = read_value(data, at)
                if at != end:
                    raise ValueError(f"{name} does not fill its tagged field")
                if value != default:
                    values[name] = value
            previous, at = tag, end
        if count:  # Kafka's dump tool shows the fields in the schema's order
            values.update([(f.name, values.pop(f.name)) for f in present if f.name in values])
        return at

    return read


# Writers of the fields of records, built once for each record type and version.

Writer = Callable[[bytearray, Any], None]
_FROM_URL_SAFE = str.maketrans("-_", "+/")
_FORMS: dict[str, Any] = {
    "bool": bool,
    "float64": float | Literal["NaN", "Infinity", "-Infinity"],
    "uuid": Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{22}\Z")],
    "string": Annotated[str, Meta(pattern=r"\A[^\ud800-\udfff]*\Z")],
    "bytes": bytes,
    "uint16": Annotated[int, Meta(ge=0, le=(1 << 16) - 1)],
    **{f"int{n}": Annotated[int, Meta(ge=-(1 << n - 1), le=(1 << n - 1) - 1)] for n in (8, 16, 32, 64)},
}


def put_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint to ``out``."""
    while value > 127:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)


def _uuid_bytes(text: str) -> bytes:
    return b64decode(text.translate(_FROM_URL_SAFE) + "==")


_STORED: dict[str, Callable[[Any], Any]] = {"uuid": _uuid_bytes, "float64": float}


def encoder(fields: tuple[Field, ...], version: int, lenient: bool = False) -> Writer:
    """Return a function that appends a structure with its tagged fields to bytes.

    It raises msgspec's ValidationError if the values do not fit. If ``lenient``, it skips unknown field names.
    """
    form, write = _form(fields, version, lenient), _struct_writer(fields, version)

    def encode(out: bytearray, values: Any) -> None:
        try:
            convert(values, form)
        except UnicodeEncodeError:  # a lone surrogate in a field's name
            raise ValidationError("Not Unicode text") from None
        write(out, values)

    return encode


def _form(kind: Type, version: int, lenient: bool) -> Any:
    """The type of the JSON values of a field, for msgspec."""
    if isinstance(kind, str):
        return _FORMS[kind]
    if isinstance(kind, ArrayOf):
        return list[_form(kind.of, version, lenient)]  # type: ignore[misc]
    fields: list[Any] = []
    for field in kind:
        if field.since <= version:
            of = _form(field.type, version, lenient)
            of = of | None if field.nullable else of
            fields.append((field.name, of) if field.tag is None else (field.name, of, field.default))
    return defstruct("Fields", fields, kw_only=True, forbid_unknown_fields=not lenient)


def _array_writer(of: Type, version: int) -> Writer:
    element = _writer(of, version)

    def write(out: bytearray, items: list[Any] | None) -> None:
        put_varint(out, 0 if items is None else len(items) + 1)
        for item in items or ():
            element(out, item)

    return write


def _text_writer(kind: str) -> Writer:
    def write(out: bytearray, value: str | None) -> None:
        raw = b"" if value is None else b64decode(value) if kind == "bytes" else value.encode("utf-8")
        put_varint(out, 0 if value is None else len(raw) + 1)
        out += raw

    return write


def _fixed_writer(kind: str) -> Writer:
    form, stored = struct.Struct(">" + FORMATS[kind]), _STORED.get(kind, _same)

    def write(out: bytearray, value: Any) -> None:
        out += form.pack(stored(value))

    return write


def _writer(kind: Type, version: int) -> Writer:
    if isinstance(kind, tuple):
        return _struct_writer(kind, version)
    if isinstance(kind, ArrayOf):
        return _array_writer(kind.of, version)
    return _fixed_writer(kind) if kind in FORMATS else _text_writer(kind)


def _struct_writer(fields: tuple[Field, ...], version: int) -> Writer:
    present = [f for f in fields if f.since <= version]
    plain = [(f.name, _writer(f.type, version)) for f in present if f.tag is None]
    tagged = sorted(
        (f.tag, f.name, _writer(f.type, version), f.default) for f in present if f.tag is not None
    )

    def write(out: bytearray, values: Values) -> None:
        for name, put in plain:
            put(out, values[name])
        given = [entry for entry in tagged if values.get(entry[1], entry[3]) != entry[3]]
        put_varint(out, len(given))
        for tag, name, put, _ in given:
            content = bytearray()
            put(content, values[name])
            put_varint(out, tag)
            put_varint(out, len(content))
            out += content

    return write
