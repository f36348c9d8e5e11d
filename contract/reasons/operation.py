"""Reason codes of running services, and commands for operators."""

from contract.reasons.reason import Reason

OPERATION = (
    Reason(
        "already running",
        "pid 4711, http://127.0.0.1:8080; it uses /home/ann/var",
        "Another `sowline up` or local broker uses the data directory.",
        "Use the running one, stop it, or give this one another `--data-dir`.",
    ),
    Reason(
        "backup damaged",
        "the backup in /backups/orders can't be restored: 3.records: its checksum differs; use another backup",
        "A file of the backup has changed since it was written.",
        "Copy the backup again from an intact source, or restore an earlier one.",
    ),
    Reason(
        "bad checkpoint",
        "expected the numbers of the files before micro-batch 4 in checkpoints/orders/ordinals, got none: this"
        " checkpoint was made by something else; give a new one, and another publisher",
        "The checkpoint of a Spark stream contains no row numbers.",
        "Set `checkpoint` to an empty directory. Change `publisher`, or rows would count as"
        " [repeats](pipeline.md#exactly-once-in-effect).",
    ),
    Reason(
        "bad configuration",
        "topics.yaml, line 7: color: expected a known field",
        "`topics.yaml`, a pipeline file or a setting is wrong.",
        "Correct the line or setting. Check files with `sowline plan` or `sowline pipeline validate` before you"
        " deploy them.",
    ),
    Reason(
        "changes incomplete",
        "orders.changes [0] ends within a batch, and the rest has not arrived. Start a materializer, and try again",
        "The changes topic contains no positions, has lost its first changes, or ends within a batch.",
        "Follow the message, or start a materializer and try again.",
    ),
    Reason(
        "changes present",
        "expected an empty topic orders.changes, found changes in partition 0. Delete it to replace the state"
        " that it holds, or restore under another name",
        "A backup can be restored only into an empty changes topic.",
        "Stop the materializers, delete the changes topic, and [restore](operate.md#backup-and-restore) again.",
    ),
    Reason(
        "changes replaced",
        "orders.changes was deleted and created again while it was read. Start again",
        "The changes topic was deleted and created again while a service read it.",
        "Run the command again. If a service doesn't recover, restart it.",
    ),
    Reason(
        "check failed",
        "qty > 0",
        "A check of a [pipeline](pipeline-file.md) rejected a row, which becomes a dead letter.",
        "Correct the row at its source, or the check, and run the pipeline on it again.",
    ),
    Reason(
        "definition changed",
        "expected topic orders as it was defined when the state of orders [0] was made, got another definition."
        " Restore topics.yaml, or run sowline rebuild",
        "The stored state, the backup or the fanout's output belongs to another definition of the topic.",
        "Restore the definition, or [rebuild](operate.md#rebuilding) the topic. Give a fanout a new name.",
    ),
    Reason(
        "directory taken",
        "expected a new directory for the backup, but /backups/orders is there",
        "A backup needs a new directory.",
        "Name another directory, or delete this one.",
    ),
    Reason(
        "disk full",
        "expected room in /tmp for the topic's largest partition, up to three times: No space left on device."
        " Name another directory in TMPDIR",
        "A command has no space for its temporary files.",
        "Free space, or set `TMPDIR` to a directory on a larger disk.",
    ),
    Reason(
        "gap",
        "expected a group of 3 records, got 2",
        "The next changes for a fanout were deleted, or a client's local view missed a message.",
        "Delete the fanout's consumer group: it starts again with the current records. In a client, create another"
        " local view and report the error.",
    ),
    Reason(
        "log incomplete",
        "orders [0]: offsets 0 to 4711 are gone and were never applied. To continue without them, start with"
        " --accept-loss",
        "Kafka deleted log records before a materializer applied them.",
        "Check the retention of the log.",
    ),
    Reason(
        "no backup",
        "expected a backup in /backups/orders, found no manifest.json: No such file or directory",
        "The directory holds no complete backup.",
        "Name a directory that `sowline backup` made. If it was interrupted, run it again.",
    ),
    Reason(
        "no descriptors",
        "expected more descriptors: too many open files. Raise the limit (ulimit -n)",
        "A command must open more files than the process may.",
        "Run `ulimit -n $(ulimit -Hn)` first, or `dump` and `verify` with `--partition`.",
    ),
    Reason(
        "no documents",
        "expected documents: true in the definition of topic orders, for a delta",
        "The command or option is only for [documents](emodb.md).",
        "Omit the option, replace `delta` by `delta_publish`, or set `documents: true` and"
        " [rebuild](operate.md#rebuilding).",
    ),
    Reason(
        "no jars",
        "expected Ivy to fetch kafka from Maven Central, but it failed: check the network and run again, or"
        " name a mirror's Ivy settings in SOWLINE_IVY_SETTINGS",
        "Sowline can't download Kafka's or Spark's JAR files, or Ivy, which fetches them.",
        "Check the connection, or set `SOWLINE_IVY_SETTINGS` to the Ivy settings of a mirror.",
    ),
    Reason(
        "no java",
        "expected Java 17 or 21, but there is no java on PATH: install a JDK",
        "Java 17 or 21 isn't installed.",
        "Install a JDK, or set `JAVA_HOME`.",
    ),
    Reason(
        "no kafka",
        "the local Kafka broker did not start; its messages are above",
        "The local broker didn't start, or the given Kafka doesn't respond.",
        "Read the broker's messages, or correct `--kafka` or `SOWLINE_KAFKA`.",
    ),
    Reason(
        "no port",
        "expected a free port at 127.0.0.1:8080, got: Address already in use; stop the program that uses it, or give"
        " another",
        "Another program uses the port, or no port is free.",
        "Set another `--port`; `sowline up --port auto` finds one.",
    ),
    Reason(
        "no pyspark",
        "expected PySpark: install it with pip install 'sowline[spark]', or in a clone pip install '.[spark]'",
        "PySpark is not installed.",
        "Install the `spark` [extra](install.md#client-or-server).",
    ),
    Reason(
        "no server",
        "expected the packages of the services, but rocksdict, uvicorn can't be imported: install them with"
        " pip install 'sowline[server]', or in a clone pip install '.[server]'",
        "Only the client and the commands that send requests are installed.",
        "Install the `server` [extra](install.md#client-or-server).",
    ),
    Reason(
        "not registered",
        "expected to register a schema under fanout.late-value, but the registry answered 409: incompatible",
        "The schema registry rejected a schema.",
        "Register it manually, or change the subject's compatibility level.",
    ),
    Reason(
        "not started",
        "the query service ended; its messages are above",
        "A service of the local stack didn't start.",
        "Correct the problem in the service's messages, and run `sowline up` again.",
    ),
    Reason(
        "not supported",
        "expected a subscription that runs, got a paused one: resume it first",
        "The command is valid, but not in this combination or for this topic.",
        "Follow the message. See also what [gateways](gateway.md#how-gateways-differ), [native"
        " records](api.md#native-records), and [pages and groups](api.md#pages-and-groups) don't support.",
    ),
    Reason(
        "partials missing",
        "expected partial states of orders [0] from 1187 on, got those after 1250: run sowline rebuild exposure",
        "Messages in the log of a view were deleted before they were applied.",
        "Restart the `views` service, or [rebuild](operate.md#rebuilding) the view.",
    ),
    Reason(
        "pipeline failed",
        "the column amount can't be cast to INT",
        "Spark failed while running a pipeline.",
        "Correct the file or the input, and start the pipeline again: it continues from its checkpoint.",
    ),
    Reason(
        "registry away",
        "expected a schema registry to answer, but: connection refused",
        "The schema registry gave no definite response. Messages that need it wait.",
        "Start the registry, or correct `SOWLINE_REGISTRY`.",
    ),
    Reason(
        "schema compiler away",
        "expected the compiler of Protobuf schemas to run, got exit status -9; check memory, disk space and the"
        " installation",
        "The compiler of `.proto` files can't run or finish. A materializer restarts until the compiler succeeds.",
        "Free memory or disk space, or reinstall the `protobuf` [extra](install.md#client-or-server).",
    ),
    Reason(
        "state damaged",
        "orders [0] can't be read. The next worker that opens it rebuilds it: from the changes, or the log",
        "A command can't read local state.",
        "Start the materializer, then try again. `sowline dump --from changes` needs no local state.",
    ),
    Reason(
        "state missing",
        "expected changes in orders.changes [0], found none: no materializer has had this partition yet, or the topic"
        " was deleted",
        "The directory has no state of this partition, or there are no changes yet.",
        "Run the command on the machine of the partition's owner (see [`sowline top`](operate.md#watching-services))."
        " If there are no changes, start a materializer.",
    ),
    Reason(
        "topic in use",
        "expected a name that topics.yaml no longer defines, got 'orders': remove it there first",
        "[`sowline drop`](definitions.md#removing-a-definition) deletes only what neither `topics.yaml` nor a service"
        " defines.",
        "Remove the definition, or stop the service that the message names, then try again.",
    ),
    Reason(
        "workers active",
        "expected no materializer to run, but group sowline has members. Stop them, and wait until the group is"
        " empty",
        "A restore or rebuild can't run beside materializers.",
        "Stop all materializers. A killed one remains a member until `SOWLINE_SESSION_TIMEOUT_MS` has passed.",
    ),
)
