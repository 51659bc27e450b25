import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.JarURLConnection;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URL;
import java.nio.file.Files;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.shaded.org.glassfish.jersey.server.internal.scanning.PackageNamesScanner;

/**
 * HDFS with one NameNode and two DataNodes on the loopback, in the folder named by the first argument.
 *
 * <p>With a second argument, "guarded", there are two NameNodes, of which the second is active, and both
 * look at tokens. Tokens are given to whoever names himself, which spares a KDC; two of them, each in both
 * forms of file, are in the folder named by the third argument.
 *
 * <p>With the second argument "faulty", a line sent to one more port, the last of those printed, stops a
 * DataNode ("stop 0") or starts the one that was stopped ("start"). The NameNode takes a stopped one for alive.
 *
 * <p>Prints one line, "ready" and the ports of each NameNode for HTTP and RPC, and ends with its standard
 * input: so it never outlives the process that started it. The folder is removed then.
 */
public final class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    Thread end = new Thread(() -> waitForEnd(folder), "end");
    end.setDaemon(true);
    end.start();
    shortenSearches(folder);
    Configuration conf = new Configuration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.getPath());
    conf.setInt("dfs.replication", 2);
    // Files of the tests are small: blocks too, so that some files have several.
    conf.setLong("dfs.blocksize", 1 << 20);
    conf.setLong("dfs.namenode.fs-limits.min-block-size", 1024);
    conf.setInt("dfs.ls.limit", 100); // names in a page
    // Whoever asks without a name is nobody in particular; "root" and the process's own user are superusers.
    conf.setBoolean("dfs.permissions.enabled", true);
    // Nothing here is to survive a crash of the machine.
    conf.setBoolean("dfs.namenode.edits.noeditlogchannelflush", true);
    conf.setInt("dfs.datanode.handler.count", 4);
    conf.setInt("dfs.namenode.handler.count", 8);
    MiniDFSCluster.Builder builder =
        new MiniDFSCluster.Builder(conf).numDataNodes(2).checkDataNodeAddrConfig(false);
    boolean guards = arguments.length > 1 && arguments[1].equals("guarded");
    MiniDFSCluster cluster = guards ? guarded(conf, builder, arguments[2]) : builder.build();
    cluster.waitActive();
    StringBuilder ports = new StringBuilder("ready");
    for (int number = 0; number < cluster.getNumNameNodes(); number++) {
      NameNode node = cluster.getNameNode(number);
      ports.append(" " + node.getHttpAddress().getPort() + " " + node.getNameNodeAddress().getPort());
    }
    if (arguments.length > 1 && arguments[1].equals("faulty")) {
      ServerSocket orders = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
      ports.append(" " + orders.getLocalPort());
      System.out.println(ports);
      obey(cluster, orders);
    }
    System.out.println(ports);
    System.out.flush();
    Thread.currentThread().join();
  }

  private static void obey(MiniDFSCluster cluster, ServerSocket orders) throws Exception {
    MiniDFSCluster.DataNodeProperties stopped = null;
    while (true) {
      try (Socket one = orders.accept()) {
        String order = new BufferedReader(new InputStreamReader(one.getInputStream())).readLine();
        if (order.startsWith("stop ")) {
          stopped = cluster.stopDataNode(Integer.parseInt(order.substring(5)));
        } else if (stopped != null) {
          cluster.restartDataNode(stopped, true);
          cluster.waitActive();
          stopped = null;
        }
        one.getOutputStream().write("done".getBytes());
      }
    }
  }

  private static MiniDFSCluster guarded(
      Configuration conf, MiniDFSCluster.Builder builder, String tokens) throws Exception {
    conf.setBoolean("dfs.namenode.delegation.token.always-use", true);
    conf.setBoolean("ignore.secure.ports.for.testing", true); // blocks travel as they do without security
    MiniDFSCluster cluster = builder.nnTopology(MiniDFSNNTopology.simpleHATopology()).build();
    cluster.transitionToActive(1);
    cluster.waitActive();
    writeTokens(cluster, conf, tokens);
    // Nobody is there: names are only to be parsed.
    System.setProperty("java.security.krb5.realm", "TESTS");
    System.setProperty("java.security.krb5.kdc", "localhost");
    // From now on WebHDFS looks at tokens, which it does for no cluster without security.
    Configuration secure = new Configuration(conf);
    secure.set("hadoop.security.authentication", "kerberos");
    UserGroupInformation.setConfiguration(secure);
    return cluster;
  }

  /** A token in both forms of Hadoop's file, beside one for another cluster. */
  private static void writeTokens(MiniDFSCluster cluster, Configuration conf, String folder) throws Exception {
    Credentials credentials = new Credentials();
    for (String service : new String[] {"ha-hdfs:other", "ha-hdfs:minidfs-ns"}) {
      Token<?> token = cluster.getNameNodeRpc(1).getDelegationToken(new Text("somebody"));
      token.setService(new Text(service));
      credentials.addToken(new Text("of " + service), token);
    }
    credentials.addSecretKey(new Text("a secret"), new byte[200]);
    for (Credentials.SerializedFormat format : Credentials.SerializedFormat.values()) {
      Path path = new Path("file://" + folder, "tokens-" + format.name().toLowerCase());
      credentials.writeTokenStorageFile(path, conf, format);
    }
  }

  /**
   * Each web server unpacks its pages, and reads whole jars for the annotated classes of a few packages, which
   * would take most of the start. Both are found in the folder instead, which is first in the class path.
   */
  private static void shortenSearches(File folder) throws IOException {
    ClassLoader loader = MiniHdfs.class.getClassLoader();
    unpack(loader, "webapps", folder);
    PackageNamesScanner.setResourcesProvider(
        new PackageNamesScanner.ResourcesProvider() {
          @Override
          public Enumeration<URL> getResources(String name, ClassLoader used) throws IOException {
            File classes = new File(new File(folder, "classes"), name);
            if (!classes.exists()) {
              unpack(used, name, new File(folder, "classes"));
            }
            return Collections.enumeration(List.of(classes.toURI().toURL()));
          }
        });
  }

  /** What jars of the class path hold under this name. */
  private static void unpack(ClassLoader loader, String name, File folder) throws IOException {
    for (URL found : Collections.list(loader.getResources(name))) {
      if (found.openConnection() instanceof JarURLConnection) {
        JarFile jar = ((JarURLConnection) found.openConnection()).getJarFile();
        for (JarEntry entry : Collections.list(jar.entries())) {
          if (entry.getName().startsWith(name + "/") && !entry.isDirectory()) {
            File file = new File(folder, entry.getName());
            file.getParentFile().mkdirs();
            try (InputStream in = jar.getInputStream(entry)) {
              Files.copy(in, file.toPath());
            }
          }
        }
      }
    }
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
