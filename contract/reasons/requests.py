"""Reason codes of queries and subscriptions."""

from contract.reasons.reason import Reason

REQUESTS = (
    Reason(
        "bad column",
        "expected values of one type in the column price, got a fraction in record 17 and a string in record 42:"
        " choose its type in columns, such as text",
        "The values of a field don't fit into one column of a [table](data-frames.md), or a table would have too many"
        " columns.",
        "In [`columns`](data-frames.md#columns), list the fields that you need, and the type of each mixed one.",
    ),
    Reason(
        "bad condition",
        "expected ',' or ')' at column 7, got the end of the condition",
        "The text is not a valid document condition.",
        "Correct the text at that column: see [all conditions](emodb.md#conditions).",
    ),
    Reason(
        "bad filter",
        "expected an operand after > at column 7, got '>'",
        "The [filter](filters.md) can't be parsed, has a type error, or exceeds a limit.",
        "Correct the text at that column, or keep to the [limits](filters.md#errors-and-limits).",
    ),
    Reason(
        "bad frame",
        "expected a checkpoint for a stream, got none",
        "A [Spark](spark.md) data frame lacks a checkpoint, a publisher, or the column that numbers rows.",
        "Pass `checkpoint` and `publisher` to [`to_sow`](spark.md#writing-to_sow), and add `_source` with"
        " `source_of_kafka()` or `source_of_file()`.",
    ),
    Reason(
        "bad path",
        "expected a path like /order/qty, /legs[0] or [/any name], got '/order//qty' (wrong from column 7)",
        "A path to a field is invalid.",
        "Begin with `/`, and put paths with other characters [in brackets](filters.md#paths).",
    ),
    Reason(
        "bad regex topic",
        "expected a pattern in RE2's syntax, got '^(orders': missing ): (orders",
        "A topic that begins with `^` isn't a valid pattern, or exceeds the [pattern"
        " limits](filters.md#pattern-limits).",
        "Correct or shorten the [pattern](api.md#several-topics).",
    ),
    Reason(
        "bad request",
        "expected data to publish, got none",
        "The command isn't a JSON object or has an invalid field, or the HTTP request is malformed.",
        "Correct what the message names: see [the API](api.md).",
    ),
    Reason(
        "bad topic",
        "expected 4 partitions of Kafka topic orders, got 2: add partitions",
        "A Kafka topic can't be created, or its settings or partitions are unsuitable.",
        "Change the Kafka topic as the message says, or grant the [permission](platforms.md#required-permissions)."
        " `sowline doctor` checks every topic.",
    ),
    Reason(
        "bookmark_expired",
        "the changes after orders:0@17 are no longer kept one by one, or are too many to undo; start without a"
        " bookmark, or choose with bookmark_not_found=now, epoch or reset where to start instead",
        "Kafka no longer keeps every change after the bookmark, or a page, groups or a query would have to undo more"
        " than 20,000 changes.",
        "Read a new snapshot, or set [`bookmark_not_found`](bookmarks.md#expired-bookmarks). To keep changes longer,"
        " raise `resume_window`.",
    ),
    Reason(
        "history expired",
        "expected a time not before 20261121T120000Z, got 20261120T090000Z: orders no longer keeps its older"
        " history",
        "The topic no longer keeps its [history](history.md) for that time.",
        "Request a later time. To keep more from now on, raise the history's `window`.",
    ),
    Reason(
        "invalid ack type",
        "expected any of received, processed, completed, persisted, stats, got 'done'",
        "The command doesn't support this acknowledgement.",
        "Request only those in the [table](api.md#acknowledgements).",
    ),
    Reason(
        "invalid batch size",
        "expected a batch_size of 1 to 10000, got 0",
        "`batch_size` is out of range.",
        "Correct or omit it.",
    ),
    Reason(
        "invalid bookmark",
        "expected a bookmark like orders:0@1187,1@1203, got 'yesterday'",
        "The bookmark can't be parsed, or names a nonexistent log, partition or era.",
        "Correct its [form](bookmarks.md#forms-of-a-bookmark). If its log was replaced, begin without a bookmark.",
    ),
    Reason(
        "invalid grouping",
        "expected each path once, got /desk again at column 7",
        "The grouping is invalid.",
        "Correct the text at that column: see [examples](aggregation.md#errors-and-limits).",
    ),
    Reason(
        "invalid limit",
        "expected a limit of 1 to 1000, got 5000",
        "The `limit` of a timeline is out of range.",
        "For more than 1,000 writes, send several requests, each [ending earlier](api.md#timeline).",
    ),
    Reason(
        "invalid options",
        "expected rate=100 (messages a second), 64KB, 2MB or 2X, got 'fast'",
        "An option is unknown, has a wrong value, or conflicts with another.",
        "Correct or omit it: see [all options](api.md#options).",
    ),
    Reason(
        "invalid order by",
        "expected ASC, DESC, TEXT, ',' or the end after /qty at column 6, got 'UP'",
        "The [order](api.md#order) is invalid.",
        "Correct the text at that column, and list at most 16 fields.",
    ),
    Reason(
        "invalid projection",
        "expected output paths that don't overlap, got /sum over an earlier one at column 20",
        "The projection is invalid, or uses a function that projections don't support.",
        "Correct the text at that column: see [examples](aggregation.md#errors-and-limits).",
    ),
    Reason(
        "invalid skip_n",
        "expected a top_n together with skip_n, got none",
        "`skip_n` is negative, or comes without `top_n`.",
        "Set both to 0 or more.",
    ),
    Reason(
        "invalid subid",
        "expected a sub_id of this connection (one, several with commas, or all), got 7",
        "A command needs a `sub_id` or `query_id` of this connection.",
        "Name a subscription of this connection that hasn't ended.",
    ),
    Reason(
        "invalid top_n",
        "expected a top_n of 0 or more, got -1",
        "`top_n` is negative, or too large for a page.",
        "Set it to 0 or more and, for a page, to at most 10,000.",
    ),
    Reason(
        "invalid topic",
        "expected a topic (orders, quotes), got 'order'",
        "The topic isn't defined, or is hidden from this user.",
        "Compare the name with `sowline topics`. [Define](topics.md) the topic, or ask for a role that may read it.",
    ),
    Reason(
        "no history",
        "expected a topic with a history, got orders; read the current records, or give the option current",
        "The topic keeps no [history](history.md).",
        "Define a `history`, omit the time, or set the `current` option.",
    ),
    Reason(
        "projection clause too large",
        "expected a projection of at most 65536 bytes, got 70000",
        "The projection exceeds 65,536 bytes.",
        "Request fewer fields at once.",
    ),
    Reason(
        "query aborted",
        "query 'q7' was ended by unsubscribe",
        "An `unsubscribe` with this query's `query_id` ended it.",
        "Discard its records. If you need the result, send the query again.",
    ),
    Reason(
        "query too long",
        "expected at most 5 seconds of work, got more; narrow the filter",
        "The query needs more work than `SOWLINE_QUERY_SECONDS_MAX` allows.",
        "Use an [index](topics.md#indexes), or raise the limit.",
    ),
    Reason(
        "queryid in use",
        "expected an unused query_id, got 'q7', which is still running",
        "A query with this `query_id` is still running on the connection.",
        "Choose another `query_id`, or wait until that query ends.",
    ),
    Reason(
        "regex topic not supported",
        "expected the name of one topic: a page or groups cover one topic",
        "Pages, groups, views and `publish` take exactly one topic.",
        "Send one command per topic.",
    ),
    Reason(
        "result too large",
        "expected at most 1000000 records, got more; narrow the filter, or ask for top_n",
        "The query returns more than `SOWLINE_RESULT_RECORDS_MAX` or `SOWLINE_RESULT_BYTES_MAX` allows.",
        "Narrow the filter, set `top_n`, [select](api.md#select) fewer fields, or raise the limit.",
    ),
    Reason(
        "subid in use",
        "expected an unused sub_id, got 's1'; unsubscribe it first, or set the option replace",
        "The connection already has a subscription with this `sub_id`.",
        "Choose another `sub_id`, or set [`replace`](api.md#replacing-a-subscription).",
    ),
    Reason(
        "too many groups",
        "expected at most 100000 groups, got one more (group by a field with fewer values, or filter the"
        " records)",
        "The query or subscription has more than 100,000 groups. A subscription then ends.",
        "Group by fewer fields or coarser values, such as a day instead of a time.",
    ),
    Reason(
        "too many keys",
        "expected at most 100000 sow_keys, got 120000",
        "The command contains more than 100,000 `sow_keys`.",
        "Send several commands, or select by `filter`.",
    ),
    Reason(
        "too many records",
        "expected an update, or less than 250 records in partition 0 (1000 in all), got a new record where"
        " there are 250",
        "A new record would exceed the topic's `records_max`.",
        "Delete records, let them expire, or raise `records_max`.",
    ),
    Reason(
        "too many subscriptions",
        "expected at most 10000 subscriptions on one connection, got one more",
        "The connection already has 10,000 subscriptions.",
        "Open another connection.",
    ),
    Reason(
        "views too large",
        "expected live pages and groups on one connection to take at most 512 MiB of memory, got 560 MiB with this"
        " one; narrow the filter, unsubscribe others, or let several share one filter and order",
        "The live pages and groups of a connection, a user or the service need more memory than their"
        " [limit](queries.md#memory-of-live-pages-and-groups).",
        "Do so, or raise `SOWLINE_VIEW_BYTES_PER_CONNECTION_MAX` and the limits above it.",
    ),
)
