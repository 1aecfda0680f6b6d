"""The part of JSON Schema that the result schemas use. An unknown keyword is an error."""

from __future__ import annotations

import json
from typing import Any

from tests.checker.conftest import ROOT

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
_NOTES = {"$schema", "$defs", "title", "description"}


def result_problems(*results: Any, form: str = "result") -> list[str]:
    """Each violation of a result's schema."""
    text = (ROOT / f"checker/report/{form}.schema.json").read_text()
    return problems(list(results), json.loads(text))


def form_problems(value: Any, schema: str) -> list[str]:
    """Each violation of the schema in a file of the repository."""
    return problems(value, json.loads((ROOT / schema).read_text()))


def problems(value: Any, schema: Any, root: Any = None, path: str = "$") -> list[str]:
    """Each violation of the schema, as text with its JSON path."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return [] if schema else [f"{path}: nothing may be here"]
    found: list[str] = []
    for keyword, wanted in schema.items():
        if keyword in _NOTES or keyword in ("prefixItems", "properties"):
            continue
        if value is None and keyword in ("required", "additionalProperties"):
            continue
        if keyword == "$ref":
            file, _, name = wanted.partition("#/$defs/")
            there = json.loads((ROOT / file.removeprefix("../../")).read_text()) if file else root
            found += problems(value, there["$defs"][name], there, path)
        elif keyword == "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            if not any(_is(value, name) for name in names):
                return [f"{path}: {value!r} is not {wanted}"]
        elif keyword == "enum":
            found += [] if value in wanted else [f"{path}: {value!r} is not one of {wanted}"]
        elif keyword == "minimum":
            found += [f"{path}: {value} is below {wanted}"] if _is(value, "number") and value < wanted else []
        elif keyword == "maximum":
            found += [f"{path}: {value} is above {wanted}"] if _is(value, "number") and value > wanted else []
        elif keyword == "minItems":
            found += [f"{path}: fewer than {wanted} items"] if len(value) < wanted else []
        elif keyword == "required":
            found += [f"{path}: {name} is missing" for name in wanted if name not in value]
        elif keyword == "items":
            first = schema.get("prefixItems", [])
            for i, item in enumerate(value):
                found += problems(item, first[i] if i < len(first) else wanted, root, f"{path}[{i}]")
        elif keyword == "additionalProperties":
            stated = schema.get("properties", {})
            for name, item in value.items():
                found += problems(item, stated.get(name, wanted), root, f"{path}.{name}")
        else:
            raise ValueError(f"{keyword} is not known here")
    if value is not None and "properties" in schema and "additionalProperties" not in schema:
        for name in schema["properties"].keys() & value.keys():
            found += problems(value[name], schema["properties"][name], root, f"{path}.{name}")
    return found


def _is(value: Any, name: str) -> bool:
    kind = _TYPES[name]
    return isinstance(value, kind) and (name == "boolean" or not isinstance(value, bool))
