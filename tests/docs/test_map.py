"""Each module of the pure packages has a test file of its own name, where a reader looks for its tests.

`make coverage` runs each of these files alone (`tests/alone.py`) and holds what it runs of its module.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs.test_privates import tree_of
from tests.mutants.scope import ROOT, modules, own_test

NO_FILE = "tested by files of other names"
TOO_LITTLE = "its own file runs less than the floor of it"

NOT_YET: dict[str, str] = {
    # materializer
    "materializer/sowline_materializer/core/applier.py": TOO_LITTLE,
    "materializer/sowline_materializer/core/batch_state.py": NO_FILE,
    "materializer/sowline_materializer/core/bodies.py": NO_FILE,
    "materializer/sowline_materializer/core/collector.py": NO_FILE,
    "materializer/sowline_materializer/core/deduplication.py": TOO_LITTLE,
    "materializer/sowline_materializer/core/deletes.py": NO_FILE,
    "materializer/sowline_materializer/core/document_writer.py": NO_FILE,
    "materializer/sowline_materializer/core/enricher.py": NO_FILE,
    "materializer/sowline_materializer/core/errors.py": NO_FILE,
    "materializer/sowline_materializer/core/forwards.py": NO_FILE,
    "materializer/sowline_materializer/core/limit_checks.py": NO_FILE,
    "materializer/sowline_materializer/core/record.py": TOO_LITTLE,
    "materializer/sowline_materializer/core/views.py": TOO_LITTLE,
    "materializer/sowline_materializer/core/writer.py": NO_FILE,
    # query_service
    "query_service/sowline_query_service/index/access_path.py": NO_FILE,
    "query_service/sowline_query_service/index/bounds.py": TOO_LITTLE,
    "query_service/sowline_query_service/index/cells.py": NO_FILE,
    "query_service/sowline_query_service/index/filling.py": NO_FILE,
    "query_service/sowline_query_service/index/masks.py": NO_FILE,
    "query_service/sowline_query_service/index/rows.py": TOO_LITTLE,
    "query_service/sowline_query_service/index/verdicts.py": NO_FILE,
    "query_service/sowline_query_service/replica/partition_replica.py": TOO_LITTLE,
    "query_service/sowline_query_service/replica/plain_run.py": NO_FILE,
    # sowline/changes
    "sowline/changes/change.py": TOO_LITTLE,
    "sowline/changes/event.py": NO_FILE,
    "sowline/changes/newest_changes.py": NO_FILE,
    "sowline/changes/partials.py": TOO_LITTLE,
    "sowline/changes/position_text.py": NO_FILE,
    "sowline/changes/progress.py": NO_FILE,
    "sowline/changes/ranking.py": TOO_LITTLE,
    "sowline/changes/wholeness.py": TOO_LITTLE,
    # sowline/codecs
    "sowline/codecs/avro/codec.py": NO_FILE,
    "sowline/codecs/avro/defaults.py": NO_FILE,
    "sowline/codecs/avro/delta.py": NO_FILE,
    "sowline/codecs/avro/description.py": NO_FILE,
    "sowline/codecs/avro/encoding.py": NO_FILE,
    "sowline/codecs/avro/leaves.py": NO_FILE,
    "sowline/codecs/avro/misfit.py": NO_FILE,
    "sowline/codecs/avro/normal_form.py": NO_FILE,
    "sowline/codecs/avro/resolution.py": NO_FILE,
    "sowline/codecs/avro/steps.py": NO_FILE,
    "sowline/codecs/avro/types.py": NO_FILE,
    "sowline/codecs/avro/wire.py": NO_FILE,
    "sowline/codecs/bson/codec.py": NO_FILE,
    "sowline/codecs/bson/values.py": NO_FILE,
    "sowline/codecs/codec.py": NO_FILE,
    "sowline/codecs/compatibility.py": NO_FILE,
    "sowline/codecs/composite/global_fields.py": NO_FILE,
    "sowline/codecs/composite/local_parts.py": NO_FILE,
    "sowline/codecs/composite/parts.py": NO_FILE,
    "sowline/codecs/errors.py": NO_FILE,
    "sowline/codecs/field_tree.py": NO_FILE,
    "sowline/codecs/fix/codec.py": NO_FILE,
    "sowline/codecs/fix/compatibility.py": NO_FILE,
    "sowline/codecs/fix/description.py": NO_FILE,
    "sowline/codecs/fix/dictionary.py": NO_FILE,
    "sowline/codecs/fix/document.py": NO_FILE,
    "sowline/codecs/fix/fields.py": NO_FILE,
    "sowline/codecs/fix/normal_form.py": NO_FILE,
    "sowline/codecs/fix/options.py": NO_FILE,
    "sowline/codecs/fix/session.py": NO_FILE,
    "sowline/codecs/json_schema/codec.py": NO_FILE,
    "sowline/codecs/json_schema/compatibility.py": NO_FILE,
    "sowline/codecs/json_schema/compiled.py": NO_FILE,
    "sowline/codecs/json_schema/diagnosis.py": NO_FILE,
    "sowline/codecs/json_schema/paths.py": NO_FILE,
    "sowline/codecs/json_schema/values.py": NO_FILE,
    "sowline/codecs/protobuf/codec.py": NO_FILE,
    "sowline/codecs/protobuf/compatibility.py": NO_FILE,
    "sowline/codecs/protobuf/compiled.py": NO_FILE,
    "sowline/codecs/protobuf/delta_paths.py": NO_FILE,
    "sowline/codecs/protobuf/description.py": NO_FILE,
    "sowline/codecs/protobuf/fields.py": NO_FILE,
    "sowline/codecs/protobuf/reading.py": NO_FILE,
    "sowline/codecs/protobuf/scalars.py": NO_FILE,
    "sowline/codecs/protobuf/unknown.py": NO_FILE,
    "sowline/codecs/protobuf/well_known.py": NO_FILE,
    "sowline/codecs/protobuf/writing.py": NO_FILE,
    "sowline/codecs/schema.py": NO_FILE,
    "sowline/codecs/schemaless.py": NO_FILE,
    "sowline/codecs/typed_bodies.py": NO_FILE,
    "sowline/codecs/value_objects.py": NO_FILE,
    "sowline/codecs/xml/codec.py": NO_FILE,
    "sowline/codecs/xml/deltas.py": NO_FILE,
    "sowline/codecs/xml/description.py": NO_FILE,
    "sowline/codecs/xml/merging.py": NO_FILE,
    "sowline/codecs/xml/nodes.py": NO_FILE,
    "sowline/codecs/xml/options.py": NO_FILE,
    "sowline/codecs/xml/reading.py": NO_FILE,
    "sowline/codecs/xml/writing.py": NO_FILE,
    # sowline/commands
    "sowline/commands/key_generator.py": NO_FILE,
    "sowline/commands/key_rule.py": TOO_LITTLE,
    "sowline/commands/pipeline_row.py": NO_FILE,
    # sowline/config
    "sowline/config/command_key.py": NO_FILE,
    "sowline/config/declared_topic.py": NO_FILE,
    "sowline/config/expected.py": NO_FILE,
    "sowline/config/fanouts.py": NO_FILE,
    "sowline/config/kafka_names.py": NO_FILE,
    "sowline/config/kafka_options.py": TOO_LITTLE,
    "sowline/config/kafka_topics.py": NO_FILE,
    "sowline/config/message_formats.py": NO_FILE,
    "sowline/config/outgoing_command.py": NO_FILE,
    "sowline/config/plain_numbers.py": NO_FILE,
    "sowline/config/reading_chains.py": NO_FILE,
    "sowline/config/topic_definition.py": NO_FILE,
    "sowline/config/topic_fields.py": NO_FILE,
    "sowline/config/topics.py": TOO_LITTLE,
    "sowline/config/typed_message.py": NO_FILE,
    "sowline/config/views.py": TOO_LITTLE,
    "sowline/config/yaml_file.py": NO_FILE,
    # sowline/model
    "sowline/model/body.py": TOO_LITTLE,
    "sowline/model/bookmark.py": TOO_LITTLE,
    "sowline/model/cell.py": NO_FILE,
    "sowline/model/exact_numbers.py": NO_FILE,
    "sowline/model/key.py": TOO_LITTLE,
    "sowline/model/printable.py": NO_FILE,
    # sowline/serving
    "sowline/serving/authorization/entitlements.py": TOO_LITTLE,
    "sowline/serving/authorization/identity.py": NO_FILE,
    "sowline/serving/authorization/topic_patterns.py": NO_FILE,
    # sowline/subscriptions
    "sowline/subscriptions/ask.py": NO_FILE,
    "sowline/subscriptions/engine/change_message.py": NO_FILE,
    "sowline/subscriptions/engine/conflation.py": TOO_LITTLE,
    "sowline/subscriptions/engine/delivery.py": TOO_LITTLE,
    "sowline/subscriptions/engine/matching/bucket.py": NO_FILE,
    "sowline/subscriptions/engine/matching/columns.py": NO_FILE,
    "sowline/subscriptions/engine/matching/entry.py": NO_FILE,
    "sowline/subscriptions/engine/matching/index.py": NO_FILE,
    "sowline/subscriptions/engine/matching/live.py": NO_FILE,
    "sowline/subscriptions/engine/matching/terms.py": NO_FILE,
    "sowline/subscriptions/engine/prefix.py": NO_FILE,
    "sowline/subscriptions/engine/shown.py": TOO_LITTLE,
    "sowline/subscriptions/engine/subscription.py": TOO_LITTLE,
    "sowline/subscriptions/inbox.py": NO_FILE,
    "sowline/subscriptions/lifecycle.py": NO_FILE,
    "sowline/subscriptions/machine.py": NO_FILE,
    "sowline/subscriptions/replacements.py": NO_FILE,
    "sowline/subscriptions/service_lifecycle.py": NO_FILE,
    "sowline/subscriptions/taken.py": NO_FILE,
    # sowline/wire
    "sowline/wire/client_message.py": TOO_LITTLE,
    "sowline/wire/command_fields.py": NO_FILE,
    "sowline/wire/node_queries.py": TOO_LITTLE,
    "sowline/wire/request.py": TOO_LITTLE,
    "sowline/wire/request_fields.py": NO_FILE,
    "sowline/wire/request_parser.py": NO_FILE,
    "sowline/wire/server_message.py": TOO_LITTLE,
    # views
    "views/sowline_views/core/followed_partition.py": NO_FILE,
    "views/sowline_views/core/join_keys.py": NO_FILE,
    "views/sowline_views/core/joined_tables.py": NO_FILE,
    "views/sowline_views/core/joins.py": NO_FILE,
    "views/sowline_views/core/native_groups.py": NO_FILE,
    "views/sowline_views/core/source_partition.py": NO_FILE,
    "views/sowline_views/core/spilling.py": NO_FILE,
    "views/sowline_views/core/states.py": TOO_LITTLE,
}
"""Modules that are not there yet, each with what it lacks: their number only goes down."""


def has_behavior(module: str) -> bool:
    """Whether a module has something to run: a function that does something."""
    return any(_does_something(node) for node in ast.walk(tree_of(ROOT / module)))


def _does_something(node: ast.AST) -> bool:
    if isinstance(node, ast.Lambda):
        return True
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not all(map(_is_text, node.body))


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring or `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def mapped(paths: Iterable[str] = ()) -> list[str]:
    """Return the modules that need a test file, below paths or all."""
    return [one for one in modules(paths) if not one.endswith("/__init__.py") and has_behavior(one)]


def test_each_module_has_its_test_file() -> None:
    """At the same path below `tests/unit/`, so that a reader finds what a module does and who tests it."""
    missing = [one for one in mapped() if not (ROOT / own_test(one)).exists() and one not in NOT_YET]
    assert not missing, "\n".join(f"{one}: expected {own_test(one)}: write it" for one in missing)


def test_the_exceptions_are_some() -> None:
    """A module that has its file, or is gone, is no exception; `make coverage` says whose file runs enough."""
    there = {one: TOO_LITTLE if (ROOT / own_test(one)).exists() else NO_FILE for one in mapped()}
    stale = [one for one, lack in NOT_YET.items() if there.get(one) != lack]
    assert not stale, "\n".join(
        f"NOT_YET: {one}: expected {there.get(one, 'no entry')!r}, got {NOT_YET[one]!r}" for one in stale
    )


def test_the_exceptions_are_in_order() -> None:
    """So that two branches that delete lines of them merge."""
    assert list(NOT_YET) == sorted(NOT_YET)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LIMIT = 3\n", False),
        ('class C(Protocol):\n    def f(self) -> int:\n        """Return it."""\n', False),
        ("class C(Protocol):\n    def f(self) -> int: ...\n", False),
        ('def f():\n    """Return it."""\n    return 1\n', True),
        ("class C:\n    async def f(self):\n        raise NotImplementedError\n", True),
        ("double = lambda x: 2 * x\n", True),
    ],
)
def test_what_has_behavior(text: str, found: bool, tmp_path: Path) -> None:
    """Names, types and constants have none: nothing of them runs."""
    (module := tmp_path / "m.py").write_text(text)
    assert has_behavior(str(module)) is found
