// An OpenSearch of one node on the loopback interface, without plugins but the one that speaks HTTP. It says
// "ready". Arguments: the folder for its data, the port for HTTP.

import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

public final class OpenSearchNode extends Node {
    private OpenSearchNode(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "only"),
            List.of(Netty4Plugin.class),
            false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", arguments[0])
            .put("http.port", arguments[1])
            .put("network.host", "127.0.0.1")
            .put("transport.port", 0)
            .put("discovery.type", "single-node")
            .put("cluster.name", "drumlin-test")
            .put("node.name", "only")
            .put("node.processors", 2)
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        new OpenSearchNode(settings).start();
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
