"""Reason codes of how clients and services reach each other."""

from contract.reasons.reason import Reason

ACCESS = (
    Reason(
        "auth failure",
        "expected a client certificate, got none",
        "The token or the client certificate is invalid.",
        "Get a new token. The [service's log](security.md#refused-logons) shows the cause.",
    ),
    Reason(
        "auth unavailable",
        "the keys for checking tokens are not available; retry later, or ask the operator",
        "The service can't fetch the keys that verify tokens, or the client's token function failed.",
        "Retry later. If the error persists, let the service reach [`jwt.jwks`](security.md#json-web-tokens), or"
        " correct the token function.",
    ),
    Reason(
        "behind",
        "this replica is at orders:0@1187, before the bookmark; retry later",
        "The replica, or in Spark the changes topic, hasn't reached the bookmark yet. For a write, the command is"
        " in the log, but wasn't applied within 30 s.",
        "Retry a read, but not a write: it will be applied. If the error persists, see the [runbooks](runbooks.md).",
    ),
    Reason(
        "busy",
        "this user already has 100 connections, the limit; close one",
        "You have reached a limit on connections, commands, requests, waiting queries or unread results.",
        "Wait for responses before you send more, close connections, or use another query service.",
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
        "The query service holds only a [shard](deploy.md#shards-and-gateways).",
        "Set `--url`, `SOWLINE_URL` or the client's URL to a gateway's.",
    ),
    Reason(
        "internal",
        "the query could not be answered: KeyError; the log of the query service has the details",
        "You have found a bug in Sowline.",
        "Report the details in the [log](logs.md).",
    ),
    Reason(
        "logon expired",
        "the token or certificate of the logon has expired; log on again",
        "The token or certificate of the [logon](api.md#logon) has expired.",
        "Connect again with a new token.",
    ),
    Reason(
        "logon required",
        "expected the command logon with a token first, got another",
        "The service has an [access file](security.md), and this client hasn't [logged on](api.md#logon).",
        "[Send a token](security.md#sending-a-token), or connect with a client certificate.",
    ),
    Reason(
        "no client",
        "expected the id of a connected client, got 17",
        "No client with this id is connected.",
        "Get the ids from `GET /v1/clients`. A client that reconnects gets a new id.",
    ),
    Reason(
        "not connected",
        "nothing listens at http://127.0.0.1:8080: is `sowline up` running?",
        "No service responds at that address.",
        "Start the service, or correct `--url`, `SOWLINE_URL` or the client's URL.",
    ),
    Reason(
        "not entitled",
        "expected a pattern of topics that you may read (orders), got ^o",
        "This user [may not read or write](entitlements.md) the topic, the record or the field.",
        "Ask the operator for a role with access.",
    ),
    Reason(
        "not read",
        "expected the client to read at least 256 KiB of its answers in 10 seconds while other queries wait, got"
        " less; read faster, or ask for less at once",
        "The client read too little of its results within `SOWLINE_QUERY_UNREAD_SECONDS_MAX` while other queries"
        " waited for [their turn](queries.md#turns).",
        "Read results as they arrive, in a separate thread if processing takes long.",
    ),
    Reason(
        "not ready",
        "topic orders is still being loaded; retry shortly",
        "The service is still loading the topic, or Kafka didn't deliver a timeline in time.",
        "Retry later. `/readyz` shows what the service waits for.",
    ),
    Reason(
        "origin refused",
        "a page of 'https://other.example' may not send requests here; if you trust it, add it to SOWLINE_ORIGINS",
        "The request comes from a web page that [may not use this service](security.md#origins), or names"
        " another host.",
        "Add the origin of the page or host, such as `https://desk.example`, to `SOWLINE_ORIGINS`.",
    ),
    Reason(
        "replaced",
        "subscription 's1' was replaced before this command began",
        "Another command replaced the subscription before this one began.",
        "Follow the newer command's messages, which have the same `sub_id`.",
    ),
    Reason(
        "replica broken",
        "orders.changes [0]: expected what follows 1187, got 1190 after 1189",
        "A query service found a gap in the changes, or couldn't read them, and stopped.",
        "Restart the service. If this recurs, report the log.",
    ),
    Reason(
        "request timeout",
        "expected the whole request within SOWLINE_REQUEST_SECONDS_MAX; send it again",
        "An HTTP request took longer to arrive than `SOWLINE_REQUEST_SECONDS_MAX`, or the response didn't arrive"
        " in time.",
        "If the response is missing, check whether a write was applied before you send it again.",
    ),
    Reason(
        "rights changed",
        "this user's rights have changed; open a new connection",
        "The user's rights have changed, or a new token belongs to another user.",
        "Connect again and read a new snapshot: [don't resume](api.md#logon) from a bookmark.",
    ),
    Reason(
        "shard unavailable",
        "no query service answers for these partitions now: orders 0, 2. Retry later, or start their shards",
        "A [gateway](deploy.md#shards-and-gateways) found no query service for some partitions, or lost one.",
        "If the error persists, check `nodes` in the gateway's `/status`.",
    ),
    Reason(
        "stale",
        "expected a state of at most 0.5 s behind the log, but it is 12.340 s behind; retry later, or allow more",
        "The service is further behind the log than `max_staleness` allows, or its lag is unknown.",
        "If the error persists, see [SowlineAnswersOld](runbooks.md#sowlineanswersold).",
    ),
)
