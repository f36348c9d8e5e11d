"""The records of a page or of groups in the form of a group's messages."""

from collections.abc import Mapping

from sowline.config.topic_definition import TopicDefinition
from sowline.language.emodb.writes import intrinsics_json
from sowline.model.bookmark import format_position
from sowline.model.position import position_of
from sowline.model.select import Select
from sowline.subscriptions.engine.change_message import with_relayed
from sowline.subscriptions.engine.shown import ShownRecord
from sowline.subscriptions.live.put_payload import RankOf
from sowline.wire.options import Options
from sowline.wire.server_message import sow_record, with_rank


def records_relayed(select: Select | None, shown: Mapping[bytes, ShownRecord]) -> list[bytes]:
    """Return the records, by SOW key, in the form that is sent to a gateway; `select` is what the user may see."""
    return [
        with_relayed(
            sow_record(key, None, of.body if select is None else select.apply(of.body)), of.relayed()
        )
        for key, of in shown.items()
    ]


def records_shown(
    topic: TopicDefinition, options: Options, shown: Mapping[bytes, ShownRecord], rank_of: RankOf
) -> list[bytes]:
    """Return the records, by SOW key and in order, in the form that is sent."""
    records = [
        sow_record(
            None if options.no_sowkey else key,
            _updated_at(topic, of),
            of.body if options.select is None else options.select.apply(of.body),
            of.time if options.timestamp and of.position is not None else None,
            intrinsics_json(topic.name, of.known, deleted=False) if options.intrinsics and of.known else None,
        )
        for key, of in shown.items()
    ]
    if not options.rank:
        return records
    ranks = map(rank_of, shown)
    return [
        record if rank is None else with_rank(record, rank)
        for record, rank in zip(records, ranks, strict=True)
    ]


def _updated_at(topic: TopicDefinition, of: ShownRecord) -> bytes | None:
    """Return the bookmark of a record's last change; None if it has none."""
    if of.position is None:
        return None
    return format_position(topic.log, of.partition, position_of(of.position)).encode()
