import java.io.UncheckedIOException;
import java.net.SocketException;
import py4j.DefaultGatewayServerListener;
import py4j.GatewayServer;
import py4j.Py4JServerConnection;

/** How this JVM answers the tests. */
public final class JavaGateway {
  private JavaGateway() {}

  /**
   * Connections that are opened from now on send answers at once.
   *
   * By default the end of each answer that is longer than a buffer waits 40 ms, for an acknowledgement.
   */
  public static void answerAtOnce(GatewayServer server) {
    server.addListener(
        new DefaultGatewayServerListener() {
          @Override
          public void connectionStarted(Py4JServerConnection connection) {
            try {
              connection.getSocket().setTcpNoDelay(true);
            } catch (SocketException error) {
              throw new UncheckedIOException(error);
            }
          }
        });
  }
}
