import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
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
 * Nexmark's queries 0 to 4 over tables of persons, auctions and bids, until it is ended: each to a topic of its own.
 *
 * <p>{@code java Nexmark BOOTSTRAP PERSONS AUCTIONS BIDS Q0 Q1 Q2 Q3 Q4 STATE_DIRECTORY APPLICATION}. Each update goes
 * on, because the cache is off.
 */
public final class Nexmark {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final double EURO = 0.908;
    private static final int SELECTED = 123;
    private static final int CATEGORY = 10;
    private static final Set<String> STATES = Set.of("OR", "ID", "CA");

    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<ObjectNode> BODY = Serdes.serdeFrom(
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

    private static KTable<String, ObjectNode> converted(KTable<String, ObjectNode> bids) {
        return bids.mapValues(bid -> {
            ObjectNode result = bid.deepCopy().retain("auction", "bidder", "dateTime", "extra");
            return result.put("price", EURO * bid.get("price").asLong());
        });
    }

    private static KTable<String, ObjectNode> selected(KTable<String, ObjectNode> bids) {
        return bids
            .filter((id, bid) -> bid.get("auction").asLong() % SELECTED == 0)
            .mapValues(bid -> bid.deepCopy().retain("auction", "price"));
    }

    private static KTable<String, ObjectNode> sellers(
            KTable<String, ObjectNode> auctions, KTable<String, ObjectNode> persons) {
        return auctions
            .filter((id, auction) -> auction.get("category").asInt() == CATEGORY)
            .join(persons.filter((id, person) -> STATES.contains(person.get("state").asText())),
                auction -> auction.get("seller").asText(),
                (auction, person) -> {
                    ObjectNode result = person.deepCopy().retain("name", "city", "state");
                    return result.set("id", auction.get("id"));
                },
                Materialized.with(TEXT, BODY));
    }

    private static KTable<String, ObjectNode> averages(
            KTable<String, ObjectNode> bids, KTable<String, ObjectNode> auctions) {
        KTable<String, ObjectNode> finals = bids
            .join(auctions, bid -> bid.get("auction").asText(), Nexmark::inTime, Materialized.with(TEXT, BODY))
            .groupBy((id, bid) -> KeyValue.pair(bid.get("auction").asText(), bid), Grouped.with(TEXT, BODY))
            // Bids and auctions stay as they are: what is subtracted is only ever added again.
            .reduce((one, other) -> one.get("price").asLong() < other.get("price").asLong() ? other : one,
                (all, bid) -> all,
                Materialized.with(TEXT, BODY));
        return finals
            .groupBy((auction, bid) -> KeyValue.pair(bid.get("category").asText(), bid), Grouped.with(TEXT, BODY))
            .aggregate(() -> JSON.createObjectNode().put("sum", 0L).put("count", 0L),
                (category, bid, all) -> plus(all, bid, 1), (category, bid, all) -> plus(all, bid, -1),
                Materialized.with(TEXT, BODY))
            .mapValues((category, all) -> JSON.createObjectNode()
                .put("category", Integer.parseInt(category))
                .put("average", (double) all.get("sum").asLong() / all.get("count").asLong()));
    }

    /** Returns null for a bid before its auction begins or after it ends. */
    private static ObjectNode inTime(ObjectNode bid, ObjectNode auction) {
        long time = bid.get("dateTime").asLong();
        boolean counts = time >= auction.get("dateTime").asLong() && time <= auction.get("expires").asLong();
        return counts ? bid.deepCopy().<ObjectNode>set("category", auction.get("category")) : null;
    }

    private static ObjectNode plus(ObjectNode all, ObjectNode bid, int times) {
        return all.deepCopy()
            .put("sum", all.get("sum").asLong() + times * bid.get("price").asLong())
            .put("count", all.get("count").asLong() + times);
    }

    public static void main(String[] arguments) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, ObjectNode> read = Consumed.with(TEXT, BODY);
        KTable<String, ObjectNode> persons = builder.table(arguments[1], read);
        KTable<String, ObjectNode> auctions = builder.table(arguments[2], read);
        KTable<String, ObjectNode> bids = builder.table(arguments[3], read);
        Produced<String, ObjectNode> written = Produced.with(TEXT, BODY);
        bids.toStream().to(arguments[4], written);
        converted(bids).toStream().to(arguments[5], written);
        selected(bids).toStream().to(arguments[6], written);
        sellers(auctions, persons).toStream().to(arguments[7], written);
        averages(bids, auctions).toStream().to(arguments[8], written);
        Properties properties = new Properties();
        properties.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.STATE_DIR_CONFIG, arguments[9],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[10],
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0,
            StreamsConfig.REPLICATION_FACTOR_CONFIG, 1,
            StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest"));
        properties.put(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG,
            Boolean.getBoolean(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG));
        KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        Thread.currentThread().join();
    }
}
