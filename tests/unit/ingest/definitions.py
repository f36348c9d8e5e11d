"""Files of pipelines, and what is wrong with them."""

from pathlib import Path

import pytest

from sowline.config.yaml_file import YamlFileError
from sowline_ingest.definition import Pipeline, load_pipeline

LEAST = """\
name: orders
topic: orders
sources:
  raw: {kafka: raw.orders, format: json, schema: id BIGINT}
key: [id]
checkpoint: var/orders
"""

WHOLE = """\
name: orders
topic: eu/orders
log: orders.v1
sources:
  raw: {kafka: raw.orders, format: json, schema: "id BIGINT, qty INT", options: {maxOffsetsPerTrigger: 1000}}
  drops: {directory: "${DROPS}/orders", format: csv, header: true, schema: id BIGINT, options: {nullValue: NO}}
tables:
  customers: {directory: /data/customers, format: parquet}
  regions: {directory: /data/regions, format: json, schema: region STRING}
transforms:
  - select: |
      SELECT * FROM raw
      UNION ALL SELECT * FROM drops
  - columns: {total: qty * price, one: 1}
  - where: qty IS NOT NULL
  - drop: [secret]
checks:
  - {expect: qty > 0, message: a quantity is above zero}
  - {expect: total > 0}
key: id
command: "CASE WHEN gone THEN 'sow_delete' ELSE 'publish' END"
body: to_json(struct(id))
expiration: 60
correlation: trace_id
checkpoint: "${STATE:-var}/orders"
rows_per_second: 20000
kafka_options: {security.protocol: SASL_SSL, max.block.ms: 007}
"""


def read(text: str, path: Path, **environment: str) -> Pipeline:
    """Return the pipeline of a file with this text."""
    (path / "my.yaml").write_text(text)
    return load_pipeline(path / "my.yaml", environment)


def wrong(text: str, path: Path, **environment: str) -> list[str]:
    """Return what is wrong with such a file: line, place and reason of each problem."""
    with pytest.raises(YamlFileError) as error:
        read(text, path, **environment)
    assert error.value.reason == "bad configuration"
    assert error.value.message == "; ".join(map(str, error.value.problems))
    return [str(one).removeprefix(f"{path}/my.yaml, ") for one in error.value.problems]


def with_source(source: str) -> str:
    """Return a file whose source in line 4 is this one."""
    return LEAST.replace("{kafka: raw.orders, format: json, schema: id BIGINT}", source)
