"""Sessions of a query service's clients, without a connection."""

from sowline.serving.access.login_session import LoginSession
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.session import Session
from sowline_query_service.context import ServiceContext
from sowline_query_service.server.commands import ServiceCommands


def session_of(context: ServiceContext, outbox: Outbox, login: LoginSession | None = None) -> Session:
    """Return the session of one client, whose messages go into the outbox."""
    login = login or LoginSession()
    return Session(ServiceCommands(context, outbox, login), outbox, login)
