"""Each module outside the pure packages has a test file: of its own name, one that imports it, or one named here.

`python -m tests.docs.test_tested_by MODULE` prints which files that are. Those of the pure packages have their own
(`tests/docs/test_map.py`).
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.test_comments import PRODUCT, ROOT
from tests.docs.test_map import has_behavior, mapped
from tests.docs.test_privates import tree_of
from tests.mutants.scope import dotted, own_test

GATEWAY = "gateway/sowline_gateway"
QUERIES = "query_service/sowline_query_service"

TESTED_BY: dict[str, tuple[str, ...]] = {
    "tests/integration/test_agents.py": (
        "sowline/agents/mcp_server.py",
        "sowline/cli/mcp.py",
    ),
    "tests/integration/test_bad_input.py": ("sowline/cli/dead.py",),
    "tests/integration/test_check.py": (
        "sowline/check/readers.py",
        "sowline/check/workload.py",
        "sowline/check/writers.py",
    ),
    "tests/integration/test_cli.py": (
        "sowline/runtime/interrupt.py",
        "sowline/cli/marks.py",
        "sowline/cli/printing.py",
    ),
    "tests/integration/test_computed_views.py": ("views/sowline_views/output.py",),
    "tests/integration/test_definition_commands.py": (
        "sowline/cli/drop.py",
        "sowline/cli/token.py",
        "sowline/kafka/log_size.py",
    ),
    "tests/integration/test_gateway.py": (
        f"{GATEWAY}/query/access_paths.py",
        f"{GATEWAY}/query/record_read.py",
    ),
    "tests/integration/test_large_joins.py": ("views/sowline_views/tables.py",),
    "tests/integration/test_local_kafka.py": (
        "sowline/cli/kafka.py",
        "sowline/runtime/child_process.py",
    ),
    "tests/integration/test_recovery.py": ("materializer/sowline_materializer/worker/batch.py",),
    "tests/integration/test_snapshots.py": (f"{QUERIES}/snapshots/writer.py",),
    "tests/integration/test_timeline.py": (f"{GATEWAY}/query/timeline.py",),
    "tests/integration/test_topic_schemas.py": ("sowline/kafka/schema_log.py",),
    "tests/integration/test_writing.py": (f"{QUERIES}/server/outcome_commands.py",),
    "tests/property/test_shards.py": ("sowline/subscriptions/live/relayed_change.py",),
    "tests/spark/test_exact_data.py": (
        "sowline/spark/row_json.py",
        "sowline/spark/sql.py",
    ),
    "tests/spark/test_read_sow.py": ("sowline/spark/changes.py",),
    "tests/spark/test_sink.py": (
        "sowline/spark/ordinals.py",
        "sowline/spark/rate_limit.py",
        "sowline/spark/session.py",
    ),
    "tests/spark/test_source_files.py": ("sowline/spark/footers.py",),
    "tests/unit/contract/test_editor_schemas.py": ("contract/chart_schema.py",),
    "tests/unit/contract/test_protocol.py": (
        "contract/asyncapi.py",
        "contract/openapi.py",
    ),
    "tests/unit/fanout/test_output.py": ("sowline/kafka/exact_output.py",),
    "tests/unit/gateway/query/test_failover.py": ("sowline/serving/sessions/running_queries.py",),
    "tests/unit/gateway/query/test_sharded_query.py": (f"{GATEWAY}/query/key_routing.py",),
    "tests/unit/gateway/streams/test_shared_streams.py": (
        f"{GATEWAY}/nodes/channel.py",
        f"{GATEWAY}/streams/stream.py",
    ),
    "tests/unit/gateway/subscriptions/test_node_flow.py": (f"{GATEWAY}/subscriptions/checksum.py",),
    "tests/unit/gateway/subscriptions/test_paced_records.py": (f"{GATEWAY}/subscriptions/pacing.py",),
    "tests/unit/gateway/subscriptions/test_stream_membership.py": ("sowline/subscriptions/live/progress.py",),
    "tests/unit/gateway/subscriptions/test_window_over_nodes.py": (
        f"{GATEWAY}/subscriptions/window_outlet.py",
        f"{GATEWAY}/subscriptions/window_subscription.py",
    ),
    "tests/unit/gateway/subscriptions/test_window_starts.py": (f"{GATEWAY}/subscriptions/past_window.py",),
    "tests/unit/ingest/test_cli.py": ("ingest/sowline_ingest/against_system.py",),
    "tests/unit/ingest/test_run.py": (
        "ingest/sowline_ingest/applied.py",
        "ingest/sowline_ingest/progress.py",
    ),
    "tests/unit/ingest/test_sources.py": (
        "ingest/sowline_ingest/debezium.py",
        "ingest/sowline_ingest/decimals.py",
    ),
    "tests/unit/materializer/admin/test_backup.py": ("sowline/runtime/durable.py",),
    "tests/unit/materializer/partition/test_owner_commands.py": (
        "materializer/sowline_materializer/partition/due_records.py",
    ),
    "tests/unit/materializer/partition/test_recovery.py": (
        "materializer/sowline_materializer/partition/tail.py",
    ),
    "tests/unit/materializer/store/test_write_behind.py": (
        "materializer/sowline_materializer/store/unflushed.py",
    ),
    "tests/unit/query_service/live/test_conflation.py": (
        "sowline/subscriptions/live/conflation.py",
        "sowline/subscriptions/live/put_payload.py",
    ),
    "tests/unit/query_service/live/test_page_windows.py": (f"{QUERIES}/live/pages.py",),
    "tests/unit/query_service/live/test_window.py": (
        f"{QUERIES}/live/group_windows.py",
        "sowline/subscriptions/live/shown_records.py",
    ),
    "tests/unit/query_service/query/test_query.py": (f"{QUERIES}/query/unknown_fields.py",),
    "tests/unit/query_service/server/test_http_api.py": (
        "sowline/serving/http/typed_format.py",
        "sowline/serving/topics_api.py",
    ),
    "tests/unit/query_service/server/test_large_requests.py": ("sowline/serving/writes/write_commands.py",),
    "tests/unit/query_service/server/test_session.py": (
        f"{QUERIES}/server/commands.py",
        f"{QUERIES}/subscriptions/subscribed_topics.py",
    ),
    "tests/unit/query_service/server/test_turns.py": (f"{QUERIES}/server/query_commands.py",),
    "tests/unit/query_service/subscriptions/test_replacement.py": (
        f"{QUERIES}/subscriptions/window_subscription.py",
    ),
    "tests/unit/query_service/subscriptions/test_replay.py": (
        f"{QUERIES}/subscriptions/record_subscription.py",
    ),
    "tests/unit/query_service/test_service.py": (
        f"{QUERIES}/redefinitions.py",
        f"{QUERIES}/topics/topic_metrics.py",
    ),
    "tests/unit/sowline/check/test_fanouts.py": ("sowline/check/recorder.py",),
    "tests/unit/sowline/cli/test_bytes.py": ("sowline/cli/command.py",),
    "tests/unit/sowline/cli/test_check.py": ("sowline/cli/check_topics.py",),
    "tests/unit/sowline/cli/test_lazy_commands.py": ("sowline/lazy_exports.py",),
    "tests/unit/sowline/client/test_async_client.py": (
        "sowline/client/open_streams.py",
        "sowline/client/reading.py",
    ),
    "tests/unit/sowline/client/test_grid_widget.py": ("sowline/client/notebook.py",),
    "tests/unit/sowline/kafka/test_runner_service.py": ("sowline/kafka/runner.py",),
    "tests/unit/sowline/serving/access/test_origins.py": (
        "sowline/serving/access/middleware.py",
        "sowline/serving/access/request_limit.py",
    ),
    "tests/unit/sowline/serving/access/test_tls.py": ("sowline/runtime/watched_file.py",),
    "tests/unit/sowline/serving/sessions/test_websocket_api.py": (
        "sowline/serving/session_commands.py",
        "sowline/serving/sessions/clients_api.py",
    ),
    "tests/unit/sowline/serving/writes/test_requests.py": ("sowline/serving/writes/write_entitlements.py",),
}
"""By test file, the modules that it runs by means of others: those that no test file imports."""

PROCESSES = ("tests/browser/", "tests/clients/", "tests/integration/", "tests/spark/")
"""Suites that start services and commands as processes."""


@cache
def _paths(*packages: str) -> dict[str, str]:
    """Return the paths of the modules of some packages, by their dotted names."""
    found = (path for package in packages for path in sorted((ROOT / package).rglob("*.py")))
    return {dotted(path): path for path in (str(one.relative_to(ROOT)) for one in found)}


def named(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a file imports; also those that it imports later, by their names as text."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{one.name}" for one in names)
            case ast.Constant(value=str(text)):
                yield text


@cache
def imported(path: str) -> frozenset[str]:
    """Return the modules that a file imports: of the product, and those that help its tests."""
    known = _paths(*PRODUCT, "tests")
    return frozenset(known[name] for name in named(tree_of(ROOT / path)) if name in known)


@cache
def reached(path: str) -> frozenset[str]:
    """Return the modules that a file imports, and those that they import."""
    found: set[str] = set()
    due = [path]
    while due:
        more = imported(due.pop()) - found
        found |= more
        due.extend(more)
    return frozenset(found)


@cache
def _test_files() -> tuple[str, ...]:
    return tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py")))


def listed() -> dict[str, str]:
    """Return the test file of each module on the list."""
    return {module: test for test, modules in TESTED_BY.items() for module in modules}


def by_rule(module: str) -> list[str]:
    """Return the test files of a module that need no list: of its own name, and those that import it."""
    own = str(own_test(module))
    return [test for test in _test_files() if test == own or module in imported(test)]


def files_for(module: str) -> list[str]:
    """Return the test files of a module; none if nothing says which."""
    test = listed().get(module)
    return by_rule(module) or ([] if test is None else [test])


def others() -> list[str]:
    """Return the modules outside the pure packages that have something to test."""
    pure = set(mapped())
    return sorted(path for path in _paths(*PRODUCT).values() if path not in pure and _has_own_behavior(path))


def _has_own_behavior(path: str) -> bool:
    return not path.endswith(("/__init__.py", "/__main__.py")) and has_behavior(path)


def test_each_module_has_a_test_file() -> None:
    """A reader finds who tests a module, and who writes a module says who does."""
    missing = [module for module in others() if not files_for(module)]
    assert not missing, "\n".join(f"{module}: expected {own_test(module)}: write it" for module in missing)


def test_the_list_has_no_others() -> None:
    """What a test file imports, or is gone, comes off the list."""
    wrong = [module for module in listed() if not (ROOT / module).exists() or by_rule(module)]
    assert not wrong, "\n".join(f"{module}: take it off the list TESTED_BY" for module in wrong)


@pytest.mark.parametrize("test", TESTED_BY)
def test_who_is_listed_runs_the_modules(test: str) -> None:
    """A test file reaches them by its imports, or starts the processes that do."""
    assert (ROOT / test).exists()
    if not test.startswith(PROCESSES):
        assert set(TESTED_BY[test]) <= reached(test)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import sowline.errors\n", {"sowline.errors"}),
        ("from sowline import errors\n", {"sowline", "sowline.errors"}),
        (
            "def f():\n    from sowline.errors import SowlineError\n",
            {"sowline.errors", "sowline.errors.SowlineError"},
        ),
        ("LATER = {'errors': 'sowline.errors'}\n", {"errors", "sowline.errors"}),
    ],
)
def test_what_a_file_names(text: str, found: set[str]) -> None:
    """Modules and what is in them, wherever it imports them."""
    assert set(named(ast.parse(text))) == found


if __name__ == "__main__":
    for one in sys.argv[1:]:
        print(one, *files_for(one), sep="\n  ")
