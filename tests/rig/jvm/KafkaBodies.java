// What Apache Kafka makes of batches: the answer of its validator, which a broker's Produce gives, and the
// records that its consumers see.
//
// A line of the input is a batch as hexadecimal digits. A line of the output answers it: the code of Produce,
// then how many records a consumer gets and the CRC-32 of their offsets, keys and values, or why it gets none.

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.zip.CRC32;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

public final class KafkaBodies {
    private static final LogValidator.MetricsRecorder NOTHING = new LogValidator.MetricsRecorder() {
        @Override
        public void recordInvalidMagic() {
        }

        @Override
        public void recordInvalidOffset() {
        }

        @Override
        public void recordInvalidSequence() {
        }

        @Override
        public void recordInvalidChecksums() {
        }

        @Override
        public void recordNoKeyCompactedTopic() {
        }
    };

    public static void main(String[] arguments) throws Exception {
        var answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
        System.setOut(System.err);
        var requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            byte[] batch = HexFormat.of().parseHex(line);
            answers.println(codeOf(batch.clone()) + " " + recordsIn(batch));
        }
    }

    /** The validator writes into the batch. */
    private static int codeOf(byte[] batch) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(batch));
        var codec = records.batches().iterator().next().compressionType();
        try {
            new LogValidator(
                records, new TopicPartition("t", 0), Time.SYSTEM, codec, Compression.of(codec).build(), false,
                RecordBatch.CURRENT_MAGIC_VALUE, TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0,
                AppendOrigin.CLIENT
            ).validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), NOTHING, BufferSupplier.create());
            return Errors.NONE.code();
        } catch (RecordValidationException invalid) {
            return Errors.forException(invalid.invalidException()).code();
        } catch (Throwable failed) {
            return Errors.forException(failed).code();
        }
    }

    private static String recordsIn(byte[] batch) {
        var sum = new CRC32();
        int count = 0;
        RecordBatch only = MemoryRecords.readableRecords(ByteBuffer.wrap(batch)).batches().iterator().next();
        try (var records = only.streamingIterator(BufferSupplier.create())) {
            while (records.hasNext()) {
                var record = records.next();
                sum.update(ByteBuffer.allocate(8).putLong(record.offset()).flip());
                add(sum, record.key());
                add(sum, record.value());
                count++;
            }
        } catch (Throwable failed) {
            return "after " + count + ": " + failed.getClass().getSimpleName();
        }
        return count + ":" + sum.getValue();
    }

    private static void add(CRC32 sum, ByteBuffer bytes) {
        sum.update(ByteBuffer.allocate(4).putInt(bytes == null ? -1 : bytes.remaining()).flip());
        if (bytes != null) {
            sum.update(bytes);
        }
    }
}
