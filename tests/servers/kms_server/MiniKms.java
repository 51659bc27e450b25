import java.io.File;
import java.io.FileOutputStream;
import java.lang.reflect.Constructor;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.key.kms.server.KMSConfiguration;
import org.apache.hadoop.crypto.key.kms.server.KMSWebServer;
import org.apache.hadoop.fs.FileUtil;

/**
 * Hadoop's key server on the loopback, with its keys in the folder named by the first argument.
 *
 * <p>Everybody may do everything, but for the user "refused", who is told nothing and for whom nothing is decrypted;
 * the user "service" may act for others.
 * Prints one line, "ready" and the port, and ends with its standard input: so it never outlives the process that
 * started it. The folder is removed then.
 */
public final class MiniKms {
  private static final String[] OPERATIONS = {
    "CREATE", "DELETE", "ROLLOVER", "GET", "GET_KEYS", "GET_METADATA", "SET_KEY_MATERIAL", "GENERATE_EEK", "DECRYPT_EEK"
  };
  private static final String[] FORBIDDEN = {"GET_METADATA", "DECRYPT_EEK"};
  private static final String[] KEY_OPERATIONS = {"MANAGEMENT", "GENERATE_EEK", "DECRYPT_EEK", "READ"};

  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    Thread end = new Thread(() -> waitForEnd(folder), "end");
    end.setDaemon(true);
    end.start();
    // The server inside the server reads its configuration from files only.
    System.setProperty(KMSConfiguration.KMS_CONFIG_DIR, folder.getPath());
    Configuration acls = new Configuration(false);
    for (String operation : OPERATIONS) {
      acls.set("hadoop.kms.acl." + operation, "*");
    }
    for (String operation : FORBIDDEN) {
      acls.set("hadoop.kms.blacklist." + operation, "refused");
    }
    for (String operation : KEY_OPERATIONS) {
      acls.set("default.key.acl." + operation, "*");
    }
    write(acls, new File(folder, "kms-acls.xml"));
    Configuration site = new Configuration(false);
    site.set("hadoop.kms.key.provider.uri", "jceks://file@" + new File(folder, "kms.keystore"));
    site.set("hadoop.kms.authentication.type", "simple");
    site.set("hadoop.kms.authentication.simple.anonymous.allowed", "false");
    site.set("hadoop.kms.proxyuser.service.users", "*");
    site.set("hadoop.kms.proxyuser.service.hosts", "*");
    write(site, new File(folder, "kms-site.xml"));
    write(new Configuration(false), new File(folder, "core-site.xml"));
    Configuration server = KMSConfiguration.getKMSConf();
    server.set("hadoop.kms.http.host", "127.0.0.1");
    server.setInt("hadoop.kms.http.port", 0);
    Constructor<KMSWebServer> constructor =
        KMSWebServer.class.getDeclaredConstructor(Configuration.class, Configuration.class);
    constructor.setAccessible(true);
    KMSWebServer started = constructor.newInstance(server, new Configuration(false));
    started.start();
    System.out.println("ready " + started.getKMSUrl().getPort());
    System.out.flush();
    Thread.currentThread().join();
  }

  private static void write(Configuration configuration, File file) throws Exception {
    try (FileOutputStream out = new FileOutputStream(file)) {
      configuration.writeXml(out);
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
