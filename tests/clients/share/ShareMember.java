import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group that does what it is told, line by line, and answers each line with one.
 *
 * <p>Arguments: bootstrap servers, group, topic, key=value of further settings. Commands: "poll ms"
 * answers partition:offset:deliveries of each record; "say partition:offset TYPE" acknowledges;
 * "commit" answers what became of it; "close" ends.
 */
public final class ShareMember {
    private static final Map<String, ConsumerRecord<String, String>> HELD = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        StringDeserializer text = new StringDeserializer();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(arguments[2]));
            System.out.println("ready");
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.equals("close")) {
                    break;
                }
                System.out.println(answer(consumer, line.split(" ")));
            }
        }
        System.out.println("closed");
    }

    private static String answer(KafkaShareConsumer<String, String> consumer, String[] words) {
        try {
            switch (words[0]) {
                case "poll":
                    return poll(consumer, Long.parseLong(words[1]));
                case "say":
                    consumer.acknowledge(HELD.get(words[1]), AcknowledgeType.valueOf(words[2]));
                    return "said";
                case "commit":
                    return commit(consumer);
                default:
                    return "what?";
            }
        } catch (KafkaException | IllegalStateException failure) {
            return "failed " + failure.getClass().getSimpleName();
        }
    }

    private static String poll(KafkaShareConsumer<String, String> consumer, long wait) {
        List<String> got = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(wait))) {
            String name = record.partition() + ":" + record.offset();
            HELD.put(name, record);
            got.add(name + ":" + record.deliveryCount().orElse((short) 0));
        }
        return "got " + String.join(" ", got);
    }

    private static String commit(KafkaShareConsumer<String, String> consumer) {
        List<String> results = new ArrayList<>();
        Map<TopicIdPartition, Optional<KafkaException>> done = consumer.commitSync();
        done.forEach((partition, failure) -> results.add(
                failure.map(each -> each.getClass().getSimpleName()).orElse("ok")));
        return "committed " + String.join(" ", results);
    }
}
