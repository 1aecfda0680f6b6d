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
from typing import Any

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
_INTS = [struct.Struct(f">{n}i") for n in range(32)]


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


def read_length(data: bytes, at: int, width: int) -> tuple[int, int]:
    """Read a list's compact length, -1 for null; returns the length and the position after it.

    Elements have at least ``width`` bytes; a length that exceeds the remaining bytes raises ValueError.
    """
    n = data[at]
    if n < 128:
        at += 1
    else:
        n, at = read_varint(data, at)
    if (n - 1) * width > len(data) - at:
        raise ValueError(f"a length of {n - 1} elements, and {len(data) - at} bytes are left")
    return n - 1, at


def _read_brokers(data: bytes, at: int) -> tuple[list[int] | None, int]:
    n = data[at]
    if 0 < n < 32:
        # The usual case: the unpacking itself checks the length against the remaining bytes.
        return list(_INTS[n - 1].unpack_from(data, at + 1)), at + 4 * n - 3
    n, at = read_length(data, at, 4)
    if n < 0:
        return None, at
    return list(struct.unpack_from(f">{n}i", data, at)), at + 4 * n


def _read_uuids(data: bytes, at: int) -> tuple[list[str] | None, int]:
    n, at = read_length(data, at, 16)
    if n < 0:
        return None, at
    return [uuid_text(data[i : i + 16]) for i in range(at, at + 16 * n, 16)], at + 16 * n


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
    if of == "int32":
        return _read_brokers
    if of == "uuid":
        return _read_uuids
    element = reader(Field("element", of), version)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        n, at = read_length(data, at, 1)
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

    unpack, width = form.unpack_from, form.size

    def read_number(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + width

    def read_shown(data: bytes, at: int) -> tuple[Any, int]:
        return show(unpack(data, at)[0]), at + width

    return read_number if kind not in _SHOWN else read_shown


def _run_reader(fields: list[Field]) -> StructReader:
    """Return a function that reads adjacent fixed-width fields in one step."""
    form = struct.Struct(">" + "".join(FORMATS[str(f.type)] for f in fields))
    unpack, size, names = form.unpack_from, form.size, tuple(f.name for f in fields)
    shown = tuple((f.name, _SHOWN[str(f.type)]) for f in fields if f.type in _SHOWN)

    if len(fields) == 1 and not shown:
        (only,) = names

        def read_one(data: bytes, at: int, values: Values) -> int:
            (values[only],) = unpack(data, at)
            return at + size

        return read_one
    if [f.type for f in fields] == ["int32", "uuid"]:
        # A partition and its topic: nearly every record of a log begins with them.
        number, ident = names

        def read_partition(data: bytes, at: int, values: Values) -> int:
            values[number], raw = unpack(data, at)
            values[ident] = uuid_text(raw)
            return at + size

        return read_partition

    def read(data: bytes, at: int, values: Values) -> int:
        values.update(zip(names, unpack(data, at), strict=True))
        for name, show in shown:
            values[name] = show(values[name])
        return at + size

    return read


def _single_reader(field: Field, version: int) -> StructReader:
    read_value, name = reader(field, version), field.name

    def read(data: bytes, at: int, values: Values) -> int:
        values[name], at = read_value(data, at)
        return at

    return read


def struct_reader(fields: tuple[Field, ...], version: int) -> StructReader:
    """Return a function that reads a structure with its tagged fields. Unknown tags are skipped."""
    present = [f for f in fields if f.since <= version]
    plain = [f for f in present if f.tag is None]
    steps: list[StructReader] = []
    run: list[Field] = []
    for field in plain:
        if isinstance(field.type, str) and field.type in FORMATS:
            run.append(field)
            continue
        if run:
            steps.append(_run_reader(run))
            run = []
        steps.append(_single_reader(field, version))
    if run:
        steps.append(_run_reader(run))
    order = [f.name for f in present]
    tagged = {
        f.tag: (order.index(f.name), f.name, f.default, reader(f, version))
        for f in present
        if f.tag is not None
    }
    last_plain = max((order.index(f.name) for f in plain), default=-1)

    def read_tags(data: bytes, at: int, values: Values, count: int) -> int:
        previous, highest, in_order = -1, last_plain, True
        for _ in range(count):
            tag, size = data[at], data[at + 1]
            if tag < 128 and size < 128:
                at += 2
            else:
                tag, at = read_varint(data, at)
                size, at = read_varint(data, at)
            end = at + size
            if tag <= previous:
                raise ValueError("tagged fields out of order")
            if tag in tagged:
                place, name, default, read_value = tagged[tag]
                value, at = read_value(data, at)
                if at != end:
                    raise ValueError(f"{name} does not fill its tagged field")
                if value != default:
                    values[name] = value
                    if place < highest:
                        in_order = False
                    else:
                        highest = place
            previous, at = tag, end
        if not in_order:
            found = dict(values)
            values.clear()
            values.update((name, found[name]) for name in order if name in found)
        return at

    def read(data: bytes, at: int, values: Values) -> int:
        for step in steps:
            at = step(data, at, values)
        count = data[at]
        if not count:
            return at + 1
        if count > 127:
            count, at = read_varint(data, at)
        else:
            at += 1
        return read_tags(data, at, values, count)

    return read


# Writers of the fields of records, built once for each record type and version.

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
    """A JSON value does not fit its field.

    ``path`` is the field's path from the outermost structure: ``endPoints[0].port``.
    """

    def __init__(self, path: str, message: str) -> None:
        self.path, self.message = path, message
        super().__init__(f"{path}: {message}" if path else message)

    def within(self, outer: str) -> FieldError:
        """The same error, with ``outer``, the name of the enclosing structure, before its path."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return FieldError(f"{outer}{dot}{self.path}", self.message)


def put_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint to ``out``."""
    while value > 127:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)


def uuid_bytes(text: Any) -> bytes:
    """The 16 bytes of an id that Kafka wrote as text. Raises FieldError if the text is no id."""
    if isinstance(text, str) and len(text) == 22 and text.isascii():
        try:
            raw = b64decode(text.translate(_FROM_URL_SAFE) + "==", validate=True)
        except ValueError:
            raw = b""
        if len(raw) == 16:
            return raw
    raise FieldError("", "not an id (22 characters of base64)")


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
    """Return a function that writes one value of a field."""
    if isinstance(field.type, tuple):
        return struct_writer(field.type, version)
    if isinstance(field.type, ArrayOf):
        return _array_writer(field, version)
    return _fixed_writer(field.type) if field.type in FORMATS else _text_writer(field)


def struct_writer(fields: tuple[Field, ...], version: int) -> StructWriter:
    """Return a function that writes a structure with its tagged fields.

    It raises FieldError if the values do not fit. Its third argument, if true, makes it skip unknown field names.
    """
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
