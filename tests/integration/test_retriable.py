"""The errors that pass, as Kafka itself lists them."""

import os
import re
import subprocess

from sowline.kafka.retriable import RETRIABLE_BY_KAFKA
from sowline.runtime.jars import KAFKA_VERSION, kafka_of, retrieve
from sowline.runtime.java import find_java


def test_all_errors_that_kafka_marks_as_retriable_are_known() -> None:
    """Kafka's own client prints a table of all errors of the protocol, as it stands in Kafka's documentation."""
    classpath = os.pathsep.join(map(str, retrieve(kafka_of(KAFKA_VERSION))))
    command = [str(find_java()), "-cp", classpath, "org.apache.kafka.common.protocol.Errors"]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in table.split("<tr>")]
    codes = {int(code): is_retriable for _, code, is_retriable, *_ in filter(None, rows)}
    assert {"True", "False"} == set(codes.values())
    assert {code for code, is_retriable in codes.items() if is_retriable == "True"} == RETRIABLE_BY_KAFKA
