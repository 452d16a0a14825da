import java.io.FileInputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Future;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's clients, with what a file of properties says about how to log in.
 *
 * <p>SecuredClients PROPERTIES round TOPIC GROUP RECORDS: writes, and reads as a member of a group.
 *
 * <p>SecuredClients PROPERTIES load TOPIC SECONDS RATE: the same in transactions for so long, each
 * record once.
 *
 * <p>SecuredClients PROPERTIES token: prints the id and the HMAC of a new delegation token, renews
 * it, and finds it again.
 *
 * <p>SecuredClients PROPERTIES expire HMAC: ends one.
 */
public final class SecuredClients {
    private SecuredClients() {}

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            given.load(file);
        }
        switch (arguments[1]) {
            case "round" -> round(given, arguments[2], arguments[3], Integer.parseInt(arguments[4]));
            case "load" ->
                    load(given, arguments[2], Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
            case "token" -> token(given);
            case "expire" -> expire(given, arguments[2]);
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static Producer<byte[], byte[]> producer(Properties given, Map<String, Object> more) {
        Map<String, Object> settings = settings(given, more);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static Consumer<byte[], byte[]> consumer(Properties given, Map<String, Object> more) {
        Map<String, Object> settings = settings(given, more);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Map<String, Object> settings(Properties given, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        given.forEach((key, value) -> settings.put((String) key, value));
        return settings;
    }

    private static void round(Properties given, String topic, String group, int records)
            throws Exception {
        Map<Integer, Long> first = new TreeMap<>();
        try (Producer<byte[], byte[]> producer = producer(given, Map.of("linger.ms", 5))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < records; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, bytes(number))));
            }
            for (Future<RecordMetadata> each : sent) {
                RecordMetadata written = each.get();
                first.merge(written.partition(), written.offset(), Math::min);
            }
        }
        Set<String> found = new TreeSet<>();
        try (Consumer<byte[], byte[]> consumer = consumer(given, Map.of("group.id", group))) {
            consumer.subscribe(List.of(topic));
            while (found.size() < records) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofSeconds(1))) {
                    if (each.offset() >= first.getOrDefault(each.partition(), Long.MAX_VALUE)) {
                        found.add(new String(each.value()));
                    }
                }
            }
            consumer.commitSync();
        }
        try (Admin admin = Admin.create(settings(given, Map.of()))) {
            Set<String> seen = new TreeSet<>(admin.listTopics().names().get());
            System.out.println("read " + found.size() + " seen " + seen);
        }
    }

    /** Writes in transactions of 100 records what it reads at the same time, a second group. */
    private static void load(Properties given, String topic, int seconds, int rate)
            throws Exception {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        int written = 0;
        Map<Long, Integer> times = new HashMap<>();
        Map<String, Object> transactional = Map.of("transactional.id", "load-" + topic);
        try (Producer<byte[], byte[]> producer = producer(given, transactional);
                Producer<byte[], byte[]> idempotent = producer(given, Map.of());
                Consumer<byte[], byte[]> consumer =
                        consumer(given, Map.of("group.id", "load", "isolation.level", "read_committed"))) {
            producer.initTransactions();
            consumer.subscribe(List.of(topic));
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            while (System.nanoTime() < end) {
                producer.beginTransaction();
                for (int number = 0; number < 100; number++) {
                    Producer<byte[], byte[]> to = number % 2 == 0 ? producer : idempotent;
                    sent.add(to.send(new ProducerRecord<>(topic, bytes(written++))));
                }
                read(consumer, times, Duration.ofMillis(100_000 / rate));
                consumer.commitSync();
                producer.commitTransaction();
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
            while (times.size() < written) {
                read(consumer, times, Duration.ofSeconds(1));
            }
        }
        boolean isOnce = times.values().stream().allMatch(each -> each == 1);
        System.out.println("written " + written + " read " + times.size() + " once " + isOnce);
    }

    private static void read(
            Consumer<byte[], byte[]> consumer, Map<Long, Integer> times, Duration wait) {
        for (ConsumerRecord<byte[], byte[]> each : consumer.poll(wait)) {
            times.merge(Long.parseLong(new String(each.value()).trim()), 1, Integer::sum);
        }
    }

    private static void token(Properties given) throws Exception {
        try (Admin admin = Admin.create(settings(given, Map.of()))) {
            DelegationToken made = admin.createDelegationToken().delegationToken().get();
            admin.renewDelegationToken(made.hmac()).expiryTimestamp().get();
            List<DelegationToken> found = admin.describeDelegationToken().delegationTokens().get();
            boolean isThere = found.stream().anyMatch(
                    each -> each.tokenInfo().tokenId().equals(made.tokenInfo().tokenId()));
            if (!isThere) {
                throw new IllegalStateException("not among " + found);
            }
            System.out.println(made.tokenInfo().tokenId() + " " + made.hmacAsBase64String());
        }
    }

    private static void expire(Properties given, String hmac) throws Exception {
        try (Admin admin = Admin.create(settings(given, Map.of()))) {
            byte[] decoded = Base64.getDecoder().decode(hmac);
            admin.expireDelegationToken(
                            decoded,
                            new ExpireDelegationTokenOptions()
                                    .expiryTimePeriodMs(-1))
                    .expiryTimestamp()
                    .get();
            System.out.println("expired");
        }
    }

    private static byte[] bytes(int number) {
        return String.format("%064d", number).getBytes();
    }
}
