import static java.nio.charset.StandardCharsets.UTF_8;

import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** java -cp 'jars/*' SerdeOrders.java BOOTSTRAP TOPIC REGISTRY FRAMING: write the orders that standard input lists. */
public class SerdeOrders {
    static final Schema ORDER = new Schema.Parser().parse("""
            {"type": "record", "name": "Order", "fields": [
              {"name": "id", "type": "long"},
              {"name": "status", "type": "string"},
              {"name": "qty", "type": "int"}]}
            """);

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", args[0],
                "key.serializer", StringSerializer.class.getName(),
                "value.serializer", AvroKafkaSerializer.class.getName(),
                "apicurio.registry.url", args[2],
                "apicurio.registry.auto-register", true,
                "apicurio.registry.use-id", "contentId",
                "apicurio.registry.headers.enabled", false,
                "apicurio.registry.as-confluent", args[3].equals("confluent"));
        var failure = new AtomicReference<Exception>();
        try (var producer = new KafkaProducer<String, GenericRecord>(settings);
                var lines = new BufferedReader(new InputStreamReader(System.in, UTF_8))) {
            for (String line; (line = lines.readLine()) != null; ) {
                producer.send(record(args[1], line.split("\t", -1)), (written, error) -> {
                    if (error != null) failure.compareAndSet(null, error);
                });
            }
        }
        if (failure.get() != null) throw failure.get();
    }

    static ProducerRecord<String, GenericRecord> record(String topic, String[] fields) throws IOException {
        var record = new ProducerRecord<>(topic, fields[0], fields[1].isEmpty() ? null : order(fields[1]));
        for (int i = 2; i < fields.length; i++) {
            String[] header = fields[i].split("=", 2);
            record.headers().add(header[0], header[1].getBytes(UTF_8));
        }
        return record;
    }

    static GenericRecord order(String json) throws IOException {
        var reader = new GenericDatumReader<GenericRecord>(ORDER);
        return reader.read(null, DecoderFactory.get().jsonDecoder(ORDER, json));
    }
}
