import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.main.Main;
import org.apache.camel.processor.idempotent.kafka.KafkaIdempotentRepository;

/**
 * Camel: a producer, consumers that commit by hand, and keys that are remembered in a topic, so that
 * a record with a known key is dropped.
 *
 * <p>CamelRoutes BOOTSTRAP NAME RECORDS KEYS. Topics NAME, NAME-keys and NAME-out are there.
 */
public final class CamelRoutes {
    private CamelRoutes() {}

    public static void main(String[] arguments) throws Exception {
        String brokers = "?brokers=" + arguments[0];
        String name = arguments[1];
        int records = Integer.parseInt(arguments[2]);
        int keys = Integer.parseInt(arguments[3]);
        AtomicInteger handled = new AtomicInteger();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        var repository = new KafkaIdempotentRepository(name + "-keys", arguments[0]);
        Main main = new Main();
        main.configure()
                .addRoutesBuilder(
                        new RouteBuilder() {
                            @Override
                            public void configure() {
                                from("direct:in")
                                        .to("kafka:" + name + brokers + "&compressionCodec=zstd");
                                from("kafka:" + name + brokers
                                                + "&groupId=" + name
                                                + "&autoOffsetReset=earliest&consumersCount=2"
                                                + "&autoCommitEnable=false&allowManualCommit=true"
                                                + "&breakOnFirstError=true")
                                        .idempotentConsumer(header("kafka.KEY"), repository)
                                        .process(
                                                exchange -> {
                                                    seen.add(exchange.getMessage()
                                                            .getBody(String.class));
                                                    handled.incrementAndGet();
                                                })
                                        .to("kafka:" + name + "-out" + brokers);
                            }
                        });
        main.start();
        var producer = main.getCamelContext().createProducerTemplate();
        for (int each = 0; each < records; each++) {
            String number = String.valueOf(each % keys);
            producer.sendBodyAndHeader("direct:in", "v" + number, "kafka.KEY", "k" + number);
        }
        producer.sendBodyAndHeader("direct:in", "end", "kafka.KEY", "k" + (keys - 1) + "-end");
        while (handled.get() <= keys) {
            Thread.sleep(100);
        }
        System.out.println("handled " + handled + " distinct " + seen.size());
        main.stop();
        System.exit(0);
    }
}
