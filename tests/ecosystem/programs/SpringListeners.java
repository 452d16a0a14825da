import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.util.backoff.FixedBackOff;

/**
 * Spring Kafka: topics that it makes, a listener that copies in transactions, a record that fails
 * until it is a dead letter, and a transaction that is rolled back.
 *
 * <p>SpringListeners BOOTSTRAP NAME RECORDS
 */
@Configuration
@EnableKafka
public class SpringListeners {
    private static String address;
    private static String name;
    private static final AtomicInteger tries = new AtomicInteger();
    private static final AtomicInteger copies = new AtomicInteger();
    private static final AtomicInteger deadLetters = new AtomicInteger();
    private static final Set<String> copied = ConcurrentHashMap.newKeySet();

    public static String name() {
        return name;
    }

    @Bean
    KafkaAdmin admin() {
        KafkaAdmin made = new KafkaAdmin(Map.of("bootstrap.servers", address));
        made.setFatalIfBrokerNotAvailable(true);
        return made;
    }

    @Bean
    KafkaAdmin.NewTopics topics() {
        return new KafkaAdmin.NewTopics(
                List.of(name, name + "-out", name + "-dlt").stream()
                        .map(topic -> new NewTopic(topic, 3, (short) 1))
                        .toArray(NewTopic[]::new));
    }

    @Bean
    DefaultKafkaProducerFactory<String, String> producers() {
        DefaultKafkaProducerFactory<String, String> made =
                new DefaultKafkaProducerFactory<>(
                        Map.of("bootstrap.servers", address),
                        new StringSerializer(),
                        new StringSerializer());
        made.setTransactionIdPrefix("transactions-" + name);
        return made;
    }

    @Bean
    KafkaTemplate<String, String> template() {
        return new KafkaTemplate<>(producers());
    }

    @Bean
    KafkaTransactionManager<String, String> transactions() {
        return new KafkaTransactionManager<>(producers());
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
        var made = new ConcurrentKafkaListenerContainerFactory<String, String>();
        made.setConsumerFactory(
                new DefaultKafkaConsumerFactory<>(
                        Map.of(
                                "bootstrap.servers", address,
                                "auto.offset.reset", "earliest",
                                "isolation.level", "read_committed"),
                        new StringDeserializer(),
                        new StringDeserializer()));
        made.setConcurrency(3);
        made.getContainerProperties().setKafkaAwareTransactionManager(transactions());
        made.setAfterRollbackProcessor(
                new DefaultAfterRollbackProcessor<>(
                        new DeadLetterPublishingRecoverer(template()),
                        new FixedBackOff(100, 2),
                        template(),
                        true));
        return made;
    }

    @KafkaListener(topics = "#{T(SpringListeners).name()}", groupId = "#{T(SpringListeners).name()}")
    public void copy(String value) {
        template().send(name + "-out", value, value);
        if (value.equals("bad")) {
            tries.incrementAndGet();
            throw new IllegalStateException("bad");
        }
    }

    @KafkaListener(
            topics = "#{T(SpringListeners).name()}-out",
            groupId = "#{T(SpringListeners).name()}-out")
    public void look(String value) {
        copied.add(value);
        copies.incrementAndGet();
    }

    @KafkaListener(
            topics = "#{T(SpringListeners).name()}-dlt",
            groupId = "#{T(SpringListeners).name()}-dlt")
    public void bury(String value) {
        deadLetters.incrementAndGet();
    }

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        name = arguments[1];
        int records = Integer.parseInt(arguments[2]);
        try (var context = new AnnotationConfigApplicationContext(SpringListeners.class)) {
            @SuppressWarnings("unchecked")
            KafkaTemplate<String, String> template = context.getBean(KafkaTemplate.class);
            template.executeInTransaction(
                    operations -> {
                        operations.send(name, "bad", "bad");
                        for (int each = 0; each < records; each++) {
                            operations.send(name, "k" + each, "v" + each);
                        }
                        return null;
                    });
            try {
                template.executeInTransaction(
                        operations -> {
                            operations.send(name, "x", "rolled back");
                            throw new IllegalStateException("on purpose");
                        });
            } catch (IllegalStateException expected) {
                // It is rolled back.
            }
            for (String last : List.of("one", "two")) {
                template.executeInTransaction(operations -> operations.send(name, last, last));
            }
            while (copied.size() < records + 2 || deadLetters.get() == 0) {
                Thread.sleep(100);
            }
            System.out.println(
                    String.join(
                            " ",
                            "copies " + copies,
                            "distinct " + copied.size(),
                            "tries " + tries,
                            "dead " + deadLetters,
                            "wrong " + (copied.contains("bad") || copied.contains("rolled back"))));
        }
    }
}
