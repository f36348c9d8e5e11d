"""`topics.yaml`: what it may say, what is filled in, and where it is wrong."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from sowline.codecs.schema import Schema
from sowline.config.fanouts import FanoutDefinition
from sowline.config.topic_definition import TopicDefinition, by_changes, define_topic
from sowline.config.topics import Topics, load_topics, parse_topics
from sowline.config.yaml_file import YamlFileError
from sowline.errors import SowlineError
from sowline.model.limits import Limits
from sowline.model.select import parse_select
from tests.docs.pages import blocks_of
from tests.typed_orders import AVRO_SCHEMA, PROTOBUF_SCHEMA, typed


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


def test_a_topic_needs_a_name_and_a_key() -> None:
    """Everything else has a default: the log and the key domain are the name, changes and dead letters beside."""
    topic = parse_topics("topics: [{name: orders, key: [/id]}]").named("orders")
    assert (topic.log, topic.changes, topic.kafka.dead) == ("orders", "orders.changes", "orders.dead")
    assert (topic.partitions, topic.declared.key_domain, topic.key_paths) == (1, "orders", (("id",),))
    assert (topic.limits.repeat_window, topic.declared.resume_window) == (7 * 86_400_000, 3_600_000)


def test_a_key_may_have_several_fields() -> None:
    """Key fields are paths; one may be written without its list."""
    assert define(key=["/client/id", "/day"]).key_paths == (("client", "id"), ("day",))
    assert define(key="/a/b").key_paths == (("a", "b"),)


@pytest.mark.parametrize(
    ("text", "steps", "kept"),
    [
        ("[/unit id]", ("unit id",), "[/unit id]"),
        ("[/client data/unit id]", ("client data", "unit id"), "[/client data][/unit id]"),
        ("/client[/unit id]/day", ("client", "unit id", "day"), "/client[/unit id]/day"),
        ("[/a.b]", ("a.b",), "/a.b"),
        ("/a.b", ("a.b",), "/a.b"),
        ("[/a+b]", ("a+b",), "/a+b"),
        ("/a+b", ("a+b",), "/a+b"),
        ("[/a[b]", ("a[b",), "[/a[b]"),
    ],
)
def test_the_names_of_key_fields_may_have_any_characters(
    text: str, steps: tuple[str, ...], kept: str
) -> None:
    """In brackets, as in every path; each path has one spelling, by which definitions are compared."""
    topic = define(key=text)
    assert (topic.key_paths, topic.key_sent) == ((steps,), [kept])
    assert topic.digest == define(key=kept).digest
    rule = topic.key_rule
    assert rule.paths == (steps,)


@pytest.mark.parametrize(
    "text", ["unit id", "/unit id", "[/unit id", "[0]", "/legs[0]", "[/a]b", "[//a]", ""]
)
def test_a_key_field_is_a_path_of_names(text: str) -> None:
    """The refusal has a path with blanks."""
    with pytest.raises(ValidationError, match=r"such as /orderId, /client/id or \[/unit id\], got"):
        define(key=text)


def test_a_slash_in_a_name_is_a_dot_on_kafka() -> None:
    """Kafka topics have no slashes; the name and the key domain keep theirs."""
    topic = define(name="eu/orders")
    assert (topic.log, topic.changes, topic.declared.key_domain) == (
        "eu.orders",
        "eu.orders.changes",
        "eu/orders",
    )


def test_durations_are_written_with_their_unit() -> None:
    """Windows are durations, kept in milliseconds."""
    assert define(repeat_window="90s").limits.repeat_window == 90_000


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("topics:\n  - name: orders\n", 2, "topics.0.key"),
        ("topics:\n  - name: orders\n    key: [/id]\n    partitions: 0\n", 4, "partitions"),
        ("topics:\n  - key: [/id]\n", 2, "name"),
        (
            "topics:\n  - name: a\n    key: [/id]\n  - name: b\n    key:\n      - /id\n      - id\n",
            7,
            "path of a key field",
        ),
        ("topics:\n  - name: a b\n    key: [/id]\n", 2, "expected a name"),
        *(
            (f"topics:\n  - name: a\n    key: /id\n    partitions: {number}\n", 4, "a number in plain digits")
            for number in ("010", "1_000", "+5", "-01")
        ),
        (f"topics:\n  - {'[' * 5000}{']' * 5000}\n", 2, "at most 64 levels, got more"),
        (f"topics:\n  {'{a: ' * 5000}1{'}' * 5000}\n", 2, "at most 64 levels, got more"),
        (f"topics:\n  {'- ' * 5000}1\n", 2, "at most 64 levels, got more"),
        ("topics:\n  - name: a\n    key: [/id]\n    color: red\n", 4, "color"),
        ("topics:\n  - name: a\n    key: []\n", 3, "key"),
        ("topics:\n  - name: a\n    key: /id\n    message_type: csv\n", 4, "json"),
        ("topics:\n  - name: a\n    key: /id\n    repeat_window: 7\n", 4, "expected a duration"),
        ("topics:\n  - {name: a, key: /id}\nfanout: []\n", 3, "fanout"),
        ("topics:\n  - {name: a, key: /id}\nfanouts:\n  - {name: f}\n", 4, "topic"),
        ("topics:\n  - name: a\n    key: /id\n    log: a:b\n", 4, "expected a Kafka topic"),
        ("topics:\n  - name: a\n    key: /id\n    log: ..\n", 4, "expected a Kafka topic"),
        ("topics:\n  - name: a\n    key: /id\n    indexes: [/b, price]\n", 4, "expected a path"),
        ("topics:\n  - name: a\n    key: /id\n    indexes: [/b, /c, [/b]]\n", 4, "indexes"),
        ("topics:\n  - name: a\n    key: /id\n    indexes: [/b, '[/b]']\n", 4, "index '/b' is used twice"),
        ("topics:\n  - name: a\n    key: /id\n    hash_indexes: [/b]\n", 4, "hash_indexes.0"),
        ("topics:\n  - name: a\n    key: /id\n    hash_indexes: [[]]\n", 4, "hash_indexes.0"),
        (
            "topics:\n  - name: a\n    key: /id\n    hash_indexes: [[/b, /b]]\n",
            4,
            "field of a hash index '/b'",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    hash_indexes: [[/b, /c], [/c, /b]]\n",
            4,
            "hash index '/b and /c' is used twice",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    enrichment:\n      - 1 AS /b\n      - /c AS\n",
            6,
            "enrichment.1 (a): expected a path after AS at column 6",
        ),
        ("topics:\n  - name: a\n    key: /id\n    enrichment: [SUM(/b) AS /c]\n", 4, "the aggregate SUM"),
        (
            "topics:\n  - name: a\n    key: /id\n    preprocessing: [/b OF PREVIOUS AS /c]\n",
            4,
            "got /b OF PREVIOUS",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    preprocessing: [1 AS /b, 2 AS /b/c]\n",
            4,
            "paths that don't overlap, got /b and /b/c",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    enrichment: [1 AS /b, 2 AS /b]\n",
            4,
            "paths that don't overlap, got /b and /b",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    preprocessing: [1 AS /id/b]\n",
            4,
            "a key field or outside of it, got /id/b and the key field /id",
        ),
        (
            "topics:\n  - name: a\n    key: [/x, /b/id]\n    preprocessing: [1 AS /b]\n",
            4,
            "got /b and the key field /b/id",
        ),
        ("topics:\n  - name: a\n    key: /id\n    enrichment: [1 AS /id]\n", 4, "paths other than the key's"),
        (
            "topics:\n  - name: a\n    key: /b/id\n    enrichment: [1 AS /b]\n",
            4,
            "paths other than the key's",
        ),
        ("topics:\n  - name: a\n    key: /id\n    enrichment: 1 AS /b\n", 4, "enrichment"),
        ("topics: 5\n", 1, "topics"),
        ("- a\n", 1, "file"),
    ],
)
def test_an_error_names_file_line_and_reason(text: str, line: int, message: str) -> None:
    """The author of the file is led to the line."""
    with pytest.raises(SowlineError) as error:
        parse_topics(text, "my.yaml")
    assert error.value.reason == "bad configuration"
    assert error.value.message.startswith(f"my.yaml, line {line}: ")
    assert message in error.value.message


def test_all_errors_are_reported_at_once() -> None:
    """Two mistakes give two sentences."""
    with pytest.raises(SowlineError) as error:
        parse_topics("topics:\n  - {name: a}\n  - {key: /id}\n")
    assert "line 2: topics.0.key (a): " in error.value.message
    assert "line 3: topics.1.name: " in error.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics: [{name: a, key: /id}, {name: a, key: /id, log: b}]", "topic 'a' is used twice"),
        ("topics: [{name: a, key: /id}, {name: b, key: /id, log: a}]", "Kafka topic 'a' is used twice"),
        (
            "topics: [{name: a, key: /id}, {name: a.changes, key: /id}]",
            "Kafka topic 'a.changes' is used twice",
        ),
        ("topics: [{name: a, key: /id}]\nfanouts: [{name: f, topic: b}]", "topic 'b', which is not defined"),
        (
            "topics: [{name: a, key: /id}]\nfanouts: [{name: f, topic: a}, {name: f, topic: a}]",
            "'fanout.f' is used twice",
        ),
    ],
)
def test_topics_do_not_get_in_each_others_way(text: str, message: str) -> None:
    """Names and Kafka topics are used once, and fanouts read topics that exist."""
    with pytest.raises(SowlineError, match=r"used twice|not defined") as error:
        parse_topics(text)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("nonsense", "'nonsense'"),
        ("oof,no_sowkey,reset", "got no_sowkey, bookmark_not_found"),
        ("bookmark_not_found=reset", "got bookmark_not_found"),
        ("send_keys", "got send_keys"),
        ("grouping=[/g],projection=[/g]", "got grouping, projection"),
        ("oof,no_empties", "expected no_empties together with delta: true"),
    ],
)
def test_a_fanout_is_refused_what_it_can_not_do(options: str, message: str) -> None:
    """The error leads to the options, before anything is written."""
    fanout = f"- name: f\n  topic: a\n  options: '{options}'"
    with pytest.raises(SowlineError) as error:
        parse_topics(f"topics: [{{name: a, key: /id}}]\nfanouts:\n{fanout}")
    assert "line 5: fanouts.0.options" in error.value.message
    assert message in error.value.message


@pytest.mark.parametrize("option", ["intrinsics", "no_redundant"])
def test_a_fanout_tells_of_documents_where_there_are_some(option: str) -> None:
    """Its options are looked at together with its topic."""
    text = "topics: [{{name: a, key: /id, documents: {}}}]\nfanouts: [{{name: f, topic: a, options: {}}}]"
    (fanout,) = parse_topics(text.format("true", option)).fanouts
    assert getattr(fanout.reading, option)
    with pytest.raises(SowlineError, match="fanout 'f' has options of documents, but topic 'a' has none"):
        parse_topics(text.format("false", option))


def test_a_fanout_s_filter_is_looked_at() -> None:
    """What is wrong with it is told with its line, before a service starts."""
    text = "topics: [{name: a, key: /id}]\nfanouts:\n  - {name: late, topic: a, filter: '/a ='}\n"
    with pytest.raises(
        SowlineError, match=r"line 3: fanouts.0.filter \(late\): expected an operand after = at column 5"
    ):
        parse_topics(text)


def test_a_fanout_reads_its_options_once() -> None:
    """They are there as the options of a read, and deltas may leave out what says nothing."""
    fanout = "{name: f, topic: a, delta: true, options: 'oof, no_empties, timestamp, select=[-/,+/id]'}"
    (read,) = parse_topics(f"topics: [{{name: a, key: /id}}]\nfanouts: [{fanout}]").fanouts
    assert (read.delta, read.reading.oof, read.reading.no_empties) == (True, True, True)
    assert read.reading.select == parse_select("[-/,+/id]")


def test_the_digest_of_a_fanout_says_what_its_readers_hold() -> None:
    """Which records, and which of their fields; not how or when they are told of them."""

    def digest(**given: Any) -> str:
        return FanoutDefinition.model_validate(
            {"name": "f", "topic": "a", "filter": "/x = 1", **given}
        ).digest

    assert digest() == digest(delta=True, options="oof,no_empties,timestamp") == digest(name="g")
    selected = digest(options="select=[-/,+/id]")
    assert selected == digest(options="oof, select=[ +/id, -/ ]")
    assert len({digest(), selected, digest(filter="/x = 2"), digest(topic="b")}) == 4


def typed_fanout(topic: dict[str, Any], **given: Any) -> FanoutDefinition:
    """Return a fanout of a topic, as a file with both has it."""
    fanout = {"name": "f", "topic": topic["name"], **given}
    (read,) = parse_topics(yaml.safe_dump({"topics": [topic], "fanouts": [fanout]})).fanouts
    return read


def test_a_fanout_of_topics_md(tmp_path: Path) -> None:
    """The example is one that loads, with a schema in a file beside it."""
    (block,) = (one for one in blocks_of("docs/topics.md") if "test_a_fanout" in one.elsewhere)
    tmp_path.joinpath("late.avsc").write_text(AVRO_SCHEMA)
    file = tmp_path / "topics.yaml"
    file.write_text(f"topics: [{{name: orders, key: /id}}]\n{block.text}")
    (fanout,) = load_topics(file).fanouts
    assert fanout.schema_of(load_topics(file).named("orders")) == Schema("avro", AVRO_SCHEMA)


PARTS = {"parts": [{"type": "json"}, {"type": "fix", "format": {"names": {"11": "ClOrdID"}}}]}


@pytest.mark.parametrize(
    ("type", "options", "key", "expected"),
    [
        ("fix", {"names": {"11": "ClOrdID"}}, "/11", "/ClOrdID"),
        ("composite-local", PARTS, "/1/11", "/1/ClOrdID"),
    ],
)
def test_a_key_field_has_the_name_that_records_have(
    type: str, options: dict[str, Any], key: str, expected: str
) -> None:
    """By its tag it would be in no record, and each message a dead letter."""
    topic = {"name": "orders", "message_type": type, "message_format": options}
    with pytest.raises(ValidationError, match=f"expected the key field {expected}, .* got {key}:"):
        define_topic(**{**topic, "key": key})
    assert define_topic(**{**topic, "key": [expected, "/0"]}).key_paths[1] == ("0",)


def test_a_delta_is_merged_as_the_owner_does_it() -> None:
    """Rights to write must judge the record that comes of it, also if the stored one has no names yet."""
    topic = define(key="/11", message_type="fix", message_format={"names": {55: "Symbol"}})
    merged = topic.merged(b'{"11":"A","55":"IBM"}', b'{"11":"A","Symbol":"MSFT"}')
    assert merged == b'{"11":"A","Symbol":"MSFT"}'


def test_a_fanout_may_have_a_message_type() -> None:
    """With the schema of its topic, or one of its own; its subject has a default."""
    topic = typed("avro")
    source = define_topic(**topic)
    plain, same = typed_fanout(topic), typed_fanout(topic, **{"as": "avro"})
    assert (plain.message_type, plain.pinned(source), plain.schema_of(source)) == ("json", None, None)
    assert (same.pinned(source), same.schema_of(source)) == (source.declared.reader_schema, source.reader)
    assert (same.framing, same.registry_subject) == ("confluent", "fanout.f-value")
    own = {"as": "protobuf", "schema": {"text": PROTOBUF_SCHEMA, "subject": "p"}, "framing": "none"}
    other = typed_fanout(topic, **own)
    assert other.schema_of(source) == Schema("protobuf", PROTOBUF_SCHEMA)
    assert (
        other.registry_subject,
        typed_fanout(topic, **{"as": "avro", "subject": "s"}).registry_subject,
    ) == (
        "p",
        "s",
    )
    assert len({plain.digest, same.digest, other.digest}) == 3


@pytest.mark.parametrize(
    ("type", "given", "message"),
    [
        ("avro", {"framing": "none"}, "expected as: with a message type with schemas, got json and framing"),
        ("avro", {"schema": {"text": "x"}, "subject": "s"}, "got json and schema, subject"),
        ("avro", {"as": "protobuf"}, "'f' is written as protobuf and has no schema, but topic 'orders' has"),
        ("avro", {"as": "avro", "schema": {"text": "x"}}, "fanouts.0.schema (f): expected the schema"),
        ("avro", {"as": "csv"}, "fanouts.0.as"),
        (
            "avro",
            {"as": "avro", "subject": "s", "schema": {"text": AVRO_SCHEMA, "subject": "t"}},
            "expected one subject",
        ),
    ],
)
def test_a_fanout_has_a_schema_that_fits(type: str, given: dict[str, Any], message: str) -> None:
    """What can be known from the file is refused with a sentence."""
    with pytest.raises(SowlineError) as error:
        typed_fanout(typed(type), **given)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("topics:\n  - [", 2, "expected the node content, but found '<stream end>'"),
        ("a: b: c", 1, "mapping values are not allowed here"),
        ("\n\t", 2, "found character '\\t' that cannot start any token"),
        ("topics: []\n---\ntopics: []", 2, "expected a single document in the stream"),
        ("topics: \0", 1, "special characters are not allowed"),
    ],
)
def test_what_is_no_yaml_is_reported_as_none(text: str, line: int, message: str) -> None:
    """A slip in the YAML is told with its line, too."""
    with pytest.raises(SowlineError) as error:
        parse_topics(text)
    assert error.value.reason == "bad configuration"
    assert error.value.message.startswith(f"topics.yaml, line {line}: file: expected valid YAML: ")
    assert message in error.value.message


@pytest.mark.parametrize("name", ["NO", "007", "1.50", "2026-01-01", "0x1F"])
def test_a_name_is_the_text_that_stands_there(name: str) -> None:
    """Nothing is taken for a truth value, a number or a date, quoted or not."""
    text = f"topics: [{{name: {name}, key: /id, key_domain: {name}}}]"
    quoted = f"topics: [{{name: '{name}', key: /id, key_domain: \"{name}\"}}]"
    assert parse_topics(text) == parse_topics(quoted)
    assert parse_topics(text).named(name).declared.key_domain == name


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("partitions: 2", {"partitions": 2}),
        ("partitions: '2'", {"partitions": 2}),
        ("record_bytes_max: 1000000", {"record_bytes_max": 1_000_000}),
        ("delta: true", {"delta": True}),
        ("delta: Yes", {"delta": True}),
        ("delta: 'off'", {"delta": False}),
        ("key_domain:", {"key_domain": "orders"}),
        ("log: ''", {"log": "orders"}),
        ("resume_window: 1.5h", {"resume_window": 5_400_000}),
        ("indexes: []", {"indexes": ()}),
        ("indexes:\n      - /price\n      - '[/b]'", {"indexes": ("/price", "/b")}),
        ("hash_indexes: [[/a], [/b, /c]]", {"hash_indexes": (("/a",), ("/b", "/c"))}),
        ("enrichment: [1.5 AS /b]", {"enrichment": ("1.5 AS /b",)}),
    ],
)
def test_a_value_is_made_of_its_text(written: str, read: dict[str, Any]) -> None:
    """Numbers, truth values, durations and lists may be written as YAML has them."""
    topic = parse_topics(f"topics:\n  - name: orders\n    key: /id\n    {written}\n").named("orders")
    assert topic.declared.model_dump() == define().declared.model_dump() | read


@pytest.mark.parametrize("style", [True, False, None])
def test_what_other_programs_write_is_read(style: bool | None) -> None:
    """YAML of the same values is the same topics, in whichever style, and JSON is YAML."""
    given = {
        "topics": [
            {
                "name": "no",
                "key": ["/id"],
                "key_domain": "007",
                "delta": True,
                "record_bytes_max": 10_000_000,
            },
            {"name": "eu/1", "key_domain": "é", "key": "/id", "log": "1.5", "hash_indexes": [["/a", "/b"]]},
        ],
        "fanouts": [{"name": "null", "topic": "no", "filter": "/a = ' # \n'", "options": "oof,timestamp"}],
    }
    topics = Topics.model_validate(given)
    assert parse_topics(yaml.safe_dump(given, default_flow_style=style)) == topics
    assert parse_topics(json.dumps(given)) == topics


@pytest.mark.parametrize("nothing", ["null", "NULL", "~"])
def test_null_is_neither_a_name_nor_nothing(nothing: str) -> None:
    """Anyone who writes it is asked which of the two is meant."""
    with pytest.raises(
        SowlineError, match=rf"line 3: topics\.0\.log \(a\): expected a value, got {nothing}: leave"
    ):
        parse_topics(f"topics:\n  - name: a\n    log: {nothing}\n    key: /id\n")


def test_a_field_is_there_once() -> None:
    """The second of two is not quietly preferred."""
    with pytest.raises(
        SowlineError, match=r"line 4: topics\.0\.key \(a\): is defined twice, in line 3 and in line 4"
    ):
        parse_topics("topics:\n  - name: a\n    key: /id\n    key: /other\n")


def test_fields_can_be_merged_from_an_anchor() -> None:
    """What topics have in common may be written once; their own fields come first."""
    common = "- &common {name: a, key: /id, partitions: 4}"
    first, second = parse_topics(f"topics:\n  {common}\n  - {{<<: *common, name: b}}\n").topics
    assert (second.name, second.declared.key, second.partitions) == (
        "b",
        first.declared.key,
        first.partitions,
    )


def test_an_error_names_its_topic() -> None:
    """Where the topic has a name, but for errors in the name itself: nobody counts the topics of a file."""
    text = "topics:\n- {name: a, key: /id}\n- {name: b, key: id}\n- {name: c d, key: /id, log: c}\n"
    with pytest.raises(YamlFileError) as error:
        parse_topics(f"{text}- {{key: [/id], log: e}}\n- f\nviews: [{{name: v, from: a, color: red}}]\n")
    found = {str(problem).split(": ")[1]: problem.item for problem in error.value.problems}
    assert found == {
        "topics.1.key.0 (b)": "b",
        "topics.2.name": "",
        "topics.3.name": "",
        "topics.4": "",
        "views.0.color (v)": "v",
    }


def test_a_list_is_not_too_short_for_what_is_wrong_in_it() -> None:
    """One mistake gives one sentence; a list that is empty is said to be so."""
    with pytest.raises(SowlineError) as error:
        parse_topics("topics:\n  - {name: a, key: [id], partitions: 0}\n")
    assert error.value.message == (
        "topics.yaml, line 2: topics.0.key.0 (a): expected the path of a key field, such as /orderId, /client/id or"
        " [/unit id], got 'id'; topics.yaml, line 2: topics.0.partitions (a): expected a number of at least 1,"
        " got '0'"
    )
    with pytest.raises(SowlineError, match=r"line 1: topics: expected a list of at least 1, got 0"):
        parse_topics("topics: []")


def test_a_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    """The error names the file that was expected."""
    with pytest.raises(SowlineError, match="expected a file of topics at") as error:
        load_topics(tmp_path / "none.yaml")
    assert error.value.reason == "bad configuration"


def test_an_unknown_topic_is_answered_with_those_there_are() -> None:
    """Asking for a topic that is not defined is an error that lists the defined ones."""
    with pytest.raises(SowlineError, match=r"a, b.*'c'") as error:
        parse_topics("topics: [{name: a, key: /id}, {name: b, key: /id}]").named("c")
    assert error.value.reason == "invalid topic"


@pytest.mark.parametrize(
    "change",
    [
        {"key": "/other"},
        {"key_domain": "x"},
        {"partitions": 2},
        {"preprocessing": ["1 AS /a"]},
        {"enrichment": ["1 AS /a"]},
        {"enrichment": ["1.0 AS /a"]},
        {"documents": True},
        {"documents": True, "template": {"type": "review"}},
        {"message_type": "msgpack"},
    ],
)
def test_the_digest_tells_definitions_apart_that_decide_otherwise(change: dict[str, Any]) -> None:
    """What decides what a log record does is part of the digest, and is named where another digest is refused."""
    assert define(**change).digest != define().digest
    assert change.keys() <= set(define().deciding.replace(" and ", ", ").split(", "))


def test_the_digest_of_documents_is_what_it_was() -> None:
    """State of documents with a template stays good: it has what they read with."""
    documents = define_topic(name="orders", key="/id", documents=True, template={"type": "review"})
    assert documents.digest == "924ee13f4d2cfae4"


def test_the_digest_compares_what_computed_fields_mean() -> None:
    """Their spelling doesn't count; in which stage and in which order they are does."""
    digest = define(enrichment=["1 AS /a", "/b + 1 AS /c HINT OPTIONAL"]).digest
    assert define(enrichment=["1  as [/a]", "/b of current+1 AS /c hint optional"]).digest == digest
    assert define(enrichment=["/b + 1 AS /c HINT OPTIONAL", "1 AS /a"]).digest != digest
    assert define(preprocessing=["1 AS /a"]).digest != define(enrichment=["1 AS /a"]).digest


def test_the_digest_of_a_topic_without_computed_fields_is_what_it_was() -> None:
    """State that was made before there were any stays good."""
    assert define().digest == define(preprocessing=[], enrichment=[]).digest == "91a1f0635be3f422"


def test_a_topic_computes_fields_in_two_stages() -> None:
    """They are compiled once, and there is none where there are no fields."""
    topic = define(preprocessing=["/a AS /id"], enrichment=["/b AS /c"])
    assert topic.preprocess is topic.preprocess is not None
    assert topic.preprocess.fields[0].output == ("id",)
    assert topic.enrich is not None
    assert topic.enrich.fields[0].output == ("c",)
    assert (define().preprocess, define().enrich) == (None, None)
    assert pickle.loads(pickle.dumps(topic)) == topic


def test_a_stage_has_so_many_fields() -> None:
    """More than 64 are refused."""
    texts = [f"1 AS /f{number}" for number in range(65)]
    assert len(define(preprocessing=texts[:64], enrichment=texts[:64]).declared.enrichment) == 64
    with pytest.raises(ValueError, match="at most 64"):
        define(preprocessing=texts)
    with pytest.raises(ValueError, match="at most 64"):
        define(enrichment=texts)


def test_indexes_are_paths_of_the_filter_language() -> None:
    """Any path that a filter may read can be indexed, one by one or as a set that is looked up together."""
    topic = define(
        indexes=["/price", "/legs[0]/qty"], hash_indexes=[["/region"], ["/customer", "[/the status]"]]
    )
    assert topic.declared.indexes == ("/price", "/legs[0]/qty")
    assert topic.declared.hash_indexes == (("/region",), ("/customer", "[/the status]"))
    assert (define().declared.indexes, define().declared.hash_indexes) == ((), ())


def test_a_topic_has_so_many_indexes() -> None:
    """More than 64 of a kind are refused."""
    paths = [f"/f{number}" for number in range(65)]
    assert (
        len(define(indexes=paths[:64], hash_indexes=[[path] for path in paths[:64]]).declared.indexes) == 64
    )
    with pytest.raises(ValueError, match="at most 64"):
        define(indexes=paths)
    with pytest.raises(ValueError, match="at most 64"):
        define(hash_indexes=[[path] for path in paths])


@pytest.mark.parametrize(
    "change",
    [
        {"resume_window": "2h"},
        {"replication": 3},
        {"log": "elsewhere"},
        {"indexes": ["/price"]},
        {"hash_indexes": [["/region"]]},
        {"delta": True},
        {"expiration": "30s"},
        {"record_bytes_max": 1000},
        {"repeat_window": "1h"},
        {"records_max": 5},
    ],
)
def test_the_digest_ignores_what_decides_nothing(change: dict[str, Any]) -> None:
    """What decides nothing may change at any time, and lifetime and limits from a `define` command on."""
    assert define(**change).digest == define().digest


def test_what_fits_does_not_depend_on_deltas() -> None:
    """They may come and go: the limit has room for three bodies either way."""
    plain, with_deltas = define(record_bytes_max=1000), define(record_bytes_max=1000, delta=True)
    assert plain.kafka.log_bytes_max == with_deltas.kafka.log_bytes_max > 3000
    assert plain.kafka.dead_bytes_max == with_deltas.kafka.dead_bytes_max > plain.kafka.log_bytes_max


@pytest.mark.parametrize(
    ("text", "expiration"),
    [("disabled", "disabled"), ("enabled", "enabled"), ("30s", 30_000), ("5m", 300_000), ("1ms", 1)],
)
def test_expiration_is_a_word_or_a_lifetime(text: str, expiration: str | int) -> None:
    """Off by default; `enabled` leaves it to the messages; a lifetime is for all of them."""
    assert define(expiration=text).limits.expiration == expiration
    assert define().limits.expiration == "disabled"


@pytest.mark.parametrize("text", ["", "on", "0s", "30", "999999999d", "-5s"])
def test_another_expiration_is_refused(text: str) -> None:
    """With a sentence that says what it may be."""
    with pytest.raises(ValueError, match=r"expected .*lifetime"):
        define(expiration=text)


def test_limits_are_what_may_change() -> None:
    """Lifetime and limits in one piece."""
    limits = define(expiration="5s", record_bytes_max=100, repeat_window="1s", records_max=7).limits
    assert limits == Limits(5000, 100, 1000, 7)
    assert define().limits == Limits()


@pytest.mark.parametrize(
    ("given", "starts_empty", "time"),
    [
        ({}, False, None),
        ({"durability": "transient"}, False, None),
        ({"durability": "transient", "recovery_point": "epoch"}, False, None),
        ({"durability": "transient", "recovery_point": "now"}, True, None),
        ({"durability": "transient", "recovery_point": "19700101T000001Z"}, True, 1000),
        ({"durability": "transient", "recovery_point": "19700101T000001.0001Z"}, True, 1001),
    ],
)
def test_a_transient_topic_begins_at_its_recovery_point(
    given: dict[str, str], starts_empty: bool, time: int | None
) -> None:
    """Unless that is the epoch; a time counts to the next millisecond."""
    assert (define(**given).starts_empty, define(**given).recovery_time) == (starts_empty, time)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"durability": "transient", "recovery_point": "tomorrow"}, "expected epoch, now or a time"),
        ({"durability": "transient", "recovery_point": ""}, "expected epoch, now or a time"),
        ({"durability": "transient", "recovery_point": "20261321T000000Z"}, "expected epoch, now or a time"),
        ({"recovery_point": "now"}, "expected durability: transient"),
        ({"durability": "brief"}, "persistent"),
    ],
)
def test_another_durability_is_refused(given: dict[str, str], message: str) -> None:
    """A recovery point says nothing of a topic that is kept."""
    with pytest.raises(ValueError, match=message):
        define(**given)


def test_a_file_may_name_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a transient topic begins is often known only when its service is started."""
    path = tmp_path / "topics.yaml"
    path.write_text("topics: [{name: a, key: /id, durability: transient, recovery_point: '${SINCE:-now}'}]")
    assert load_topics(path).topics[0].declared.recovery_point == "now"
    monkeypatch.setenv("SINCE", "20261121T120000Z")
    assert load_topics(path).topics[0].declared.recovery_point == "20261121T120000Z"


def test_a_changes_topic_is_found_by_its_topic_and_not_by_its_name() -> None:
    """A view's log is not named like its changes, and `x.partials` may be the log of a topic too."""
    topics = parse_topics(
        "topics: [{name: x.partials, key: /id}, {name: a/b, key: /id, log: other}]\n"
        "views: [{name: eu/v, from: a/b, grouping: [/g], projection: [COUNT(1) AS /n]}]\n"
    ).topics
    found = {name: topic.log for name, topic in by_changes(topics).items()}
    assert found == {
        "x.partials.changes": "x.partials",
        "other.changes": "other",
        "eu.v.changes": "eu.v.partials",
    }
    assert {topic.kafka.dead for topic in topics} == {"x.partials.dead", "other.dead", "eu.v.dead"}
