"""Compiles the text of a Protobuf schema: `.proto` source, or base64 of a FileDescriptorProto."""

import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

# Only the subprocess uses it. If it is missing, this raises the error that names the extra to install.
import grpc_tools  # noqa: F401 - see above
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from sowline.codecs.codec import CompilerAway
from sowline.codecs.errors import bad_schema
from sowline.codecs.protobuf.built_in_imports import built_in_imports
from sowline.codecs.protobuf.descriptors import MAIN, ProtobufSchema
from sowline.codecs.schema import Schema
from sowline.errors import SowlineError

SCHEMAS_MAX: Final = 1000
"""The number of schemas that are kept compiled."""

PROTOC_SECONDS_MAX: Final = 60

NAME_CHARS_MAX: Final = 200
"""The length of an import name: every file system takes it."""

_BUNDLED: Final = "google/protobuf/"
_NAME = re.compile(r"[\w.+@-]+(/[\w.+@-]+)*", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")


def compile_schema(schema: Schema) -> ProtobufSchema:
    """Return the compiled schema; raise `bad schema` if it is not valid, and `CompilerAway`."""
    compiled = _compiled(schema.text, schema.references)
    if isinstance(compiled, str):
        raise bad_schema(compiled)
    return compiled


@lru_cache(SCHEMAS_MAX)
def _compiled(text: str, references: tuple[tuple[str, str], ...]) -> ProtobufSchema | str:
    """Return the compiled schema, or its error: the next message under a bad schema must not start protoc again."""
    try:
        return ProtobufSchema(_files(text, references))
    except OSError as error:
        # For example, the disk is full, or no process can be started.
        raise _away(str(error)) from error
    except CompilerAway:
        raise
    except SowlineError as error:
        return error.message
    except (TypeError, KeyError) as error:
        return f"expected a Protobuf schema that the library can load, got: {error}"


def _files(text: str, references: tuple[tuple[str, str], ...]) -> Iterable[FileDescriptorProto]:
    """Return the descriptors of the file and all its imports, each after its own imports."""
    serialized = FileDescriptorSet()
    with TemporaryDirectory(prefix="sowline-protoc-") as directory:
        sources = Path(directory, "sources")
        sources.mkdir()
        # A registry's reference is the file that the writer had. It takes precedence over a built-in file of that
        # name, or in a directory of that name.
        given = dict(references)
        built_in = {
            name: content
            for name, content in built_in_imports().items()
            if given.keys().isdisjoint(map(str, PurePosixPath(name).parents))
        }
        for name, content in (built_in | given | {MAIN: text}).items():
            # The compiler has these files, and a message type that has a JSON form must be the real one.
            if name.startswith(_BUNDLED):
                continue
            if _BASE64.fullmatch(content):
                serialized.file.append(_deserialized(name, content))
            else:
                _save(sources, name, content)
        imported, output = Path(directory, "imported"), Path(directory, "output")
        imported.write_bytes(serialized.SerializeToString())
        options = [f"-I{sources}", "--include_imports", f"--descriptor_set_out={output}"]
        if serialized.file:
            options.append(f"--descriptor_set_in={imported}")
        _run_protoc(options, sources)
        return FileDescriptorSet.FromString(output.read_bytes()).file


def _save(sources: Path, name: str, content: str) -> None:
    # A name must not lead out of the directory.
    if not _NAME.fullmatch(name) or len(name) > NAME_CHARS_MAX or ".." in PurePosixPath(name).parts:
        raise bad_schema(f"expected a relative import name like common/money.proto, got {name[:60]!r}")
    file = sources / name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
    except (FileExistsError, NotADirectoryError, IsADirectoryError, UnicodeEncodeError) as error:
        raise bad_schema(f"expected text that is no directory of another import, got {name!r}") from error


def _deserialized(name: str, content: str) -> FileDescriptorProto:
    try:
        file = FileDescriptorProto.FromString(b64decode("".join(content.split()), validate=True))
    except (ValueError, DecodeError) as error:
        raise bad_schema(f"expected base64 of a FileDescriptorProto, got {content[:40]!r}") from error
    file.name = name
    return file


def _run_protoc(options: list[str], sources: Path) -> None:
    # Python must never import a module from the directory of the sources: hence -P, and another current directory.
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *options, MAIN]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PROTOC_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise _away(f"no end within {PROTOC_SECONDS_MAX} s") from error
    if not done.returncode:
        return
    # The directory's name differs each time, but the message must not: a replay gives the same dead letter.
    lines = done.stderr.decode(errors="replace").replace(f"{sources}/", "").strip().splitlines()
    errors = [line for line in lines if ": warning: " not in line]
    shown = "; ".join(errors[:3])[:500]
    if done.returncode < 0 or not any(line.startswith(f"{MAIN}:") for line in errors):
        # Not an error of the schema: a full disk, a signal, or Python could not start the compiler.
        raise _away(f"exit status {done.returncode} {shown}".strip())
    raise bad_schema(f"expected a valid Protobuf schema, got: {shown}")


def _away(got: str) -> CompilerAway:
    return CompilerAway(
        f"expected the compiler of Protobuf schemas to run, got {got}; check memory, disk space and the installation"
    )
