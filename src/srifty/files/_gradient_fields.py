"""The gradients and unused parameters of a PROFILE.json."""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any, Self, cast

from pydantic import BeforeValidator, Field, model_validator

from srifty.core.profile import Gradient
from srifty.files._reading import FileModel, shown

_BATCH = re.compile(r"[1-9]\d{0,8}", re.ASCII)

# Element types of torch that a parameter can have, by their bytes.
_ELEMENT_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "complex128": 16,
    "complex64": 8,
    "complex32": 4,
}
# `ready` is that of one of the sizes of `ready_at`, or near them where the file was rounded.
_ROUNDED = 0.05


def _by_batch(value: Any) -> Any:
    """Returns a mapping with batch sizes for keys, which JSON can only write as text."""
    if not isinstance(value, dict):
        return value
    by_batch: dict[int, Any] = {}
    for key, held in cast("dict[Any, Any]", value).items():
        if not (isinstance(key, str) and _BATCH.fullmatch(key)):
            raise ValueError(f"must map batch sizes to fractions, but has the key {shown(key)}")
        by_batch[int(key)] = held
    return by_batch


class ParameterFile(FileModel):
    """What an unused parameter has, and each gradient too."""

    name: str
    bytes: int
    dtype: str | None = None
    index: int | None = None
    sparse: bool = False

    @model_validator(mode="after")
    def _check_elements(self) -> Self:
        if self.dtype is None:
            return self
        size = _ELEMENT_BYTES.get(self.dtype)
        if size is None:
            plain = self.dtype.removeprefix("torch.").lower()
            near = difflib.get_close_matches(plain, _ELEMENT_BYTES, n=1)
            remedy = (
                f"write {near[0]}" if near else f"known are {', '.join(sorted(_ELEMENT_BYTES))}"
            )
            raise ValueError(
                f"gradient {self.name!r}: dtype {shown(self.dtype)} is no element type; {remedy}"
            )
        # What a sparse gradient sends holds indices too, of another type.
        if not self.sparse and self.bytes % size:
            raise ValueError(
                f"gradient {self.name!r}: bytes must be a multiple of {size}, the size of "
                f"{self.dtype}, not {self.bytes}"
            )
        return self


class GradientFile(ParameterFile):
    """One gradient."""

    makes = Gradient

    ready: float
    ready_at: Annotated[dict[int, float], BeforeValidator(_by_batch)] = Field(
        default_factory=dict[int, float]
    )

    @model_validator(mode="after")
    def _check_ready(self) -> Self:
        known = self.ready_at.values()
        if known and not min(known) - _ROUNDED <= self.ready <= max(known) + _ROUNDED:
            raise ValueError(
                f"gradient {self.name!r}: ready ({self.ready:g}) contradicts ready_at, which lies "
                f"between {min(known):g} and {max(known):g}; write that of one of its batch sizes"
            )
        return self
