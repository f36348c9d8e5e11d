"""The replica as the destination of writes: which events report outcomes."""

from sowline.changes.change import DELETE, DELETED, Change
from sowline.commands.command import Origin
from sowline.model.position import Position
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.writes.destination import ReplicaDestination
from tests.unit.query_service.sessions import Server


def test_changes_that_are_loaded_again_are_not_counted_again() -> None:
    """A client still waits for a delete that was forwarded here, while the topic is loaded again."""
    server = Server().loaded()
    destination = ReplicaDestination(server.state)
    token = destination.outcomes.begin("orders")
    position, origin = Position(0, 4), Origin(1, 7)
    made = Change(b"1", None, b"{}", position, Position(0, 3), DELETE, 0, reason=DELETED, origin=origin)
    batches = {("orders.changes", 0): [EventAtOffset(4, made)]}
    destination.take(batches)
    server.state.load_again("orders.changes", "a gap")
    destination.take(batches)
    assert destination.outcomes.reports("orders", origin, [0]).forwarded[0].deleted == 1
    destination.outcomes.end("orders", token)
