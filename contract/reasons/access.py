"""Reason codes of how clients and services reach each other."""

from contract.reasons.reason import Reason

ACCESS = (
    Reason(
        "auth failure",
        "expected a client certificate, got none",
        "The token or the client certificate is not valid. The answer does not say why.",
        "Get a new token. The [log of the service](security.md#refused-logons) has the cause.",
    ),
    Reason(
        "auth unavailable",
        "the keys for checking tokens are not available; retry later, or ask the operator",
        "The service can't get the keys that it checks tokens with, or the function that gives a client its"
        " tokens failed.",
        "Retry. If it lasts, check that the service reaches the issuer's key endpoint, or fix the function.",
    ),
    Reason(
        "behind",
        "this replica is at orders:0@1187, before the bookmark; retry later",
        "The replica has not reached the bookmark; in Spark, the changes topic has not. For a write: the"
        " command is on the log, but was not applied within 30 s.",
        "Nothing is lost. Retry a read. Do not repeat a write: it will be applied. If it lasts, check that a"
        " materializer runs, and how far it is behind: [runbooks](runbooks.md).",
    ),
    Reason(
        "busy",
        "this user already has 100 connections, the limit; close one",
        "A limit on connections, on commands in flight, on requests, on commands a second, on queries that wait,"
        " or on unread answers is reached.",
        "Wait for an answer before you send more, close connections, or use another query service.",
    ),
    Reason(
        "disconnected",
        "the connection was lost while the query ran; run it again",
        "The client was closed, or its connection was lost while a query ran.",
        "Run the query again. Subscriptions resume by themselves.",
    ),
    Reason(
        "gateway required",
        "expected a gateway: this query service holds only shard 2/8 of the topics; connect to a gateway",
        "The query service holds some partitions of each topic ([shards](deploy.md#shards-and-gateways)). Its answers"
        " would lack the others.",
        "Connect to a gateway, which asks all shards.",
    ),
    Reason(
        "internal",
        "the query could not be answered: KeyError; the log of the query service has the details",
        "A defect of Sowline.",
        "Look up the details in the [log of the query service](logs.md), and report them.",
    ),
    Reason(
        "logon expired",
        "the token or certificate of the logon has expired; log on again",
        "The token or the certificate of the [logon](api.md#logon) has expired. The service closes the"
        " connection.",
        "Connect again with a new token.",
    ),
    Reason(
        "logon required",
        "expected the command logon with a token as the first command",
        "The service has an [access file](security.md), and this client has not [logged on](api.md#logon).",
        "Send a token with the handshake or with `logon`.",
    ),
    Reason(
        "no client",
        "expected the id of a connected client, got 17",
        "No client with this id is connected to this query service.",
        "Read the ids from `GET /v1/clients`; a client that reconnects has another one.",
    ),
    Reason(
        "not connected",
        "nothing listens at http://127.0.0.1:8080: is `sowline up` running?",
        "No service answers at that address.",
        "Check the address, and that the service runs.",
    ),
    Reason(
        "not entitled",
        "the pattern '^o' matches topics that you may not read; you may read: orders",
        "This user [may not read or write](entitlements.md) the topic, the record or the field.",
        "Ask the operator for a role that may.",
    ),
    Reason(
        "not read",
        "expected the client to read at least 256 KiB of its answers in 10 seconds while other queries wait, got"
        " less; read faster, or ask for less at once",
        "The client read less than 256 KiB of its answers within `SOWLINE_QUERY_UNREAD_SECONDS_MAX`, and the query"
        " kept others from [running](queries.md#turns).",
        "Read answers as they come, in a thread of their own if the work with them takes long, or use `top_n`.",
    ),
    Reason(
        "not ready",
        "topic orders is still being loaded; retry shortly",
        "The service still loads the topic, or Kafka did not deliver a timeline in time.",
        "Retry after a moment. `/readyz` says what the service waits for.",
    ),
    Reason(
        "origin refused",
        "a page of 'https://other.example' may not send requests here; if you trust it, add it to SOWLINE_ORIGINS",
        "The request comes from a web page that [may not use this service](security.md#origins), or names"
        " another host.",
        "Add the origin to `SOWLINE_ORIGINS`.",
    ),
    Reason(
        "replaced",
        "subscription 's1' was replaced before this command began",
        "Another command replaced the subscription before this one began.",
        "None is needed.",
    ),
    Reason(
        "replica broken",
        "orders.changes [0]: expected what follows 1187, got 1190 after 1189",
        "The replica of a query service found a hole in the changes, or could not follow them. The service"
        " stops, because it would answer wrongly.",
        "Restart the query service: it loads its replica again. If it happens again, report its log.",
    ),
    Reason(
        "request timeout",
        "expected the whole request within SOWLINE_REQUEST_SECONDS_MAX; send it again",
        "An HTTP request took longer to arrive than `SOWLINE_REQUEST_SECONDS_MAX`, and the service closed the"
        " connection. Or a client or command waited too long for the answer to its request.",
        "If the request did not arrive, send it again. If its answer did not, look first whether a write was applied,"
        " and whether the service is busy.",
    ),
    Reason(
        "rights changed",
        "this user's rights have changed; open a new connection",
        "The connection would get another user or other rights.",
        "Open a new connection.",
    ),
    Reason(
        "shard unavailable",
        "no query service answers for these partitions now: orders 0, 2. Retry later, or start their shards",
        "A [gateway](deploy.md#shards-and-gateways) found no query service for partitions that the request needs, or"
        " lost one while it answered.",
        "Retry. If it lasts, look at `nodes` in the gateway's `/status`: it shows which query services answer.",
    ),
    Reason(
        "stale",
        "expected a state of at most 0.5 s behind the log, but it is 12.340 s behind; retry later, or allow more",
        "The service's state is further behind the log than the read allows with `max_staleness`, or how far is not"
        " known.",
        "Retry, allow more, or omit `max_staleness`. If it lasts, find out what is behind: [SowlineAnswersOld]"
        "(runbooks.md#sowlineanswersold).",
    ),
)
