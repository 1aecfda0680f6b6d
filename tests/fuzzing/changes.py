"""Random changes of a file: bits, tokens, or the whole content."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

DEEP, LARGE = 3000, 1 << 20
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?|\b(?:true|false|null|none)\b')

VALUES = (
    b"0", b"-1", b"1", b"2147483648", b"-9223372036854775809", b"9" * 5000, b"0x" + b"f" * 5000, b"1e999", b"-0.0",
    b"1.5", b"NaN", b"nan", b"inf", b"-Infinity", b"true", b"null", b"none", b"", b"many", b'"many"', b'""', b"[]",
    b"{}", b"[[]]", b'{"s": 1}', b'"s"', b"s", b'"\\u0000"', b'"\\ud800"', b'"\\u001b[2J"', b'"../../x.py"',
    b'"counter.py"', b'"/dev/zero"', b"\xff\xfe", b"\x00", b'"' + b"x" * 5000 + b'"', b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP, b"{a=" * DEEP + b"1" + b"}" * DEEP, b"1979-05-27T07:32:00Z", b"'''",
)  # fmt: skip
"""Replacement values, for any format."""


def flipped(rng: random.Random, content: bytes) -> bytes:
    """Flip a few bits."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut(rng: random.Random, content: bytes) -> bytes:
    """Truncate the content, or remove a part."""
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:a] if rng.random() < 0.5 else content[:a] + content[b:]


def repeated(rng: random.Random, content: bytes) -> bytes:
    """Repeat a part or a line, so that keys occur twice."""
    lines = content.splitlines(keepends=True)
    if lines and rng.random() < 0.6:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
        return b"".join(lines)
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:b] + content[a:b] * rng.choice((1, 1, 50)) + content[b:]


def valued(rng: random.Random, content: bytes) -> bytes:
    """Replace some values or names."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = list(_TOKEN.finditer(content))
        if not places:
            return content + rng.choice(VALUES)
        place = rng.choice(places)
        new = rng.choice(places)[0] if rng.random() < 0.2 else rng.choice(VALUES)
        content = content[: place.start()] + new + content[place.end() :]
    return content


def overwritten(rng: random.Random, content: bytes) -> bytes:
    """Overwrite some bytes."""
    a = rng.randrange(len(content) + 1)
    new = rng.choice(
        (rng.randbytes(rng.randint(1, 40)), b"\xff" * 8, b"\x00" * 8, b"\x7f\xff\xff\xff", b"\x80" * 12)
    )
    return content[:a] + new + content[a + len(new) :]


def another(rng: random.Random, content: bytes) -> bytes:
    """Replace the whole content."""
    if rng.random() < 0.05:
        return rng.choice(
            (b'{"meta":[' + b"{}," * 1_300_000, b"a=[" + b"{}," * 5_000_000, b"[" + b"0," * 8_000_000)
        )
    whole = (
        b"",
        b"\n",
        b"\x00" * 4096,
        b"\xff" * 300,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{" * 3000,
        b"a=" + b"[" * 3000,
    )
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(whole)
    if kind == 1:
        return rng.choice(VALUES)
    return gzip.compress(content) if kind == 2 else gzip.compress(content)[: rng.randint(2, 60)]


CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flipped, flipped, cut, repeated, valued, valued, valued, valued, overwritten, another,
)  # fmt: skip


def changed(rng: random.Random, content: bytes) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2))):
        if len(content) <= LARGE:  # never grow a large file: the fuzzer's own memory counts too
            content = rng.choice(CHANGES)(rng, content)
    return content


# --- paths that are no regular file, or whose content exceeds memory --------------------------------------


@cache
def _compressed(piece: bytes, times: int) -> bytes:
    packed = io.BytesIO()
    with gzip.open(packed, "wb", compresslevel=1) as out:
        for _ in range(times):
            out.write(piece)
    return packed.getvalue()


def _bomb(path: Path, head: bytes, sign: bytes) -> None:
    path.write_bytes(gzip.compress(head) + _compressed(sign * (1 << 20), 512))


def _linked(path: Path, target: str) -> None:
    path.symlink_to(target)


ODDITIES: dict[str, Callable[[Path], None]] = {
    "a directory": Path.mkdir,
    "a pipe": os.mkfifo,
    "no end": lambda path: _linked(path, "/dev/zero"),
    "a link to itself": lambda path: _linked(path, path.name),
    "a link to nothing": lambda path: _linked(path, "nothing"),
    "a long line, compressed": lambda path: _bomb(path, b"", b" "),
    "zeros, compressed": lambda path: _bomb(path, b"", b"\x00"),
    "a long list, compressed": lambda path: _bomb(path, b'{"meta":', b"["),
    "larger than is read": lambda path: os.truncate(_touched(path), 1 << 34),
    "nothing": Path.touch,
}
"""Kinds of paths that are no small regular file."""


def _touched(path: Path) -> Path:
    path.touch()
    return path
