"""Bytes of a log → clean lines: decoding, and the noise that launchers and terminals add."""

from __future__ import annotations

import codecs
import json
import re

from srifty.allreduce.logs.json_values import as_object
from srifty.errors import InputError

_MOST_BYTES = 256 * 1024 * 1024
# What compressed files, images and programs begin with.
_BINARY = (
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
    b"%PDF",
    b"\x7fELF",
)
# Colours, cursor moves and window titles; also a colour whose escape character a paste lost.
_TERMINAL = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
    r"|\x1b\[[0-9;?]*[ -/]*[@-~]"
    r"|\x1b."
    r"|\[(?:\d{1,3};)*\d{1,3}m"
)
# Open MPI's --tag-output: at the start of a line and, as a row comes in pieces, inside it too.
_RANK_TAG = re.compile(r"\[[^\[\]\s]*\d+, ?\d+\]<std(?:out|err|diag)>:")
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad")) | {
    ord("\u2212"): "-",
    ord("\u2013"): "-",
}
_PREFIX = re.compile(
    r"""(?:
        [\s>|`*\#]+
      | \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?=\s)
      | std(?:out|err)\s+[FP](?=\s)
      | \[[\w.:/@ -]+\](?=:?\s):?
      | \(\w+\spid=\d+[^)]*\)
      | [A-Za-z][\w./-]*:(?=\s)
      | \d{1,5}:(?=\s)
    )+""",
    re.VERBOSE,
)
# Where a message of NCCL, UCX or the launcher begins in the middle of a line.
_MESSAGE = re.compile(
    r"\S*:\d+:\d+\s+\[\d+\]\s+(?:NCCL|RCCL)\b"
    r"|\[\d{9,}\.\d+\]\s+\[\S+:\d+:\d+\]"
    r"|\[\S+:\d{2,}\]\s+\D"
    r"|\b(?:NCCL|RCCL)\s+(?:INFO|WARN|version)\b"
)


def decode(data: bytes, name: str) -> str:
    """Returns the text of a log, whatever editor or terminal saved it.

    Args:
        data: the file's bytes: UTF-8 with or without a byte order mark, UTF-16, or a text with
            stray bytes in names, which are replaced.
        name: the file's name, for messages.

    Raises:
        InputError: the bytes are too many, or no text at all.
    """
    if len(data) > _MOST_BYTES:
        raise InputError("is too large for a log of nccl-tests", name)
    if data.startswith(_BINARY):
        raise InputError("is not text; unpack it first, or name the log itself", name)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif data[1:200:2].count(0) > 50:
        encoding = "utf-16-le"
    elif data[0:200:2].count(0) > 50:
        encoding = "utf-16-be"
    else:
        encoding = "utf-8-sig"
    text = data.decode(encoding, errors="replace")
    if "\0" in text[:4096]:
        raise InputError("is not text; a log of nccl-tests was expected", name)
    return text


def clean_lines(text: str) -> list[str]:
    """Returns the lines of a log without colours, rank tags and invisible characters.

    Line k of the result is line k+1 of the file: nothing is joined or left out here.
    """
    if not text.isascii():
        text = text.translate(_INVISIBLE)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    if "&" in text:
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ")
    if "\x1b" in text or "m" in text:
        text = _TERMINAL.sub("", text)
    if "<std" in text:
        text = _RANK_TAG.sub("", text)
    lines = text.replace("\r", " ").split("\n")
    if '{"log":' in text:
        lines = [_unwrapped(line) for line in lines]
    return lines


def bare(line: str) -> str:
    """Returns a line without what stands before its content: quote marks, times, `0: `, `[0]`."""
    match = _PREFIX.match(line)
    return line[match.end() :] if match else line


def before_message(line: str) -> str:
    """Returns the part of a line before a message that another process wrote into it."""
    match = _MESSAGE.search(line)
    return line[: match.start()] if match else line


def _unwrapped(line: str) -> str:
    """Returns what a line of a container engine's JSON log says."""
    if line.startswith('{"log":'):
        try:
            said = as_object(json.loads(line)).get("log")
        except (ValueError, RecursionError):  # cut off, or no such line after all
            return line
        if isinstance(said, str):
            return said.replace("\n", " ")
    return line
