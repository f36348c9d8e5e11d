import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The merging job in Kafka Streams' processor API, over a RocksDB store with a changelog, until it is ended.
 *
 * <p>{@code java Merge BOOTSTRAP SOURCE TARGET STATE_DIRECTORY APPLICATION}; how often it commits and all else
 * are its defaults, but for two threads (one for each partition) and a producer that is set for throughput. It prints
 * each state that the application comes to, and what a store has got back from its changelog.
 */
public final class Merge implements Processor<byte[], byte[], byte[], byte[]> {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], byte[]> store;

    @Override
    public void init(ProcessorContext<byte[], byte[]> given) {
        context = given;
        store = given.getStateStore("sow");
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
        byte[] merged = merged(record);
        store.put(record.key(), merged);
        context.forward(new Record<>(record.key(), merged, record.timestamp()));
    }

    private byte[] merged(Record<byte[], byte[]> record) {
        try {
            ObjectNode body = (ObjectNode) JSON.readTree(record.value());
            byte[] previous = record.headers().lastHeader("sow.command") == null ? null : store.get(record.key());
            if (previous == null) {
                return JSON.writeValueAsBytes(body);
            }
            ObjectNode whole = (ObjectNode) JSON.readTree(previous);
            whole.setAll(body);
            return JSON.writeValueAsBytes(whole);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        ByteArrayDeserializer in = new ByteArrayDeserializer();
        ByteArraySerializer out = new ByteArraySerializer();
        Topology topology = new Topology()
            .addSource("log", in, in, arguments[1])
            .addProcessor("merge", Merge::new, "log")
            .addStateStore(
                Stores.keyValueStoreBuilder(
                    Stores.persistentKeyValueStore("sow"), Serdes.ByteArray(), Serdes.ByteArray()),
                "merge")
            .addSink("merged", arguments[2], out, out, "merge");
        KafkaStreams streams = new KafkaStreams(topology, properties(arguments));
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.setGlobalStateRestoreListener(new Restored());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(
            CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP))));
        streams.start();
        Thread.currentThread().join();
    }

    /** Tells how many records each partition of the store has got back from its changelog. */
    private static final class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long begin, long end) { }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long offset, long records) { }

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long records) {
            System.out.println("RESTORED " + records);
        }
    }

    private static Properties properties(String[] arguments) {
        Properties properties = new Properties();
        properties.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.STATE_DIR_CONFIG, arguments[3],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[4],
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE,
            StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2,
            StreamsConfig.REPLICATION_FACTOR_CONFIG, 1,
            StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest",
            StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4",
            StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 20,
            StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 1 << 18));
        properties.put(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG,
            Boolean.getBoolean(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG));
        return properties;
    }
}
