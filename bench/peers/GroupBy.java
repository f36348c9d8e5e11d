import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The view of `bench.views` in Kafka Streams: a table of orders, filtered and aggregated by two fields, until it is
 * ended.
 *
 * <p>{@code java GroupBy BOOTSTRAP SOURCE [REGIONS] TARGET STATE_DIRECTORY APPLICATION}. With REGIONS, the region of an
 * order comes from a left join with that table. Each update goes on, because the cache is off. The source topic is the
 * changelog of the table. All else is as in `Merge.java`.
 */
public final class GroupBy {
    private static final ObjectMapper JSON =
        new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    private static final Set<String> COUNTED = Set.of("open", "working");

    /** What the view reads of an order. */
    public record Order(String customer, String region, String status, long qty, long updated) {
        Order in(Home home) {
            return new Order(customer, home == null ? null : home.region(), status, qty, updated);
        }
    }

    /** A record with the region of an order. */
    public record Home(String region) { }

    /** What orders are grouped by. */
    public record Group(String customer, String region) { }

    /** A record of the view. */
    public record Result(String customer, String region, long orders, long qty, long latest) { }

    /** The totals of a group. A maximum that can be subtracted from needs all values, each with its count. */
    private static final class Totals {
        private static final int FIXED_BYTES = 2 * Long.BYTES;
        private static final int VALUE_BYTES = Long.BYTES + Integer.BYTES;

        private long orders;
        private long qty;
        private final TreeMap<Long, Integer> updated = new TreeMap<>();

        Totals add(Order order) {
            orders++;
            qty += order.qty();
            updated.merge(order.updated(), 1, Integer::sum);
            return this;
        }

        /** Returns null for the group that loses its last order: then it leaves the table. */
        Totals subtract(Order order) {
            orders--;
            qty -= order.qty();
            updated.computeIfPresent(order.updated(), (value, count) -> count == 1 ? null : count - 1);
            return orders == 0 ? null : this;
        }

        Result of(Group group) {
            return new Result(group.customer(), group.region(), orders, qty, updated.lastKey());
        }

        /** Binary, because JSON of the sorted map would cost more than all the rest. */
        byte[] bytes() {
            ByteBuffer buffer = ByteBuffer.allocate(FIXED_BYTES + updated.size() * VALUE_BYTES);
            buffer.putLong(orders).putLong(qty);
            updated.forEach((value, count) -> buffer.putLong(value).putInt(count));
            return buffer.array();
        }

        static Totals read(byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            Totals totals = new Totals();
            totals.orders = buffer.getLong();
            totals.qty = buffer.getLong();
            while (buffer.hasRemaining()) {
                totals.updated.put(buffer.getLong(), buffer.getInt());
            }
            return totals;
        }
    }

    private static <T> Serde<T> json(Class<T> type) {
        return Serdes.serdeFrom((topic, value) -> value == null ? null : written(value),
            (topic, bytes) -> bytes == null ? null : read(bytes, type));
    }

    private static byte[] written(Object value) {
        try {
            return JSON.writeValueAsBytes(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static <T> T read(byte[] bytes, Class<T> type) {
        try {
            return JSON.readValue(bytes, type);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Serde<Order> orders = json(Order.class);
        Serde<Group> groups = json(Group.class);
        Serde<Totals> totals = Serdes.serdeFrom((topic, value) -> value == null ? null : value.bytes(),
            (topic, bytes) -> bytes == null ? null : Totals.read(bytes));
        String[] topics = Arrays.copyOfRange(arguments, 1, arguments.length - 2);
        StreamsBuilder builder = new StreamsBuilder();
        KTable<byte[], Order> table = builder.table(topics[0], Consumed.with(Serdes.ByteArray(), orders));
        if (topics.length > 2) {
            table = table.leftJoin(
                builder.table(topics[1], Consumed.with(Serdes.ByteArray(), json(Home.class))), Order::in);
        }
        table.filter((id, order) -> COUNTED.contains(order.status()))
            .groupBy((id, order) -> KeyValue.pair(new Group(order.customer(), order.region()), order),
                Grouped.with(groups, orders))
            .aggregate(Totals::new, (group, order, all) -> all.add(order), (group, order, all) -> all.subtract(order),
                Materialized.with(groups, totals))
            .toStream()
            .mapValues((group, all) -> all == null ? null : all.of(group))
            .to(topics[topics.length - 1], Produced.with(groups, json(Result.class)));
        Properties properties = properties(arguments);
        KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(
            CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP))));
        streams.start();
        Thread.currentThread().join();
    }

    private static Properties properties(String[] arguments) {
        Properties properties = new Properties();
        properties.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.STATE_DIR_CONFIG, arguments[arguments.length - 2],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[arguments.length - 1],
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE,
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0,
            StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS,
            StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2,
            StreamsConfig.REPLICATION_FACTOR_CONFIG, 1));
        properties.putAll(Map.of(
            // The regions are older than the orders, and so come first, if a task waits for both.
            StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, 10_000,
            StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest",
            StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4",
            StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 20,
            StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 1 << 18));
        properties.put(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG,
            Boolean.getBoolean(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG));
        return properties;
    }
}
