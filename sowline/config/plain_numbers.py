"""Numbers in files and settings as everyone reads them: `010` and `1_000` are refused, not guessed at."""

import re
from typing import Any, get_args

from pydantic import BaseModel, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

_DOUBTFUL = re.compile(r"\s*(?:\+.*|[+-]?0[0-9_].*|.*_.*)")
"""Texts that Python reads as a number, but YAML, C or a person as another number, or as none."""


class PlainNumbers(BaseModel):
    """A model whose numbers are written in plain digits."""

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str) and _DOUBTFUL.fullmatch(value) and _is_number(cls, str(info.field_name)):
            raise PydanticCustomError("plain_number", "expected a number in plain digits, such as 10 or 2.5")
        return value


def _is_number(model: type[BaseModel], field: str) -> bool:
    annotation = model.model_fields[field].annotation
    return not {annotation, *get_args(annotation)}.isdisjoint({int, float})
