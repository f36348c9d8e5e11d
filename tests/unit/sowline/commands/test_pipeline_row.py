"""The columns of the rows of a pipeline."""

from sowline.commands.pipeline_row import ROW_FIELDS, SOURCE, SinkColumn, SourceField


def test_a_field_of_the_source_is_a_column_of_its_struct() -> None:
    """Frames name it as Spark does, with a dot."""
    assert SourceField.NUMBER.column == "_source.number"
    assert [field.column for field in ROW_FIELDS] == ["_source.partition", "_source.file", "_source.number"]


def test_no_column_of_the_sink_is_one_of_the_source() -> None:
    """A row may have both at once."""
    assert not {*SinkColumn} & {SOURCE, *(field.column for field in SourceField)}
