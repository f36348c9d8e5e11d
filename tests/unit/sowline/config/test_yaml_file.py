"""YAML files: each value is the text that is written, and each error has its line."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import load_topics, parse_topics, read_topics
from sowline.config.yaml_file import YamlFile, YamlFileError, open_yaml_file
from sowline.errors import SowlineError


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


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
    """An error in the YAML names its line, too."""
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


def test_a_file_may_name_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a transient topic begins is often known only when its service is started."""
    path = tmp_path / "topics.yaml"
    path.write_text("topics: [{name: a, key: /id, durability: transient, recovery_point: '${SINCE:-now}'}]")
    assert load_topics(path).topics[0].declared.recovery_point == "now"
    monkeypatch.setenv("SINCE", "20261121T120000Z")
    assert load_topics(path).topics[0].declared.recovery_point == "20261121T120000Z"


class Values(BaseModel):
    """A file with a list of texts."""

    values: list[str]


def read(text: str, **environment: str) -> list[str]:
    """Return the values of a file with these environment variables."""
    return YamlFile(text, "a.yaml", environment).read(Values).values


@pytest.mark.parametrize(
    ("text", "value"),
    [("${A}", "x"), ("${A}-${B:-y}", "x-y"), ("${EMPTY:-z}", "z"), ("$${A}", "${A}"), ("a$", "a$")],
)
def test_a_value_may_have_variables(text: str, value: str) -> None:
    """With defaults; a second `$` keeps the text."""
    assert read(f"values: ['{text}']", A="x", EMPTY="") == [value]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "${GONE}",
            "expected the environment variable GONE, which is not set: set it, or write ${GONE:-default}",
        ),
        ("${1}", "expected ${NAME} or ${NAME:-default}, got ${; write $$ for a $ before a {"),
    ],
)
def test_a_variable_that_is_not_set_is_one_error(text: str, message: str) -> None:
    """Not also one of the value that it should give."""
    with pytest.raises(YamlFileError) as error:
        YamlFile(f"values: '{text}'\n", "a.yaml", {}).read(Values)
    (problem,) = error.value.problems
    assert (str(problem), problem.address) == (
        f"a.yaml, line 1: values: {message}",
        "a.yaml, line 1: values",
    )


def test_an_empty_file_has_no_values() -> None:
    """Each field that it needs is missing."""
    with pytest.raises(YamlFileError, match=r"a\.yaml, line 1: values: expected this field, got nothing"):
        YamlFile("# nothing\n", "a.yaml").read(Values)


def test_a_problem_may_be_in_a_line_of_a_text() -> None:
    """Lines of a block text count from its first one."""
    file = YamlFile("values:\n  a: |\n    one\n    two\n  b: [1]\n", "a.yaml")
    assert file.problem(("values", "a"), "wrong", 2).line == 4
    assert file.problem(("values", "b", 0), "wrong").line == 5
    assert file.problem(("values", "b", 7), "wrong").line == 5
    assert file.problem((), "wrong").where == "file"


def test_a_tag_of_another_language_is_refused() -> None:
    """A file makes no objects."""
    with pytest.raises(YamlFileError, match="could not determine a constructor"):
        read("values: [!!python/name:os.system '']")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """The error names what the file should be."""
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    for name in ("a.yaml", "gone.yaml"):
        with pytest.raises(SowlineError, match=f"expected a file of values at .*{name}"):
            open_yaml_file(tmp_path / name, "a file of values")


def template_of(written: str, **environment: str) -> Any:
    """Return the field x of a template in a file with these environment variables."""
    text = f"topics:\n  - name: a\n    key: /id\n    documents: true\n    template:\n      x: {written}"
    return read_topics(YamlFile(text, "topics.yaml", environment)).named("a").declared.template["x"]


@pytest.mark.parametrize("written", ["5", "-1.5", "2e3", "true", "false", '"5"', '[1, {"a": 2.0, "b": "2"}]'])
def test_a_template_has_numbers(written: str) -> None:
    """Fields of documents have the JSON types that are written, and quotes make a text."""
    assert orjson.dumps(template_of(written)) == orjson.dumps(orjson.loads(written))


@pytest.mark.parametrize("written", ["NO", "007", "0x1F", "+5", "1_000", "2026-01-01", "True", ".5"])
def test_a_template_has_texts(written: str) -> None:
    """What is no JSON is a text there, too."""
    assert template_of(written) == written


def test_a_variable_in_a_template_is_a_text() -> None:
    """Its value may look like a number one day, and not the next."""
    assert template_of("${X}", X="5") == "5"
    assert template_of("$5") == "$5"


def test_a_number_in_a_template_fits_a_double() -> None:
    """The file is refused otherwise."""
    with pytest.raises(SowlineError, match=r"topics.yaml, line 6: .*a number that fits a double, got 1e999"):
        template_of("1e999")
