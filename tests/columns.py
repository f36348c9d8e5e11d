"""Columns whose rows are documents, as tests make them."""

from collections.abc import Sequence

from sowline.model.path import Document, reader
from sowline_query_service.index.cells import ABSENT
from sowline_query_service.index.column import Column


def put_many(column: Column, start: int, documents: Sequence[Document | None]) -> None:
    """Set rows from `start` on, one for each document; None clears a row."""
    read = reader(column.path)
    values = [ABSENT if document is None else read(document) for document in documents]
    column.put_rows(slice(start, start + len(values)), values)
