// What Kafka Connect's own converter for JSON, and Debezium's own transformation, make of records.
//
// Each line of the input is a topic, a key and a value in base64 ("-" for null). For each, a line
// tells the key and the value as the converter reads them, and the row that ExtractNewRecordState
// hands to a sink. The argument says whether there are schemas in them.

import io.debezium.transforms.ExtractNewRecordState;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;

public class Envelopes {
    public static void main(String[] arguments) throws Exception {
        JsonConverter keys = converter(arguments[0], true);
        JsonConverter values = converter(arguments[0], false);
        ExtractNewRecordState<SinkRecord> rows = new ExtractNewRecordState<>();
        rows.configure(Map.of("delete.tombstone.handling.mode", "rewrite"));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split(" ");
            SchemaAndValue key = keys.toConnectData(parts[0], bytes(parts[1]));
            SchemaAndValue value = values.toConnectData(parts[0], bytes(parts[2]));
            String row = "-";
            if (value.schema() != null) {
                SinkRecord record = new SinkRecord(parts[0], 0, key.schema(), key.value(), value.schema(), value.value(), 0);
                SinkRecord made = rows.apply(record);
                row = made == null ? "-" : text(made.value());
            }
            System.out.println(text(key.value()) + "\t" + text(value.value()) + "\t" + row);
        }
    }

    static JsonConverter converter(String hasSchemas, boolean isKey) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", hasSchemas), isKey);
        return made;
    }

    static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    static String text(Object value) {
        if (value instanceof Struct) {
            List<String> parts = new ArrayList<>();
            Struct struct = (Struct) value;
            for (Field each : struct.schema().fields()) {
                if (!each.name().startsWith("ts_")) {
                    parts.add(each.name() + "=" + text(struct.get(each)));
                }
            }
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof Map) {
            return new TreeMap<>((Map<?, ?>) value).toString();
        }
        if (value instanceof List) {
            List<String> parts = new ArrayList<>();
            for (Object each : (List<?>) value) {
                parts.add(text(each));
            }
            return "[" + String.join(",", parts) + "]";
        }
        if (value instanceof ByteBuffer) {
            value = ((ByteBuffer) value).array();
        }
        if (value instanceof byte[]) {
            return "0x" + new java.math.BigInteger(1, (byte[]) value).toString(16);
        }
        return String.valueOf(value);
    }
}
