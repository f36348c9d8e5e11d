"""The codec of Avro messages under one reader schema.

A whole message goes through `read`. A delta goes through `read_delta`, `merged` and `completed`, in this order.
Records that were stored under an earlier reader schema go through `upgraded`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any, Final, NoReturn

from sowline.codecs.avro.defaults import Defaults
from sowline.codecs.avro.delta import delta_type, fields_at, kept, paths_of
from sowline.codecs.avro.description import described
from sowline.codecs.avro.encoding import Encoder
from sowline.codecs.avro.misfit import SchemaMisfit
from sowline.codecs.avro.normal_form import Normalizer, Rules
from sowline.codecs.avro.resolution import check_resolves, resolved
from sowline.codecs.avro.steps import Convert, run
from sowline.codecs.avro.types import AvroType, AvroTypes, load_types
from sowline.codecs.avro.wire import WireReader, records_below
from sowline.codecs.codec import NO_MESSAGE_TYPE
from sowline.codecs.errors import bad_message, json_object
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.body import write_body
from sowline.model.merge import merge
from sowline.model.nesting import check_nesting

WRITERS_MAX: Final = 1000
"""The number of writer schemas whose compiled forms are kept, for each reader schema."""

_DECODERS_MAX: Final = 1000
_Json = dict[str, Any]
_Read = Callable[[bytes], _Json]


class AvroCodec:
    """Converts between Avro's binary encoding and canonical JSON. It implements `Codec`."""

    message_type = NO_MESSAGE_TYPE

    def __init__(self, reader: Schema) -> None:
        self._root = load_types(reader).root
        self._defaults = Defaults()
        # A default that its type doesn't allow is refused here, with the schema, rather than with the first message.
        with _errors():
            for record in records_below(self._root):
                for field in record.fields:
                    if field.has_default:
                        self._defaults.of(field)
        cached = lru_cache(WRITERS_MAX)
        self._reader = cached(partial(self._compiled, self._root))
        self._delta_reader = cached(partial(self._compiled, delta_type(self._root)))

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a whole record."""
        return _json_of(self._reader(writer)(payload.data))

    def read_delta(self, payload: MessagePayload, writer: Schema, fields: Sequence[str] | None) -> bytes:
        """Return the canonical JSON of the fields that a delta changes.

        With `fields`, the message is a whole record, and the delta consists of the fields at these paths. Raise
        `bad header` for a path that the reader schema doesn't have. Without `fields`, the writer schema is a delta
        schema: it may lack fields of the reader, in records at any depth. A field whose value is null is then absent
        from the delta.
        """
        if fields is None:
            return _json_of(self._delta_reader(writer)(payload.data))
        tree = fields_at(self._root, fields)
        return _json_of(kept(self._reader(writer)(payload.data), tree))

    def write(self, body: bytes) -> bytes:
        """Return the bytes of a record; fields with defaults may be missing in its JSON."""
        with _errors("bad message"):
            return self._encoder.bytes_of(run(self._with_defaults.run, json_object(body)))

    def write_delta(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return a delta as the bytes of a whole record, and the paths of the fields that it changes.

        A missing field has its default, or the zero value of its type.
        """
        document = json_object(body)
        with _errors("bad message"):
            # Zero values only fill the bytes: the paths leave them out again when the delta is read
            # (test_a_delta_comes_back_by_its_paths).
            filled = run(self._with_zeros.run, document)
            return self._encoder.bytes_of(filled), paths_of(self._root, document)

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record with the fields of a delta merged into it."""
        return merge(body, delta)

    def completed(self, body: bytes) -> bytes:
        """Return the canonical JSON of a record, with defaults; raise `incomplete record`."""
        return self._normal(self._with_defaults, body)

    def upgraded(self, body: bytes) -> bytes:
        """Convert canonical JSON of an earlier reader schema to this one.

        Fields are renamed by their aliases, unknown fields are dropped, and defaults are added. A missing field
        without a default stays missing.
        """
        return self._normal(self._of_earlier, body)

    def described(self) -> dict[str, Any]:
        """Return the JSON Schema of the canonical JSON; its definitions are the named types."""
        return described(self._root, self._defaults)

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless each record of an earlier schema can be read, and its JSON upgraded."""
        with _errors():
            check_resolves(load_types(earlier).root, self._root, self._defaults)

    def _normal(self, normalizer: Normalizer, body: bytes) -> bytes:
        document = json_object(body)
        with _errors():
            return _json_of(run(normalizer.run, document))

    @cached_property
    def _with_defaults(self) -> Normalizer:
        """Adds defaults; refuses a missing field without a default."""
        return Normalizer(self._root, self._defaults, Rules())

    @cached_property
    def _with_zeros(self) -> Normalizer:
        """Adds defaults; a missing field without a default gets the zero value of its type."""
        return Normalizer(self._root, self._defaults, Rules(missing="fill"))

    @cached_property
    def _of_earlier(self) -> Normalizer:
        """Reads JSON of an earlier schema; leaves out a missing field that has no default."""
        return Normalizer(self._root, self._defaults, Rules(missing="leave", is_earlier=True))

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self._root, self._with_defaults.branch)

    def _compiled(self, root: AvroType, writer: Schema) -> _Read:
        try:
            types, wire = _decoder(writer)
            with _errors():
                return partial(_read, wire, resolved(types.root, root, self._defaults))
        except SowlineError as error:
            # Cached like a reader: each message under the writer schema is refused, without compiling it again.
            return partial(_refuse, error.reason, error.message)


@lru_cache(_DECODERS_MAX)
def _decoder(writer: Schema) -> tuple[AvroTypes, WireReader]:
    types = load_types(writer)
    return types, WireReader(types)


def _refuse(reason: str, message: str, data: bytes) -> NoReturn:
    raise SowlineError(reason, message)


def _read(wire: WireReader, convert: Convert, data: bytes) -> _Json:
    try:
        document: _Json = run(convert, wire.read(data))
    except SchemaMisfit as misfit:
        raise misfit.error() from None
    return document


def _json_of(document: _Json) -> bytes:
    body = write_body(document)
    try:
        # Defaults may add levels below the deepest ones of the record (test_defaults_may_nest_too_deep).
        check_nesting(body)
    except SowlineError as error:
        raise bad_message(error.message) from None
    return body


@contextmanager
def _errors(reason: str = "") -> Iterator[None]:
    """Raise a SchemaMisfit as a SowlineError, with its own reason if none is given."""
    try:
        yield
    except SchemaMisfit as misfit:
        raise misfit.error(reason) from None
