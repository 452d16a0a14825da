// Transactional producers of Apache Kafka's own client, of transactions v2 (KIP-890), as many as are
// asked for. Commands come line by line, and each is answered by "ok" or "error <kind> <text>" with
// kind retry, abort or fatal; what is acknowledged is told in between as "ack <key> <offset>".
//
//   new <id> <transactional id> <linger.ms> <batch.size> <codec>
//   init <id> | begin <id> | commit <id> | abort <id>
//   send <id> <topic> <partition> <key> <value in base64>

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Producers {
    private static final int KEPT = 8;

    private final String bootstrap;
    private final int timeoutMs;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final ArrayDeque<String> order = new ArrayDeque<>();

    private Producers(String bootstrap, int timeoutMs) {
        this.bootstrap = bootstrap;
        this.timeoutMs = timeoutMs;
    }

    public static void main(String[] arguments) throws Exception {
        Producers producers = new Producers(arguments[0], Integer.parseInt(arguments[1]));
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            say(producers.answer(line.split(" ")));
        }
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private String answer(String[] command) {
        boolean isAbort = command[0].equals("abort");
        try {
            carryOut(command);
            return "ok";
        } catch (ProducerFencedException | InvalidProducerEpochException
                | OutOfOrderSequenceException | AuthorizationException | IllegalStateException error) {
            return "error fatal " + told(error);
        } catch (RetriableException error) {
            return "error retry " + told(error);
        } catch (RuntimeException error) {
            return (isAbort ? "error fatal " : "error abort ") + told(error);
        }
    }

    private static String told(Exception error) {
        return (error.getClass().getSimpleName() + ": " + error.getMessage()).replace('\n', ' ');
    }

    private void carryOut(String[] command) {
        if (command[0].equals("new")) {
            create(command);
            return;
        }
        KafkaProducer<byte[], byte[]> producer = producers.get(command[1]);
        if (producer == null) {
            throw new IllegalStateException("it is closed");
        }
        switch (command[0]) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "send" -> send(producer, command);
            default -> throw new IllegalArgumentException(command[0]);
        }
    }

    private void create(String[] command) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", command[2]);
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("linger.ms", command[3]);
        settings.put("batch.size", command[4]);
        settings.put("compression.type", command[5]);
        settings.put("max.block.ms", 5_000);
        settings.put("request.timeout.ms", 3_000);
        settings.put("delivery.timeout.ms", 10_000);
        settings.put("reconnect.backoff.max.ms", 500);
        producers.put(command[1], new KafkaProducer<>(
                settings, new ByteArraySerializer(), new ByteArraySerializer()));
        order.add(command[1]);
        if (order.size() > KEPT) {
            producers.remove(order.poll()).close(Duration.ZERO);
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String[] command) {
        byte[] key = command[4].getBytes(StandardCharsets.UTF_8);
        byte[] value = Base64.getDecoder().decode(command[5]);
        int partition = Integer.parseInt(command[3]);
        producer.send(new ProducerRecord<>(command[2], partition, key, value), (metadata, error) -> {
            if (error == null) {
                say("ack " + command[4] + " " + metadata.offset());
            }
        });
    }
}
