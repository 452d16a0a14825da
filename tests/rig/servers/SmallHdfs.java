// An HDFS of one name node and one data node on the loopback interface. It says "ready", and its address;
// it ends with its input. The argument is the folder for its data.

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public final class SmallHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("ready hdfs://127.0.0.1:" + cluster.getNameNodePort());
        while (System.in.read() >= 0) {
            // Nothing is said to it.
        }
        System.exit(0);
    }
}
