import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.metadata.Hive;
import org.apache.hadoop.hive.ql.processors.CommandProcessor;
import org.apache.hadoop.hive.ql.processors.CommandProcessorFactory;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.CompactorThread;
import org.apache.hadoop.hive.ql.txn.compactor.Initiator;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;
import org.apache.hive.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Hive with transactional tables and its metastore, all in this process, working in the folder named by the
 * first argument. Tables are in the folder named by the second one. The third one is the SQL of the metastore's
 * tables of transactions.
 *
 * <p>Prints one line, "ready" and two ports on the loopback: of SQL and of the metastore's Thrift. It ends with
 * its standard input, so it never outlives the process that started it; the working folder is removed then.
 *
 * <p>SQL is asked for in lines of JSON, one session for each connection: {"sql": text} is answered by
 * {"columns": [[name, type], ...], "rows": [[value, ...], ...]}, {"run": "worker"}, one turn of a thread of the
 * compactor, by {}, {"snapshot": table} by {"write_ids": text, "transactions": text}, and all by {"error": text} if they fail.
 */
public final class HiveGateway {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String METASTORE = "jdbc:derby:memory:metastore;create=true";

  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    Thread end = new Thread(() -> waitForEnd(folder), "end");
    end.setDaemon(true);
    end.start();
    PrintStream out = System.out;
    System.setOut(System.err); // nobody reads what others say
    makeTransactionTables(Path.of(arguments[2]));
    useUnguardedFiles();
    HiveConf conf = configuration(folder, arguments[1]);
    int thrift = freePort();
    startMetastore(conf, thrift);
    ServerSocket listening = new ServerSocket(0, 8, InetAddress.getLoopbackAddress());
    out.println("ready " + listening.getLocalPort() + " " + thrift);
    out.flush();
    while (true) {
      Socket socket = listening.accept();
      new Thread(() -> serve(socket, conf), "session").start();
    }
  }

  private static HiveConf configuration(File folder, String warehouse) {
    // Where this is silent, Hive's own defaults hold, as on a cluster. Each line says why it does not leave them.
    HiveConf conf = new HiveConf(HiveGateway.class);
    Map<String, String> values = new LinkedHashMap<>();
    // fs.defaultFS to hive.querylog.location: everything is below two folders of the test, on the disk.
    values.put("fs.defaultFS", "file:///");
    values.put("hadoop.tmp.dir", folder + "/hadoop");
    // Defaults of these are folders for all users of a machine, which belong to the first of them.
    values.put("mapreduce.jobtracker.staging.root.dir", folder + "/staging");
    values.put("hive.query.results.cache.directory", folder + "/results");
    values.put("hive.metastore.warehouse.dir", warehouse);
    values.put("hive.metastore.warehouse.external.dir", warehouse);
    values.put("hive.exec.scratchdir", folder + "/scratch");
    values.put("hive.exec.local.scratchdir", folder + "/local");
    values.put("hive.downloaded.resources.dir", folder + "/resources");
    values.put("hive.querylog.location", folder + "/querylog");
    // javax.jdo.option.*: the metastore's database is in memory, and gone with the process.
    values.put("javax.jdo.option.ConnectionURL", METASTORE);
    values.put("javax.jdo.option.ConnectionDriverName", "org.apache.derby.jdbc.EmbeddedDriver");
    // datanucleus.schema.autoCreateAll, hive.metastore.schema.verification: the metastore makes its tables itself,
    // but for those of transactions, and no tool has noted their version.
    values.put("datanucleus.schema.autoCreateAll", "true");
    values.put("hive.metastore.schema.verification", "false");
    // hive.metastore.event.db.notification.api.auth: no proxy users are configured here.
    values.put("hive.metastore.event.db.notification.api.auth", "false");
    // metastore.metadata.transformer.class: clients need not say what they are able to read. Ours does, of tables.
    values.put("metastore.metadata.transformer.class", " ");
    // hive.metastore.server.min.threads: of 200 threads, tests use a few.
    values.put("hive.metastore.server.min.threads", "1");
    // hive.support.concurrency, hive.txn.manager: transactional tables need both, on a cluster as well.
    values.put("hive.support.concurrency", "true");
    values.put("hive.txn.manager", "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager");
    // hive.exec.dynamic.partition.mode: tests insert into partitions that rows name; Hive's page on transactions asks for it.
    values.put("hive.exec.dynamic.partition.mode", "nonstrict");
    // hive.execution.engine, mapreduce.framework.name: a cluster has Tez. Both write the same tables; here jobs run in this
    // process.
    values.put("hive.execution.engine", "mr");
    values.put("mapreduce.framework.name", "local");
    // mapreduce.task.io.sort.mb, the three intervals: jobs of a few rows take little memory, and end when they have ended.
    values.put("mapreduce.task.io.sort.mb", "8");
    values.put("mapreduce.client.progressmonitor.pollinterval", "20");
    values.put("mapreduce.client.completion.pollinterval", "20");
    values.put("hive.exec.counters.pull.interval", "20");
    // hive.auto.convert.join: joins in memory would start a process of their own.
    values.put("hive.auto.convert.join", "false");
    // hive.in.test: transactions of several statements, which make deltas of several statements, are for tests only.
    values.put("hive.in.test", "true");
    // metastore.client.capability.check: with hive.in.test, it wants clients to say that they are tests, too.
    values.put("metastore.client.capability.check", "false");
    // hive.query.reexecution.enabled: a failure is told at once, and not tried again.
    values.put("hive.query.reexecution.enabled", "false");
    // hive.security.authorization.enabled: there is one user.
    values.put("hive.security.authorization.enabled", "false");
    // hive.notification.event.poll.interval: nobody replicates.
    values.put("hive.notification.event.poll.interval", "0s");
    // hive.compactor.delayed.cleanup.enabled: Hive's default; tests of cleaning depend on it.
    values.put("hive.compactor.delayed.cleanup.enabled", "false");
    // list.sink.output.*: rows come as objects, not as text.
    values.put("list.sink.output.formatter", "org.apache.hadoop.hive.serde2.thrift.ThriftFormatter");
    values.put("list.sink.output.protocol", "10");
    values.forEach(conf::set);
    return conf;
  }

  /** All that ask for local files find these, because they were asked for first. */
  private static void useUnguardedFiles() throws IOException {
    Configuration conf = new Configuration();
    conf.setClassLoader(HiveGateway.class.getClassLoader());
    conf.setClass("fs.file.impl", Unguarded.class, FileSystem.class);
    FileSystem.get(URI.create("file:///"), conf);
  }

  private static void makeTransactionTables(Path script) throws Exception {
    try (Connection connection = DriverManager.getConnection(METASTORE);
        Statement statement = connection.createStatement()) {
      String text = Files.readString(script).replaceAll("(?m)^--.*$", "");
      for (String one : text.split(";\\s*\\n")) {
        if (!one.isBlank()) {
          statement.execute(one);
        }
      }
    }
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  private static void startMetastore(HiveConf conf, int port) throws Exception {
    Thread thread =
        new Thread(
            () -> {
              try {
                HiveMetaStore.startMetaStore(port, HadoopThriftAuthBridge.getBridge(), new HiveConf(conf));
              } catch (Throwable error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
              }
            },
            "metastore");
    thread.setDaemon(true);
    thread.start();
    while (true) {
      try {
        new Socket(InetAddress.getLoopbackAddress(), port).close();
        return;
      } catch (IOException notYet) {
        Thread.sleep(20);
      }
    }
  }

  private static void serve(Socket socket, HiveConf conf) {
    try (socket;
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        BufferedWriter out =
            new BufferedWriter(new OutputStreamWriter(socket.getOutputStream(), StandardCharsets.UTF_8))) {
      socket.setTcpNoDelay(true);
      HiveConf own = new HiveConf(conf);
      SessionState session = SessionState.start(own);
      // One for all statements: a transaction of several ends with the driver that began it.
      IDriver driver = DriverFactory.newDriver(session.getConf());
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        out.write(JSON.writeValueAsString(answer(JSON.readValue(line, Map.class), session.getConf(), driver)));
        out.newLine();
        out.flush();
      }
      driver.close();
      driver.destroy();
      session.close();
    } catch (IOException error) {
      // Whoever asked has gone.
    }
  }

  private static Map<String, Object> answer(Map<?, ?> question, HiveConf conf, IDriver driver) {
    try {
      if (question.containsKey("run")) {
        turn((String) question.get("run"), conf);
        return Map.of();
      }
      if (question.containsKey("snapshot")) {
        IMetaStoreClient client = Hive.get(conf).getMSC();
        String transactions = client.getValidTxns().writeToString();
        String writeIds = client.getValidWriteIds((String) question.get("snapshot")).writeToString();
        return Map.of("transactions", transactions, "write_ids", writeIds);
      }
      return execute((String) question.get("sql"), conf, driver);
    } catch (Throwable error) {
      StringWriter text = new StringWriter();
      error.printStackTrace(new PrintWriter(text));
      return Map.of("error", text.toString());
    }
  }

  private static Map<String, Object> execute(String sql, HiveConf conf, IDriver driver) throws Exception {
    String[] words = sql.trim().split("\\s+");
    CommandProcessor processor = CommandProcessorFactory.getForHiveCommand(words, conf);
    if (processor != null) {
      processor.run(sql.trim().substring(words[0].length()).trim());
      return Map.of("columns", List.of(), "rows", List.of());
    }
    driver.run(sql);
    List<Object> rows = new ArrayList<>();
    List<Object> some = new ArrayList<>();
    while (driver.getResults(some)) {
      for (Object row : some) {
        rows.add(row instanceof Object[] ? plain((Object[]) row) : List.of(row.toString()));
      }
      some.clear();
    }
    List<Object> columns = new ArrayList<>();
    if (driver.getSchema() != null && driver.getSchema().isSetFieldSchemas()) {
      for (FieldSchema field : driver.getSchema().getFieldSchemas()) {
        columns.add(List.of(field.getName(), field.getType()));
      }
    }
    return Map.of("columns", columns, "rows", rows);
  }

  private static List<Object> plain(Object[] row) {
    List<Object> values = new ArrayList<>();
    for (Object value : row) {
      boolean isAsItIs = value == null || value instanceof Boolean || value instanceof String;
      boolean isInteger =
          value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long;
      if (isAsItIs || isInteger) {
        values.add(value);
      } else if (value instanceof Float || value instanceof Double) {
        values.add(Double.toString(((Number) value).doubleValue()));
      } else if (value instanceof byte[]) {
        values.add(HexFormat.of().formatHex((byte[]) value));
      } else {
        values.add(value.toString());
      }
    }
    return values;
  }

  /** Compaction: the worker takes one from the queue, the cleaner removes what nobody reads any more. */
  private static void turn(String name, HiveConf conf) throws Exception {
    CompactorThread thread;
    switch (name) {
      case "initiator":
        thread = new Initiator();
        break;
      case "worker":
        thread = new Worker();
        break;
      case "cleaner":
        thread = new Cleaner();
        break;
      default:
        throw new IllegalArgumentException(name);
    }
    thread.setConf(new HiveConf(conf));
    thread.init(new AtomicBoolean(true)); // to be stopped after one turn
    thread.start();
    thread.join();
  }

  /** Local files without permissions, each of which would cost a process that sets it. */
  public static final class Unguarded extends LocalFileSystem {
    public Unguarded() {
      super(
          new RawLocalFileSystem() {
            @Override
            public void setPermission(org.apache.hadoop.fs.Path path, FsPermission permission) {}
          });
    }
  }

  private static void waitForEnd(File folder) {
    try {
      while (System.in.read() >= 0) {
        // Nothing is said to this program here.
      }
    } catch (IOException error) {
      // As good as its end.
    }
    FileUtil.fullyDelete(folder);
    Runtime.getRuntime().halt(0);
  }
}
