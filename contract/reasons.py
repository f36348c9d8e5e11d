"""Every reason code: what it means, and what to do. `docs/reasons.md` is made from this list.

Read it when an error, a dead letter or a failed command carries a code that you do not know. A test compares the list
with the codes that the product raises.
"""

from typing import NamedTuple


class Reason(NamedTuple):
    """A reason code, for a person who meets it: an `example` of a message; `meaning` and `cure` as Markdown."""

    code: str
    example: str
    meaning: str
    cure: str


REASONS = (
    Reason(
        "already running",
        "pid 4711, http://127.0.0.1:8080; it uses /home/ann/var",
        "Another `sowline up`, or another local broker, uses the data directory. Two of them would damage it.",
        "Use the one that runs, stop it, or give this one a `--data-dir` of its own.",
    ),
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
        "backup damaged",
        "the backup in /backups/orders can't be restored: 3.records: its checksum differs; use another backup",
        "A file of the backup differs from what the backup wrote.",
        "Restore another backup.",
    ),
    Reason(
        "bad checkpoint",
        "expected the numbers of the files before micro-batch 4 in checkpoints/orders/ordinals, got none: this"
        " checkpoint was made by something else; give a new one, and another publisher",
        "The checkpoint of a Spark stream has no record of how its rows were numbered. Another program made it.",
        "Use a new checkpoint directory and another publisher.",
    ),
    Reason(
        "bad condition",
        "expected ',' or ')' at column 7, got the end of the condition",
        "The text is not a condition in the [language of documents](emodb.md#conditions).",
        "Correct the text at the column that the message names.",
    ),
    Reason(
        "bad configuration",
        "topics.yaml, line 7: color: unknown field",
        "`topics.yaml`, a pipeline file or a setting is wrong.",
        "Correct the line or the variable that the message names. A service does not start before.",
    ),
    Reason(
        "bad definition",
        "expected a define without a Kafka key, got one",
        "A `define` command on the log is malformed. Only materializers write these commands.",
        "Find the program that writes to the log with `sow.command: define`, and stop it.",
    ),
    Reason(
        "bad delta",
        "expected a delta at column 11, got '}'",
        "The text is not a delta in the [language of documents](emodb.md).",
        "Correct the text at the column that the message names.",
    ),
    Reason(
        "bad filter",
        "expected an operand after > at column 7, got '>'",
        "The filter does not parse, has a wrong type, or is larger than allowed.",
        "Correct the filter at the column that the message names: [filters](filters.md).",
    ),
    Reason(
        "bad frame",
        "expected a checkpoint for a stream, got none",
        "A Spark data frame lacks what the writer needs: a checkpoint, a publisher, or the column that numbers"
        " rows.",
        "Add what the message names: [Spark](spark.md).",
    ),
    Reason(
        "bad header",
        "expected one selector, got a body together with sow.filter or sow.keys",
        "A log record has an unknown or malformed `sow.*` header, two selectors, or a header name that is not UTF-8.",
        "Correct the producer: [writing commands](kafka.md#writing-commands).",
    ),
    Reason(
        "bad key",
        "expected a string, an integer or a boolean in the key field /id, got an object",
        "A key field, a key from a publisher or a key from a generator has the wrong type, is too long, or has"
        " characters that a key can't have.",
        "Correct the value: [key text](kafka.md#writing-commands).",
    ),
    Reason(
        "bad message",
        "expected a message that docs/api.md describes, got b'{}': Object missing required field `command`",
        "A message on Kafka is not what its schema describes, has no frame, or is not of the topic's message type. Or"
        " a client got a message that it does not know: the service is newer, or something between them has changed"
        " the message.",
        "Correct the producer's serializer, its schema or the topic that it writes to: message types [with"
        " schemas](message-types.md) and [without](message-formats.md). Update the client, or remove what changes its"
        " messages.",
    ),
    Reason(
        "bad path",
        "expected a path like /order/qty, /legs[0] or [/any name], got '/order//qty' (wrong from column 7)",
        "A path to a field does not parse.",
        "Write paths as `/customer/name`.",
    ),
    Reason(
        "bad regex topic",
        "expected a pattern in RE2's syntax, got '^(orders': missing ): (orders",
        "A topic that begins with `^` is not a valid pattern, or exceeds the [limits of"
        " patterns](filters.md#limits-of-patterns).",
        "Correct or shorten the pattern. It follows RE2's syntax.",
    ),
    Reason(
        "bad request",
        "expected data to publish, got none",
        "The command is not a JSON object, or has an unknown or wrong field. Over HTTP: the request is"
        " malformed.",
        "Correct the field that the message names: [the API](api.md).",
    ),
    Reason(
        "bad row",
        "expected JSON of id STRING, qty INT, got [1]",
        "A [pipeline](pipeline-file.md) can't read a row of its source, or JSON can't hold a value of the row [as it"
        " is](pipeline.md#exact-values). The row is a dead letter.",
        "Correct the row at its source, and run the pipeline on it again.",
    ),
    Reason(
        "bad schema",
        'expected a schema of a record, got "string"',
        "A schema can't be read, or does not describe records.",
        "Correct the schema, or what it refers to.",
    ),
    Reason(
        "bad time",
        "expected a time from 1970 to the year 9999, in ms since 1970, got 1732658000000000: probably the producer"
        " sends microseconds or nanoseconds as milliseconds",
        "A log record has a time that no date can express, or none. Its producer gave the time.",
        "Correct the producer: Kafka takes times in ms since 1970. See"
        " [the time of a record](kafka.md#the-time-of-a-record).",
    ),
    Reason(
        "bad topic",
        "Kafka topic orders has 2 partitions; its definition says 4. Add partitions",
        "A Kafka topic can't be created, or its settings or partitions can't serve.",
        "Change the Kafka topic or its definition as the message says.",
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
        "bookmark_expired",
        "the changes after orders:0@17 are no longer kept one by one, or are too many to undo; start without a"
        " bookmark, or choose with bookmark_not_found=now, epoch or reset where to start instead",
        "The changes after the bookmark are no longer kept one by one, or a page, groups or a query would have"
        " to go back over more than 20,000 changes.",
        "Start without a bookmark, or set `bookmark_not_found`: [expired"
        " bookmarks](bookmarks.md#expired-bookmarks).",
    ),
    Reason(
        "busy",
        "this user already has 100 connections, the limit; close one",
        "A limit on connections, on commands in flight, on requests, on commands a second, on queries that wait,"
        " or on unread answers is reached.",
        "Wait for an answer before you send more, close connections, or use another query service.",
    ),
    Reason(
        "changes incomplete",
        "orders.changes [0] holds no position of its changes, or has lost the first of them, and there is no local"
        " state. Delete that topic: the materializer makes it again from the log",
        "The changes topic holds no position of its changes, has lost the first of them, or ends within a batch.",
        "Start a materializer, and try again. If a materializer reports it, delete the changes topic: it is made"
        " again from the log.",
    ),
    Reason(
        "changes present",
        "expected an empty topic orders.changes, found changes in partition 0. Delete it to replace the state"
        " that it holds, or restore under another name",
        "A backup can be restored only into an empty changes topic.",
        "Delete the changes topic if its state may be replaced, or restore under another name.",
    ),
    Reason(
        "changes replaced",
        "orders.changes was deleted and created again while it was read. Start again",
        "The changes topic was deleted and created again while a service read it.",
        "Start the service again.",
    ),
    Reason(
        "check failed",
        "qty > 0",
        "A check of a [pipeline](pipeline-file.md) refused a row. The row is a dead letter.",
        "Correct the row at its source, or the check.",
    ),
    Reason(
        "definition changed",
        "the state of topic orders was made under another definition. Restore key, key_domain, message_type,"
        " partitions, preprocessing, enrichment, documents, template, sow and framing in topics.yaml, or stop the"
        " materializers and run sowline rebuild",
        "The stored state, the backup or the fanout's output was made under another definition of the topic.",
        "Restore the definition in `topics.yaml`, or rebuild the state: [operating](operate.md).",
    ),
    Reason(
        "directory taken",
        "expected a new directory for the backup, but /backups/orders is there",
        "A backup needs a new directory, and this one exists.",
        "Name another directory.",
    ),
    Reason(
        "disconnected",
        "the connection was lost while the query ran; run it again",
        "The client was closed, or its connection was lost while a query ran.",
        "Run the query again. Subscriptions resume by themselves.",
    ),
    Reason(
        "disk full",
        "expected room in /tmp for the topic's largest partition, up to three times: No space left on device."
        " Name another directory in TMPDIR",
        "An operator's command has no room for its temporary files.",
        "Set `TMPDIR` to a directory with more room.",
    ),
    Reason(
        "gap",
        "fanout late is at 1187 in partition 0, but the changes after that were deleted: delete its consumer"
        " group, and it starts again with the current records",
        "The changes that a fanout needs next were deleted. Or a client's view lacks a message: a group has another"
        " number of records than its end names, or a delta is of a record that the view does not hold.",
        "Delete the fanout's consumer group. It starts again with the current records. Make a new view, and report"
        " what happened.",
    ),
    Reason(
        "gateway required",
        "expected a gateway: this query service holds only shard 2/8 of the topics; connect to a gateway",
        "The query service holds some partitions of each topic ([shards](deploy.md#shards-and-gateways)). Its answers"
        " would lack the others.",
        "Connect to a gateway, which asks all shards.",
    ),
    Reason(
        "history expired",
        "expected a time not before 20261121T120000Z, got 20261120T090000Z: orders no longer keeps its older"
        " history",
        "The topic no longer keeps its [history](history.md) for that time.",
        "Ask for a time from the one on that the message names.",
    ),
    Reason(
        "incompatible schema",
        "schema 7 of orders-value: expected an int at /qty, got a string",
        "The reader schema of the topic can't read what was written with this schema, or the options of its message"
        " type can't read the stored records.",
        "Register only schemas that the reader schema can read, or change the reader schema first: "
        "[schemas that change](message-types.md#schemas-that-change). Restore the"
        " [options](message-formats.md#options), or rebuild the topic.",
    ),
    Reason(
        "incomplete record",
        "expected /customer, which has no default, got a delta for a new record without it",
        "A delta has made a record that lacks a field which its schema requires.",
        "Publish the whole record first, or give the field a default in the schema.",
    ),
    Reason(
        "internal",
        "the query could not be answered: KeyError; the log of the query service has the details",
        "A defect of Sowline.",
        "Look up the details in the [log of the query service](logs.md), and report them.",
    ),
    Reason(
        "invalid ack type",
        "expected any of received, processed, completed, persisted, stats, got 'done'",
        "The command can't have this [acknowledgement](api.md#acknowledgements).",
        "Ask for one of those that the message lists.",
    ),
    Reason(
        "invalid batch size",
        "expected a batch_size of 1 to 10000, got 0",
        "`batch_size` is out of range.",
        "Use 1 to 10,000.",
    ),
    Reason(
        "invalid bookmark",
        "expected a bookmark like orders:0@1187,1@1203, got 'yesterday'",
        "The bookmark does not parse, or names a log, a partition or an era that does not exist.",
        "Use a bookmark that this topic has sent: [bookmarks](bookmarks.md).",
    ),
    Reason(
        "invalid grouping",
        "expected each path once, got /desk again at column 7",
        "The grouping does not parse, or names no field.",
        "Correct it: [aggregation](aggregation.md).",
    ),
    Reason(
        "invalid limit",
        "expected a limit of 1 to 1000, got 5000",
        "The `limit` of a timeline is out of range.",
        "Use 1 to 1,000.",
    ),
    Reason(
        "invalid options",
        "expected rate=100 (messages a second), 64KB, 2MB or 2X, got 'fast'",
        "An option is unknown, has a wrong value, or can't go together with another one.",
        "Correct the option that the message names: [the API](api.md).",
    ),
    Reason(
        "invalid order by",
        "expected ASC, DESC, TEXT, ',' or the end after /qty at column 6, got 'UP'",
        "The order does not parse.",
        "Correct it: [order](api.md#order).",
    ),
    Reason(
        "invalid projection",
        "expected output paths that don't overlap, got /sum over an earlier one at column 20",
        "The projection does not parse, or uses functions that can't stand there.",
        "Correct it: [aggregation](aggregation.md).",
    ),
    Reason(
        "invalid skip_n",
        "expected a top_n together with skip_n, got none",
        "`skip_n` is negative, or has no `top_n` with it.",
        "Give both, 0 or more.",
    ),
    Reason(
        "invalid subid",
        "expected a sub_id of this connection (one, several with commas, or all), got 7",
        "A command needs a `sub_id` or `query_id`, or names one that this connection does not have.",
        "Use the `sub_id` of a running subscription.",
    ),
    Reason(
        "invalid top_n",
        "expected a top_n of 0 or more, got -1",
        "`top_n` is negative, or too large for a page.",
        "Use a number within the limit.",
    ),
    Reason(
        "invalid topic",
        "expected a topic (orders, quotes), got 'order'",
        "The topic is not defined, or this user may not know it.",
        "Use one of the topics that the message lists.",
    ),
    Reason(
        "key changed",
        "expected 'a-17' or nothing in the key field /id, got 'a-18'",
        "A write would give a [document](emodb.md) another key in its key field.",
        "Leave the key field as it is, or write to the other key.",
    ),
    Reason(
        "key collision",
        "expected the key text 'a' under SOW key 15266929873826298676, got 'b'",
        "Two key texts have the same SOW key. For keys of 64 bits this is very rare.",
        "Change one of the keys. The first record is not harmed.",
    ),
    Reason(
        "key empty",
        "expected at least one character in the key field /id, got an empty string",
        "The only key field is an empty string.",
        "Give the key field a value.",
    ),
    Reason(
        "key generator failed",
        "expected a key from the generator acme, got ValueError: no account",
        "The topic's [key generator](key-generators.md) raised an exception.",
        "Fix the generator, or the record that it can't handle.",
    ),
    Reason(
        "key missing",
        "expected the key field /id, which the body does not have",
        "The record lacks a key field, or the publisher did not send the SOW key that this topic needs.",
        "Add the field or the key that the message names.",
    ),
    Reason(
        "key null",
        "expected a value in the key field /id, got null",
        "A key field is null.",
        "Give the key field a value.",
    ),
    Reason(
        "log incomplete",
        "orders [0]: offsets 0 to 4711 are gone and were never applied. To continue without them, start with"
        " --accept-loss",
        "Kafka deleted log records before a materializer applied them.",
        "Check the retention of the log topic. To accept the loss, start the materializer with `--accept-loss`.",
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
        "no backup",
        "expected a backup in /backups/orders, found no manifest.json: No such file or directory",
        "The directory holds no complete backup.",
        "Name the directory of a backup.",
    ),
    Reason(
        "no client",
        "expected the id of a connected client, got 17",
        "No client with this id is connected to this query service.",
        "Read the ids from `GET /v1/clients`; a client that reconnects has another one.",
    ),
    Reason(
        "no descriptors",
        "expected more descriptors: too many open files. Raise the limit (ulimit -n)",
        "An operator's command needs to open more files than the process may.",
        "Raise the limit with `ulimit -n`.",
    ),
    Reason(
        "no documents",
        "expected documents: true in the definition of topic orders, for a delta",
        "The command or the option is for [documents](emodb.md), and the topic does not hold documents.",
        "Use another topic, or define this one with `documents: true`.",
    ),
    Reason(
        "no history",
        "topic orders keeps no history, so it has no past records; read the current ones, or give the option"
        " current",
        "The topic keeps no [history](history.md), so it has no records of a past time.",
        "Ask for the current records, give the option `current`, or define `history` for the topic.",
    ),
    Reason(
        "no jars",
        "expected Ivy to fetch kafka from Maven Central, but it failed: check the network and run again, or"
        " name a mirror's Ivy settings in SOWLINE_IVY_SETTINGS",
        "The jars of Kafka or Spark can't be fetched.",
        "Follow the message: it has Ivy's reason.",
    ),
    Reason(
        "no java",
        "expected Java 17 or 21, but there is no java on PATH: install a JDK",
        "There is no Java 17 or 21.",
        "Install one, or set `JAVA_HOME`.",
    ),
    Reason(
        "no kafka",
        "the local Kafka broker did not start; its messages are above",
        "The local broker did not start, or the given Kafka does not answer.",
        "Check the address, and the messages of the broker above.",
    ),
    Reason(
        "no port",
        "expected a free port at 127.0.0.1:8080, got: Address already in use; stop the program that uses it, or give"
        " another",
        "Another program uses the port, or no port is free.",
        "Stop that program, or give another port.",
    ),
    Reason(
        "no pyspark",
        "expected PySpark: install it with pip install 'sowline[spark]'",
        "PySpark is not installed.",
        "Run `pip install 'sowline[spark]'`.",
    ),
    Reason(
        "no server",
        "expected the packages of the services, but rocksdict, uvicorn can't be imported: install them with"
        " pip install 'sowline[server]'",
        "The packages that services need are not installed. `pip install sowline` installs the client and the"
        " commands that send requests.",
        "Run `pip install 'sowline[server]'` where services run.",
    ),
    Reason(
        "no record",
        "expected the key of a record of orders, got 'a-17'",
        "There is no record with this key.",
        "Check the key.",
    ),
    Reason(
        "no sow",
        "expected a topic with a SOW, got ticks, which keeps no records",
        "The topic keeps no records, so there is nothing to query or delete.",
        "Subscribe to it, or define it without `sow: false`.",
    ),
    Reason(
        "not an object",
        "expected a JSON object, got an array",
        "The body is JSON, but not a JSON object.",
        "Send an object.",
    ),
    Reason(
        "not connected",
        "expected a query service at http://127.0.0.1:8080: connection refused",
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
        "not json",
        "expected a JSON object: unexpected character, expected a string key: line 1 column 10 (char 9)",
        "The body is not valid JSON.",
        "Correct the producer.",
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
        "not registered",
        "expected to register a schema under fanout.late-value, but the registry answered 409: incompatible",
        "The schema registry refuses a schema.",
        "Register the schema by hand, or change the subject's compatibility level in the registry.",
    ),
    Reason(
        "not started",
        "the query service ended; its messages are above",
        "A service of the local stack did not start.",
        "Read its messages above.",
    ),
    Reason(
        "not supported",
        "this subscription is paused: resume it first",
        "The command is valid, but not in this combination or for this topic.",
        "Use the alternative that the message names.",
    ),
    Reason(
        "not written",
        "Kafka has not acknowledged 12 commands within 30 s",
        "Kafka did not accept a message.",
        "Check the broker. Commands that were acknowledged before are safe.",
    ),
    Reason(
        "origin refused",
        "a page of 'https://other.example' may not send requests here; if you trust it, add it to SOWLINE_ORIGINS",
        "The request comes from a web page that [may not use this service](security.md#origins), or names"
        " another host.",
        "Add the origin to `SOWLINE_ORIGINS`.",
    ),
    Reason(
        "partials missing",
        "expected partial states of orders [0] from 1187 on, got those after 1250: run sowline rebuild exposure",
        "The log of a view lacks messages: they were deleted before they were applied. Those that follow are dead"
        " letters.",
        "Restart the `views` service: at its start it writes the states of all groups again. Or"
        " [rebuild](operate.md#rebuilding) the view.",
    ),
    Reason(
        "pipeline failed",
        "the column amount can't be cast to INT",
        "Spark failed while it ran a pipeline.",
        "The message has the cause.",
    ),
    Reason(
        "projection clause too large",
        "expected a projection of at most 65536 bytes",
        "The projection exceeds 65,536 bytes.",
        "Shorten it, or split the query.",
    ),
    Reason(
        "query aborted",
        "query 'q7' was ended by unsubscribe",
        "An `unsubscribe` with its `query_id` ended the query.",
        "None is needed.",
    ),
    Reason(
        "query too long",
        "expected at most 5 seconds of work; narrow the filter",
        "The query needs more work than `SOWLINE_QUERY_SECONDS_MAX` allows.",
        "Narrow the filter, use an [index](topics.md#indexes), or raise the limit.",
    ),
    Reason(
        "queryid in use",
        "query 'q7' is still running; give this one another query_id",
        "A query with this `query_id` still runs on the connection.",
        "Wait for it, or use another `query_id`.",
    ),
    Reason(
        "regex topic not supported",
        "expected the name of one topic: a page or groups cover one topic",
        "Pages, groups, views and publishes are for one topic each.",
        "Name one topic instead of a pattern.",
    ),
    Reason(
        "registry away",
        "expected a schema registry to answer, but: connection refused",
        "The schema registry gave no definite answer. What needs it waits, and nothing is lost.",
        "Start the registry, or correct `SOWLINE_REGISTRY`. The service continues by itself.",
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
        "result too large",
        "expected at most 1000000 records; narrow the filter, or ask for top_n",
        "The query returns more than `SOWLINE_RESULT_RECORDS_MAX` or `SOWLINE_RESULT_BYTES_MAX` allow.",
        "Narrow the filter, select fewer fields, or use `top_n`.",
    ),
    Reason(
        "rights changed",
        "this user's rights have changed; open a new connection",
        "The connection would get another user or other rights.",
        "Open a new connection.",
    ),
    Reason(
        "schema compiler away",
        "expected the compiler of Protobuf schemas to run, got exit status -9; check memory, disk space and the"
        " installation",
        "The compiler of `.proto` files can't run, or does not end. A materializer starts again until it can.",
        "Give the machine memory and disk space, or repair the installation of `sowline[protobuf]`.",
    ),
    Reason(
        "schema missing",
        "expected schema 7 in orders.schemas [0]: the owner of the partition has not applied the messages that name"
        " it. Try again once it has",
        "`<log>.schemas` lacks a schema that is needed to read the log or the state.",
        "Let the materializer apply the log, or name the schema that the state was made with as the `reader_schema`.",
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
    Reason(
        "state damaged",
        "orders [0] can't be read. The next worker that opens it rebuilds it: from the changes, or the log",
        "An operator's command can't read local state.",
        "Start a materializer: it rebuilds the state.",
    ),
    Reason(
        "state missing",
        "expected the state of orders [0] in data/orders/0, found none: another machine has it. Give its"
        " --data-dir, or take it --from changes",
        "The directory holds no state of this partition, or there are no changes yet.",
        "Name the right `--data-dir`, or read with `--from changes`.",
    ),
    Reason(
        "subid in use",
        "subscription 's1' already exists; unsubscribe it first, or set the option replace",
        "The connection already has a subscription with this `sub_id`.",
        "Use another `sub_id`, unsubscribe first, or give the option `replace`.",
    ),
    Reason(
        "too deep",
        "expected at most 500 levels of objects and arrays, got more",
        "The body has more than 500 levels of objects and arrays, or a delta merges more than 200.",
        "Send a flatter body.",
    ),
    Reason(
        "too large",
        "expected a record of at most 1048576 bytes, got 2000000",
        "The body exceeds `record_bytes_max`, or a request has more deltas than allowed.",
        "Send less at once, or raise `record_bytes_max`.",
    ),
    Reason(
        "too many groups",
        "expected at most 100000 groups, got one more (group by a field with fewer values, or filter the"
        " records)",
        "The read has more than 100,000 groups. A live one ends.",
        "Group by a field with fewer values, or narrow the filter.",
    ),
    Reason(
        "too many keys",
        "expected at most 100000 sow_keys, got 120000",
        "The command has more than 100,000 `sow_keys`.",
        "Send several commands.",
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
        "expected at most 10000 subscriptions on one connection",
        "The connection already has 10,000 subscriptions.",
        "Unsubscribe some, or open another connection.",
    ),
    Reason(
        "unknown command",
        "expected one of sow, subscribe, publish, got 'select'",
        "There is no such command.",
        "Use one that the message lists.",
    ),
    Reason(
        "unknown format",
        "expected state of format 1 or 2, got one of format 3, written by 0.3.0. It is left unchanged: run that"
        " version or a newer one; this is Sowline 0.1.0",
        "The state, change or backup has a [format](operate.md#the-stored-format) that this version does not"
        " know.",
        "Run the version that wrote it, or a newer one. Nothing was changed.",
    ),
    Reason(
        "unknown schema",
        "expected a schema that the registry has: register it before messages name it, and publish them again under"
        " its new id",
        "A message names a schema that the registry did not have when the message was applied.",
        "Register schemas before messages name them. Publish the messages again under the schema's new id.",
    ),
    Reason(
        "view",
        "expected partial states in the log of view exposure, got a publish: publish to the topics that it reads",
        "The log of a view has a command. The records of a view are computed, and can't be published.",
        "Find the program that writes to the log of the view. It should write to the topics that the view reads.",
    ),
    Reason(
        "views too large",
        "expected live pages and groups on one connection to take at most 512 MiB of memory, got 560 MiB with this"
        " one; narrow the filter, unsubscribe others, or let several share one filter and order",
        "The live pages and groups of a connection, of a user or of the service would need more memory than their"
        " [limit](queries.md#memory-of-live-views). A live one that has grown beyond it ends.",
        "Narrow the filter, unsubscribe pages that are not needed, or give pages the same filter and order: they then"
        " share one view. The operator may raise `SOWLINE_VIEW_BYTES_PER_CONNECTION_MAX` and the limits above it.",
    ),
    Reason(
        "workers active",
        "expected no materializer to run, but group sowline has members. Stop them, and wait until the group is"
        " empty",
        "Materializers run, and a restore or a rebuild must be alone.",
        "Stop them, and wait until their consumer group is empty.",
    ),
)
