import java.util.concurrent.atomic.AtomicInteger;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Flink copies a topic, exactly once: it fails twice on purpose and goes on from a checkpoint.
 *
 * <p>ExactlyOnce BOOTSTRAP FROM TO RECORDS NAMING_STRATEGY CHECKPOINT_FOLDER
 */
public final class ExactlyOnce {
    /** Static: tasks get copies of what they run, in the one JVM. */
    private static final AtomicInteger seen = new AtomicInteger();

    private static final AtomicInteger failures = new AtomicInteger();

    private ExactlyOnce() {}

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        String to = arguments[2];
        int records = Integer.parseInt(arguments[3]);
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration(arguments[5]));
        environment.setParallelism(2);
        environment.enableCheckpointing(1000);
        KafkaSource<String> source =
                KafkaSource.<String>builder()
                        .setBootstrapServers(address)
                        .setTopics(arguments[1])
                        .setGroupId("flink-" + to)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setBounded(OffsetsInitializer.latest())
                        .setValueOnlyDeserializer(new SimpleStringSchema())
                        .build();
        KafkaSink<String> sink =
                KafkaSink.<String>builder()
                        .setBootstrapServers(address)
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.<String>builder()
                                        .setTopic(to)
                                        .setValueSerializationSchema(new SimpleStringSchema())
                                        .build())
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix("flink-" + to)
                        .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[4]))
                        .setProperty("transaction.timeout.ms", "600000")
                        .build();
        environment
                .fromSource(source, WatermarkStrategy.noWatermarks(), "source")
                .map(value -> passed(value, records))
                .returns(String.class)
                .sinkTo(sink);
        environment.execute("exactly once");
        System.out.println("done, failures " + failures + " seen " + seen);
    }

    private static Configuration configuration(String checkpoints) {
        Configuration made = new Configuration();
        made.setString("restart-strategy.type", "fixed-delay");
        made.setString("restart-strategy.fixed-delay.attempts", "5");
        made.setString("restart-strategy.fixed-delay.delay", "1 s");
        made.setString("execution.checkpointing.dir", "file://" + checkpoints);
        made.setString("rest.port", "0");
        made.setString("rest.bind-address", "127.0.0.1");
        made.setString("jobmanager.rpc.address", "127.0.0.1");
        made.setString("taskmanager.memory.network.min", "32m");
        made.setString("taskmanager.memory.network.max", "32m");
        made.setString("taskmanager.memory.managed.size", "32m");
        return made;
    }

    /** The value; slowly, so that there are checkpoints between, and twice a failure instead. */
    private static String passed(String value, int records) throws InterruptedException {
        int number = seen.incrementAndGet();
        if (number % 50 == 0) {
            Thread.sleep(25);
        }
        boolean fails =
                number == records / 3 && failures.compareAndSet(0, 1)
                        || number == records && failures.compareAndSet(1, 2);
        if (fails) {
            throw new IllegalStateException("on purpose");
        }
        return value;
    }
}
