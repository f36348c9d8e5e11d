import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Nexmark's queries 0 to 2 over a table of bids, until it is ended: each to a topic of its own.
 *
 * <p>{@code java Nexmark BOOTSTRAP BIDS Q0 Q1 Q2 STATE_DIRECTORY APPLICATION}. Each update goes on, because the cache is
 * off.
 */
public final class Nexmark {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final double EURO = 0.908;
    private static final int SELECTED = 123;

    private static final Serde<ObjectNode> BODIES = Serdes.serdeFrom(
        (topic, body) -> body == null ? null : written(body), (topic, bytes) -> bytes == null ? null : read(bytes));

    private static byte[] written(ObjectNode body) {
        try {
            return JSON.writeValueAsBytes(body);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static ObjectNode read(byte[] bytes) {
        try {
            return (ObjectNode) JSON.readTree(bytes);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static ObjectNode converted(ObjectNode bid) {
        ObjectNode result = bid.deepCopy().retain("auction", "bidder", "dateTime", "extra");
        return result.put("price", EURO * bid.get("price").asLong());
    }

    public static void main(String[] arguments) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<byte[], ObjectNode> bids = builder.table(arguments[1], Consumed.with(Serdes.ByteArray(), BODIES));
        KTable<byte[], ObjectNode> converted = bids.mapValues(Nexmark::converted);
        KTable<byte[], ObjectNode> selected = bids
            .filter((id, bid) -> bid.get("auction").asLong() % SELECTED == 0)
            .mapValues(bid -> bid.deepCopy().retain("auction", "price"));
        Produced<byte[], ObjectNode> written = Produced.with(Serdes.ByteArray(), BODIES);
        bids.toStream().to(arguments[2], written);
        converted.toStream().to(arguments[3], written);
        selected.toStream().to(arguments[4], written);
        Properties properties = new Properties();
        properties.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.STATE_DIR_CONFIG, arguments[5],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[6],
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0,
            StreamsConfig.REPLICATION_FACTOR_CONFIG, 1,
            StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest"));
        KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        Thread.currentThread().join();
    }
}
