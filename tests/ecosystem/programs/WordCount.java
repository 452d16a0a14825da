import java.io.FileInputStream;
import java.util.Arrays;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams counts the words of a topic until it is ended.
 *
 * <p>WordCount PROPERTIES FROM TO
 */
public final class WordCount {
    private WordCount() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .to(arguments[2], Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(
                failure -> {
                    failure.printStackTrace();
                    Runtime.getRuntime().halt(1);
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
