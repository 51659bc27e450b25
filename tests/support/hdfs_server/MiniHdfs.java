import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * HDFS with one NameNode and two DataNodes on the loopback, in the folder named by the first argument.
 *
 * <p>Prints one line, "ready" and the NameNode's HTTP port, and ends with its standard input: so it never
 * outlives the process that started it. The folder is removed then.
 */
public final class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    Thread end = new Thread(() -> waitForEnd(folder), "end");
    end.setDaemon(true);
    end.start();
    Configuration conf = new Configuration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.getPath());
    conf.setInt("dfs.replication", 2);
    // Files of the tests are small: blocks too, so that some files have several.
    conf.setLong("dfs.blocksize", 1 << 20);
    conf.setLong("dfs.namenode.fs-limits.min-block-size", 1024);
    // Whoever asks without a name is nobody in particular; "root" and the process's own user are superusers.
    conf.setBoolean("dfs.permissions.enabled", true);
    // Nothing here is to survive a crash of the machine.
    conf.setBoolean("dfs.namenode.edits.noeditlogchannelflush", true);
    conf.setInt("dfs.datanode.handler.count", 4);
    conf.setInt("dfs.namenode.handler.count", 8);
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(conf).numDataNodes(2).checkDataNodeAddrConfig(false).build();
    cluster.waitActive();
    int port = cluster.getNameNode().getHttpAddress().getPort();
    System.out.println("ready " + port);
    System.out.flush();
    Thread.currentThread().join();
  }

  private static void waitForEnd(File folder) {
    try {
      while (System.in.read() >= 0) {
        // Nothing is said to this program.
      }
    } catch (java.io.IOException error) {
      // As good as its end.
    }
    FileUtil.fullyDelete(folder);
    Runtime.getRuntime().halt(0);
  }
}
