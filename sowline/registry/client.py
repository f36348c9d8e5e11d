"""A client of a schema registry: schemas by id and by subject, with their references."""

import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx2
import orjson

from sowline.codecs.resolutions import Resolution
from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, CodecType, Schema
from sowline.config.proxies import direct, via
from sowline.errors import SowlineError

TIMEOUT_SECONDS: Final = 30.0
"""How long a registry may take for one answer, unless the client sets another time."""

ANSWER_BYTES_MAX: Final = 4 << 20
"""The length of one answer, and of a schema with all its references."""

REFERENCES_MAX: Final = 200
DEPTH_MAX: Final = 30

_ID_MAX: Final = 2**31 - 1
"""The largest id of the API. Registries answer larger ids like a wrong address, which is not a definite answer."""

_TYPES: Final[dict[str, CodecType]] = {"AVRO": AVRO, "PROTOBUF": PROTOBUF, "JSON": JSON_SCHEMA}
_NAMES: Final = {ours: theirs for theirs, ours in _TYPES.items()}
_NOT_FOUND: Final = (40401, 40402, 40403)  # no such subject, version, schema
_HEADERS: Final = {
    "Accept": "application/vnd.schemaregistry.v1+json, application/json",
    "Accept-Encoding": "identity",  # so that the bytes that arrive are the bytes that are counted
    "Content-Type": "application/vnd.schemaregistry.v1+json",
}


class RegistryAway(SowlineError):
    """The registry gave no definite answer: it can't be reached, fails, or refuses the user. Retry later."""

    def __init__(self, message: str) -> None:
        super().__init__("registry away", message)


class Resolved(NamedTuple):
    """A schema that a registry has, its id, and one subject and version of it.

    A schema can be under several subjects: this is the first by name. Both are empty if the registry names none. An
    old registry does not name the id of a version.
    """

    schema: Schema
    subject: str = ""
    version: int | None = None
    id: int | None = None


class _RegistryAnswer(NamedTuple):
    """The parsed answer of a registry: `status` is 200, or a refusal with its code and sentence in `document`."""

    status: int
    document: Any

    @property
    def code(self) -> int:
        return _number(self.document.get("error_code", 0)) if isinstance(self.document, dict) else 0

    @property
    def is_not_found(self) -> bool:
        """Whether the subject, version or schema definitely doesn't exist: any other 404 may mean a wrong address."""
        return self.status == 404 and self.code in _NOT_FOUND

    @property
    def sentence(self) -> str:
        message = self.document.get("message") if isinstance(self.document, dict) else None
        return f"{self.status}: {message or self.document}"[:300]


class Registry:
    """A schema registry at a URL: Confluent's, or Apicurio's under `/apis/ccompat/v7`. Threads may share it.

    Every call raises RegistryAway if there is no definite answer. A schema that the registry has, but that is not
    usable (of an unknown type, too large, or with references that are too many, too deep or missing), raises
    `bad schema`: that is definite too.
    """

    def __init__(
        self,
        url: str,
        timeout: float = TIMEOUT_SECONDS,
        auth: tuple[str, str] | None = None,
        ca_file: str | Path | None = None,
    ) -> None:
        """Connect at the first call. `timeout` is in seconds for a whole answer, `auth` a user and a password.

        A user and password may also be in the URL. Raise `bad configuration` if the CA file can't be read.
        """
        self._url = url.rstrip("/")
        self._timeout_seconds = timeout
        self._http = httpx2.Client(
            timeout=timeout, auth=auth, headers=_HEADERS, verify=_trusted(ca_file), **direct(url)
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def resolve(self, id: int) -> Resolved | None:
        """Return the schema with an id, or None if the registry has none."""
        if id > _ID_MAX:
            return None
        answer = self._get(f"/schemas/ids/{id}")
        if answer.is_not_found:
            return None
        schema = self._schema(f"schema {id}", _found(answer))
        return Resolved(schema, *self._subject_of(id), id)

    def latest(self, subject: str) -> Resolved:
        """Return the latest schema of a subject; raise `unknown schema` if there is no such subject."""
        return self._of_subject(subject, "latest")

    def version(self, subject: str, number: int) -> Resolved:
        """Return a version of a subject; raise `unknown schema` if there is no such version."""
        return self._of_subject(subject, str(number))

    def versions(self, subject: str) -> tuple[int, ...]:
        """Return the numbers of a subject's versions, in order; none if there is no such subject."""
        answer = self._get(f"/subjects/{_quoted(subject)}/versions")
        if answer.is_not_found:
            return ()
        if answer.status != 200 or not isinstance(answer.document, list):
            raise _unexpected(answer)
        return tuple(sorted(map(_number, answer.document)))

    def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the id of a schema under a subject, or None if the subject doesn't have it."""
        references = self._references(schema)
        answer = None if references is None else self._look_up(subject, _request(schema, references))
        return None if answer is None else _number(answer.get("id"))

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema under a subject and return its id; raise `not registered` if the registry refuses.

        Each schema that it refers to is registered first, under its name as the subject. A schema that
        exists already keeps its id.
        """
        references = self._references(schema, registers=True)
        if references is None:
            raise RegistryAway(f"expected the references of {subject} to exist once registered, found none")
        return self._register(subject, _request(schema, references))

    def _register(self, subject: str, request: dict[str, Any]) -> int:
        answer = self._send("POST", f"/subjects/{_quoted(subject)}/versions", request)
        if (
            # Other refusals pass, or are not of a registry but of a proxy (test_register_away).
            400 <= answer.status < 500
            and answer.status not in (408, 429)
            and isinstance(answer.document, dict)
        ):
            raise SowlineError(
                "not registered",
                f"expected to register a schema under {subject}, but the registry answered {answer.sentence}",
            )
        return _number(_found(answer, "id")["id"])

    def _references(self, schema: Schema, *, registers: bool = False) -> list[dict[str, Any]] | None:
        """Return the registry's references of a schema, whose subjects are their names; None if one doesn't exist."""
        known: list[dict[str, Any]] = []
        for name, text in schema.references:
            request = _request(Schema(schema.type, text), _named_in(text, schema.type, known))
            if registers:
                self._register(name, request)
            answer = self._look_up(name, request)
            if answer is None:
                return None
            known.append({"name": name, "subject": name, "version": _number(answer["version"])})
        return _named_in(schema.text, schema.type, known)

    def _look_up(self, subject: str, request: dict[str, Any]) -> dict[str, Any] | None:
        answer = self._send("POST", f"/subjects/{_quoted(subject)}", request)
        return None if answer.is_not_found else _found(answer, "version")

    def _of_subject(self, subject: str, version: str) -> Resolved:
        answer = self._get(f"/subjects/{_quoted(subject)}/versions/{version}")
        what = f"the latest schema of {subject}" if version == "latest" else f"version {version} of {subject}"
        if answer.is_not_found:
            raise SowlineError(
                "unknown schema", f"expected {what}, but the registry answered {answer.sentence}"
            )
        found = _found(answer)
        schema_id = _number(found["id"]) if "id" in found else None
        return Resolved(self._schema(what, found), subject, _number(found.get("version")), schema_id)

    def _subject_of(self, id: int) -> tuple[str, int | None]:
        """Return the first subject with an id; empty if the registry does not have this call."""
        answer = self._get(f"/schemas/ids/{id}/versions")
        # A registry without this call is no reason to refuse a schema (test_without_subject). A failure that passes
        # is one: the answer is kept in the schema log, where a schema without its subject would stay so
        # (test_subjects_away).
        if answer.status in (404, 405, 501):
            return "", None
        if answer.status != 200 or not isinstance(answer.document, list):
            raise _unexpected(answer)
        pairs = [
            (entry["subject"], _number(entry.get("version")))
            for entry in answer.document
            if isinstance(entry, dict) and isinstance(entry.get("subject"), str)
        ]
        return min(pairs, default=("", None))

    def _schema(self, what: str, found: dict[str, Any]) -> Schema:
        # Registries leave the type out for Avro, which was their only one at first.
        kind = found.get("schemaType") or "AVRO"
        if kind not in _TYPES:
            raise SowlineError("bad schema", f"expected AVRO, PROTOBUF or JSON for {what}, got {kind}")
        return Schema(_TYPES[kind], found["schema"], _References(self, what).of(found))

    def _referenced(self, what: str, subject: str, version: int) -> dict[str, Any]:
        # A schema may still refer to a subject that was deleted.
        answer = self._get(f"/subjects/{_quoted(subject)}/versions/{version}?deleted=true")
        if answer.is_not_found:
            raise SowlineError(
                "bad schema",
                f"expected version {version} of {subject}, to which {what} refers, but the registry answered"
                f" {answer.sentence}",
            )
        return _found(answer)

    def _get(self, path: str) -> _RegistryAnswer:
        return self._send("GET", path)

    def _send(self, method: str, path: str, request: dict[str, Any] | None = None) -> _RegistryAnswer:
        content = None if request is None else orjson.dumps(request)
        # The HTTP client's timeout is for each read. A server that sends a byte a second would hold its caller for
        # weeks (test_slow_answer).
        until = time.monotonic() + self._timeout_seconds
        try:
            with self._http.stream(method, self._url + path, content=content) as response:
                body = b"".join(_bounded(response, until))
        except httpx2.InvalidURL as error:  # whose text may contain the password
            raise RegistryAway("expected a schema registry to answer, but its URL is not valid") from error
        except (httpx2.HTTPError, OSError, ValueError) as error:
            raise RegistryAway(
                f"expected a schema registry to answer, but: {error}{via(self._url)}"
            ) from error
        try:
            return _RegistryAnswer(response.status_code, orjson.loads(body))
        except orjson.JSONDecodeError as error:
            raise _unexpected(
                _RegistryAnswer(response.status_code, body[:200].decode(errors="replace"))
            ) from error


class _References:
    """Fetches all references of a schema, each once, in the order in which they can be read."""

    def __init__(self, registry: Registry, what: str) -> None:
        self._registry = registry
        self._what = what
        self._seen: set[tuple[str, str, int]] = set()
        self._texts: dict[str, str] = {}
        self._bytes = 0

    def of(self, found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        self._add(found, 0)
        return tuple(self._texts.items())

    def _add(self, found: dict[str, Any], depth: int) -> None:
        if depth > DEPTH_MAX:
            raise self._refused(f"references at most {DEPTH_MAX} deep")
        self._bytes += len(found["schema"].encode())
        if self._bytes > ANSWER_BYTES_MAX:
            raise self._refused(f"at most {ANSWER_BYTES_MAX} bytes with all references")
        # Noted before it is fetched: a schema that refers to itself would be fetched without end (test_bad_schema).
        for key in _listed(found):
            if key not in self._seen:
                self._seen.add(key)
                self._fetch(*key, depth + 1)
            # It was begun, but its text comes after its own references: it refers to itself.
            elif key[0] not in self._texts:
                raise self._refused("no references in a circle", "one")

    def _fetch(self, name: str, subject: str, version: int, depth: int) -> None:
        if len(self._seen) > REFERENCES_MAX:
            raise self._refused(f"at most {REFERENCES_MAX} references")
        found = self._registry._referenced(self._what, subject, version)
        self._add(found, depth)
        if self._texts.setdefault(name, found["schema"]) != found["schema"]:
            raise self._refused(f"one text of {name}", "two")

    def _refused(self, expected: str, got: str = "more") -> SowlineError:
        return SowlineError("bad schema", f"expected {expected} for {self._what}, got {got}")


def resolved(registry: Registry, schema_id: int) -> Resolution:
    """Return the definite answer of a registry about a schema id; raise RegistryAway if there is none."""
    try:
        found = registry.resolve(schema_id)
    # It is a SowlineError too. Kept as a definite answer, one restart of the registry would make dead letters of all
    # messages under the schema.
    except RegistryAway:
        raise
    except SowlineError as error:
        return Resolution(None, problem=error.message)
    if found is None:
        return Resolution(None)
    return Resolution(found.schema, found.subject, found.version or 0)


def _listed(found: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    for entry in found.get("references") or ():
        match entry:
            case {"name": str(name), "subject": str(subject), "version": int(version)}:
                yield name, subject, version
            case _:
                raise RegistryAway(
                    f"expected references with name, subject and version from the registry, got {entry!r:.200}"
                )


def _bounded(response: httpx2.Response, until: float) -> Iterator[bytes]:
    length = 0
    for part in response.iter_raw():
        length += len(part)
        if length > ANSWER_BYTES_MAX:
            reason = f"expected at most {ANSWER_BYTES_MAX} bytes from the registry, got more"
            # A large schema is definite. A large page of something else is not.
            if response.status_code == 200 and "json" in response.headers.get("Content-Type", ""):
                raise SowlineError("bad schema", reason)
            raise RegistryAway(reason)
        if time.monotonic() > until:
            raise RegistryAway("expected a schema registry to answer in time, but its answer is too slow")
        yield part


def _found(answer: _RegistryAnswer, field: str = "schema") -> dict[str, Any]:
    document = answer.document
    if answer.status != 200 or not isinstance(document, dict) or field not in document:
        raise _unexpected(answer)
    if field == "schema" and not isinstance(document["schema"], str):
        raise _unexpected(answer)
    found: dict[str, Any] = document
    return found


def _unexpected(answer: _RegistryAnswer) -> RegistryAway:
    return RegistryAway(f"expected a schema registry's answer, got {answer.sentence}")


def _request(schema: Schema, references: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schema": schema.text, "schemaType": _NAMES[schema.type], "references": references}


def _named_in(text: str, type: CodecType, references: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the references that occur in a text. In a namespace, Avro names a type without it."""

    def name(full: str) -> str:
        return full.rpartition(".")[2] if type == AVRO else full

    return [reference for reference in references if name(reference["name"]) in text]


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise RegistryAway(f"expected a number from the registry, got {value!r:.200}")
    return value


def _quoted(subject: str) -> str:
    # With the slash kept, the subject `a/b` would be another address of the registry. Its 404 is no definite answer,
    # so a missing subject would look like a registry that is away.
    return quote(subject, safe="")


def _trusted(ca_file: str | Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise SowlineError(
            "bad configuration", f"expected the registry's CA certificates in {ca_file}, but: {error}"
        ) from error
