import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** java -cp 'jars/*' Orders.java BOOTSTRAP TOPIC: write the records to a Kafka topic that standard input lists. */
public class Orders {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0]);
        var text = new StringSerializer();
        var failure = new AtomicReference<Exception>();
        try (var producer = new KafkaProducer<>(settings, text, text);
                var lines = new BufferedReader(new InputStreamReader(System.in, UTF_8))) {
            for (String line; (line = lines.readLine()) != null; ) {
                producer.send(record(args[1], line.split("\t", -1)), (written, error) -> {
                    if (error != null) failure.compareAndSet(null, error);
                });
            }
        }
        if (failure.get() != null) throw failure.get();
    }

    static ProducerRecord<String, String> record(String topic, String[] fields) {
        var record = new ProducerRecord<>(topic, orNull(fields[0]), orNull(fields[1]));
        for (int i = 2; i < fields.length; i++) {
            String[] header = fields[i].split("=", 2);
            record.headers().add(header[0], header[1].getBytes(UTF_8));
        }
        return record;
    }

    static String orNull(String text) {
        return text.isEmpty() ? null : text;
    }
}
