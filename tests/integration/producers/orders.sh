# sh orders.sh BOOTSTRAP TOPIC: write records to a Kafka topic, from one file per command.
# A line is a Kafka key, a tab and a value.
set -e

produce() { kcat -P -b "$bootstrap" -t "$topic" -X enable.idempotence=true "$@"; }
bootstrap=$1 topic=$2

produce -K '\t' -H sow.correlation=import < publish.tsv
produce -K '\t' -H sow.correlation=change -H sow.command=delta_publish < delta_publish.tsv
produce -K '\t' -H sow.command=sow_delete < sow_delete.tsv
produce -K '\t' -Z < gone.tsv        # lines without a value: a null, which deletes what the key names
produce < unkeyed.json               # bodies alone
