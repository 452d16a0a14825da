import java.io.FileInputStream;
import java.time.Duration;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Kafka Streams joins tables by a foreign key and streams within a window, looks values up in a
 * global table, and counts in windows that are told of once, when they close; until it is ended.
 *
 * <p>JoinedTables PROPERTIES PREFIX-OF-ALL-TOPICS
 */
public final class JoinedTables {
    private JoinedTables() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        KafkaStreams streams = new KafkaStreams(topology(arguments[1]).build(settings), settings);
        streams.setUncaughtExceptionHandler(
                failure -> {
                    failure.printStackTrace();
                    Runtime.getRuntime().halt(1);
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
        streams.start();
    }

    private static StreamsBuilder topology(String prefix) {
        StreamsBuilder builder = new StreamsBuilder();
        Serde<String> text = Serdes.String();

        // Orders, each with its customer's last name: "customer:amount" becomes "name:amount".
        KTable<String, String> customers = builder.table(prefix + "customers");
        KStream<String, String> orders = builder.stream(prefix + "orders");
        orders.toTable(Materialized.with(text, text))
                .join(
                        customers,
                        order -> order.split(":")[0],
                        (order, name) -> name + ":" + order.split(":")[1],
                        Materialized.with(text, text))
                .toStream()
                .to(prefix + "named");

        // Orders and their payments.
        KStream<String, String> payments = builder.stream(prefix + "payments");
        orders.join(
                        payments,
                        (order, payment) -> order + "/" + payment,
                        JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1)))
                .to(prefix + "paid");

        // Visits with the names of what was looked at, and their number in each minute.
        GlobalKTable<String, String> products = builder.globalTable(prefix + "products");
        KStream<String, String> visits = builder.stream(prefix + "visits");
        visits.join(products, (visitor, product) -> product, (product, name) -> name)
                .to(prefix + "seen");
        visits.groupByKey()
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
                .count(Materialized.with(text, Serdes.Long()))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .mapValues(count -> Long.toString(count))
                .to(prefix + "counted");
        return builder;
    }
}
