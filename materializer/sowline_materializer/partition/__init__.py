"""One partition: opening and recovery, fencing, batches, and the commands its owner appends."""
