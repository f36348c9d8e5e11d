"""Reason codes of records, their messages and their schemas."""

from contract.reasons.reason import Reason

RECORDS = (
    Reason(
        "bad definition",
        "expected a define without a Kafka key, got one",
        "A `define` command in the log is malformed.",
        "Stop the program that writes it: only materializers may.",
    ),
    Reason(
        "bad delta",
        "expected a delta at column 11, got '}'",
        "The text is not a valid document delta.",
        "Correct the text at that column: see the [grammar](emodb.md#deltas).",
    ),
    Reason(
        "bad header",
        "expected one selector, got a body together with sow.filter or sow.keys",
        "A log record has an unknown or malformed `sow.*` header, two selectors, or a header name that isn't UTF-8.",
        "Correct the producer's [headers](kafka.md#writing-commands), and publish the command again.",
    ),
    Reason(
        "bad key",
        "expected a string, an integer or a boolean in the key field /id, got an object",
        "A key has the wrong type, is too long or contains invalid characters.",
        "Correct the [key text](kafka.md#writing-commands).",
    ),
    Reason(
        "bad message",
        "expected a message that docs/api.md describes, got b'{}': Object missing required field `command`",
        "A message in Kafka doesn't match its schema, has no frame, or isn't of the topic's message type ([with"
        " schemas](message-types.md), [without](message-formats.md)). Or a client received a message that it"
        " doesn't know.",
        "For a message in Kafka, correct the producer's serializer, schema or topic. Otherwise, update the client.",
    ),
    Reason(
        "bad row",
        "expected JSON of id STRING, qty INT, got [1]",
        "A [pipeline](pipeline-file.md) can't read a row, or JSON can't hold a value [as it"
        " is](pipeline.md#exact-values). The row becomes a dead letter.",
        "Correct the row at its source, and run the pipeline on it again.",
    ),
    Reason(
        "bad schema",
        'expected a schema of a record, got "string"',
        "A schema is invalid, or doesn't describe records.",
        "Correct the schema or its references.",
    ),
    Reason(
        "bad time",
        "expected a time from 1970 to the year 9999, in ms since 1970, got 1732658000000000: probably the producer"
        " sends microseconds or nanoseconds as milliseconds",
        "A log record has no [time](kafka.md#the-time-of-a-record), or one that is out of range.",
        "Correct the producer's timestamps, and publish the records again.",
    ),
    Reason(
        "incompatible schema",
        "schema 7 of orders-value: expected an int at /qty, got a string",
        "The topic's reader schema can't read messages of this schema, or the options of its message type can't"
        " read the stored records.",
        "[Change the reader schema](message-types.md#schema-changes) before you register such a schema. Restore"
        " the [options](message-formats.md#options), or rebuild the topic.",
    ),
    Reason(
        "incomplete record",
        "expected /customer, which has no default, got a delta for a new record without it",
        "A delta results in a record without a field that the schema requires.",
        "Publish the whole record first, or give the field a default.",
    ),
    Reason(
        "key changed",
        "expected 'a-17' or nothing in the key field /id, got 'a-18'",
        "A write would change the key field of a [document](emodb.md).",
        "Omit the key field. To rename a document, write it under its new key and delete the old one.",
    ),
    Reason(
        "key collision",
        "expected the key text 'a' under SOW key 15266929873826298676, got 'b'",
        "Two key texts have the same SOW key.",
        "Change one of the keys. The first record is unaffected.",
    ),
    Reason(
        "key empty",
        "expected at least one character in the key field /id, got an empty string",
        "The only key field is an empty string.",
        "Give the field a value, or choose another [key](topics.md#keys).",
    ),
    Reason(
        "key generator failed",
        "expected a key from the generator acme, got ValueError: no account",
        "The topic's [key generator](key-generators.md) raised an exception.",
        "Correct the message and publish it again, or correct the generator and run [`sowline dead"
        " retry`](client.md#dead-letters).",
    ),
    Reason(
        "key missing",
        "expected the key field /id, which the body does not have",
        "The record lacks a key field, or the publisher didn't send the SOW key.",
        "Send every key field or, if [publishers supply the keys](api.md#keys-supplied-by-publishers), the"
        " `sow_key`.",
    ),
    Reason(
        "key null",
        "expected a value in the key field /id, got null",
        "A key field is null.",
        "Give the field a string, an integer or a boolean.",
    ),
    Reason(
        "no record",
        "expected the key of a record of orders, got 'a-17'",
        "There is no record with this key.",
        "Check that you passed the [key text](kafka.md#writing-commands), not the SOW key.",
    ),
    Reason(
        "no sow",
        "expected a topic with a SOW, got ticks, which keeps no records",
        "The topic keeps no records to query or delete.",
        "Subscribe to it, or define it without `sow: false`.",
    ),
    Reason(
        "not an object",
        "expected a JSON object, got an array",
        "The body is JSON, but not a JSON object.",
        'Put the value in a field: `{"values": […]}`.',
    ),
    Reason(
        "not json",
        "expected a JSON object: unexpected character, expected a string key: line 1 column 10 (char 9)",
        "The body is not valid JSON.",
        "Correct the JSON: [UTF-8 without lone surrogates](kafka.md#writing-commands), and only finite numbers.",
    ),
    Reason(
        "not written",
        "Kafka has not acknowledged 12 commands within 30 s",
        "Kafka didn't accept a message.",
        "Check the broker. Acknowledged commands are safe.",
    ),
    Reason(
        "schema missing",
        "expected schema 7 in orders.schemas [0]: the owner of the partition has not applied the messages that name"
        " it. Try again once it has",
        "`<log>.schemas` lacks a schema that Sowline needs to read the log or the state.",
        "Let the materializer apply the log, or set the schema of the stored state as the `reader_schema`.",
    ),
    Reason(
        "too deep",
        "expected at most 500 levels of objects and arrays, got more",
        "The body has more than 500 levels of objects and arrays, or a delta merges more than 200.",
        "Flatten the body, or store its inner parts as strings.",
    ),
    Reason(
        "too large",
        "expected a record of at most 1048576 bytes, got 2000000",
        "The body exceeds `record_bytes_max`, or a request contains more deltas than allowed.",
        "Send less at once, or raise `record_bytes_max`.",
    ),
    Reason(
        "unknown command",
        "expected one of sow, subscribe, publish, got 'select'",
        "The command doesn't exist.",
        "Send one of [these commands](api.md#websocket-v1).",
    ),
    Reason(
        "unknown format",
        "expected state of format 1 to 3, got one of format 4, written by 0.3.0. It is left unchanged: run that"
        " version or a newer one; this is Sowline 0.1.0",
        "This version doesn't know the [format](operate.md#the-stored-format) of the state, change or backup.",
        "Start the version in the message, or a newer one.",
    ),
    Reason(
        "unknown schema",
        "expected a schema that the registry has: register it before messages name it, and publish them again under"
        " its new id",
        "The registry had no schema with the message's id when the message was applied.",
        "Register the schema, or correct `SOWLINE_REGISTRY`, and publish the message again.",
    ),
    Reason(
        "view",
        "expected partial states in the log of view exposure, got a publish: publish to the topics that it reads",
        "A program published to the log of a view.",
        "Publish to the topic that the view's [`from`](views.md#definitions) names.",
    ),
)
