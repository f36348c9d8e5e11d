"""The blocks of a snapshot as bytes: NumPy arrays in the format of `.npy` files, one after the other. Pure."""

import math
from collections.abc import Iterator, Sequence
from io import BytesIO
from struct import Struct
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from sowline.model.position import Position
from sowline_query_service.index.rows import Block, Captured

BLOCK_RECORDS_MAX: Final = 16_384

Index = Sequence[tuple[Position, int]]
"""Positions, and the offsets in the changes topic at which they were first reached."""


def blocks_of(captured: Captured) -> Iterator[Block]:
    """Yield captured records, `BLOCK_RECORDS_MAX` at a time."""
    assert captured.digests is not None, "rows have digests"
    for start in range(0, len(captured), BLOCK_RECORDS_MAX):
        chosen = range(len(captured))[start : start + BLOCK_RECORDS_MAX]
        part = slice(chosen.start, chosen.stop)
        found = (captured.rare_of(at).correlation for at in chosen) if captured.rare else ()
        yield Block(
            captured.keys[part],
            captured.bodies[part],
            captured.eras[part],
            captured.offsets[part],
            captured.nths[part],
            captured.times[part],
            captured.digests[part],
            {number: correlation for number, correlation in enumerate(found) if correlation is not None},
        )


def encoded(block: Block) -> bytes:
    """Return a block as bytes."""
    assert len(block.keys) == len(block.bodies) == len(block.digests), (
        "a record has a key, a body and a digest"
    )
    correlations = orjson.dumps(list(block.correlations.items()))
    texts = (*_joined(block.keys), *_joined(block.bodies), np.frombuffer(correlations, np.uint8))
    return _written(*texts, block.eras, block.offsets, block.nths, block.times, block.digests)


def decoded(data: bytes) -> Block:
    """Return the block that `encoded` has made these bytes of. Check their checksum first."""
    key_sizes, keys, body_sizes, bodies, correlations, eras, offsets, nths, times, digests = _read(data)
    assert len(key_sizes) == len(body_sizes) == len(digests), "a record has a key, a body and a digest"
    return Block(
        _split(keys, key_sizes),
        _split(bodies, body_sizes),
        eras,
        offsets,
        nths,
        times,
        digests,
        dict(orjson.loads(correlations.tobytes())),
    )


def encoded_index(index: Index) -> bytes:
    """Return the index of a partition as bytes."""
    assert list(index) == sorted(index), "an index is in the order of the positions"
    return _written(np.array([(*position, offset) for position, offset in index], np.int64).reshape(-1, 4))


def decoded_index(data: bytes) -> list[tuple[Position, int]]:
    """Return the index that `encoded_index` has made these bytes of."""
    (entries,) = _read(data)
    index = [(Position(era, at, nth), offset) for era, at, nth, offset in entries.tolist()]
    assert index == sorted(index), "an index is in the order of the positions"
    return index


def _joined(texts: list[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    sizes = np.fromiter(map(len, texts), np.uint32, len(texts))
    return sizes, np.frombuffer(b"".join(texts), np.uint8)


def _split(joined: NDArray[np.uint8], sizes: NDArray[np.uint32]) -> list[bytes]:
    # A struct of all texts: no line of Python runs for a single one. Slices took four times as long.
    return list(Struct("%ds" * len(sizes) % tuple(sizes.tolist())).unpack(joined.data))


def _written(*arrays: NDArray[Any]) -> bytes:
    file = BytesIO()
    for array in arrays:
        np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _read(data: bytes) -> list[NDArray[Any]]:
    """Return the arrays as views of the bytes."""
    file = BytesIO(data)
    arrays: list[NDArray[Any]] = []
    while file.tell() < len(data):
        np.lib.format.read_magic(file)
        shape, _, kind = np.lib.format.read_array_header_1_0(file)
        at = file.tell()
        count = math.prod(shape)
        arrays.append(np.frombuffer(data, kind, count, at).reshape(shape))
        file.seek(at + count * kind.itemsize)
    return arrays
