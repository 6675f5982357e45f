import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * Echoes over JSSE, updates keys, closes first, or echoes over two connections, the
 * second one resumed.
 *
 * usage: java Peer.java STORE, and then on standard input, a line for each connection:
 * client|server PORT SUITE PACKET echo|update|close|resume
 */
public class Peer {
  public static void main(String[] args) throws Exception {
    char[] password = "password".toCharArray();
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(new FileInputStream(args[0]), password);
    KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
    keys.init(store, password);
    KeyStore trust = KeyStore.getInstance("PKCS12");
    trust.load(null, null);
    trust.setCertificateEntry("authority", store.getCertificateChain("peer")[1]);
    TrustManagerFactory trusted = TrustManagerFactory.getInstance("PKIX");
    trusted.init(trust);

    java.util.Scanner in = new java.util.Scanner(System.in);
    while (in.hasNextLine()) {
      String[] words = in.nextLine().split(" ");
      // A new context for each line, so that no session is resumed under another suite.
      SSLContext context = SSLContext.getInstance("TLSv1.3");
      context.init(keys.getKeyManagers(), trusted.getTrustManagers(), null);
      new Thread(() -> {
        try {
          for (int i = words[4].equals("resume") ? 2 : 1; i > 0; i--) {
            serve(connect(context, words), words);
          }
        } catch (Exception e) {
          System.err.println("failed " + words[1] + ": " + e);
        }
      }).start();
    }
    System.exit(0);
  }

  static SSLSocket connect(SSLContext context, String[] words) throws IOException {
    int port = Integer.parseInt(words[1]);
    SSLSocket socket;
    InetAddress loopback = InetAddress.getByAddress("localhost", new byte[] {127, 0, 0, 1});
    if (words[0].equals("server")) {
      SSLServerSocket listener =
          (SSLServerSocket) context.getServerSocketFactory().createServerSocket(port, 1, loopback);
      socket = (SSLSocket) listener.accept();
      listener.close();
    } else {
      socket = (SSLSocket) context.getSocketFactory().createSocket(loopback, port);
    }
    SSLParameters parameters = socket.getSSLParameters();
    parameters.setProtocols(new String[] {"TLSv1.3"});
    parameters.setCipherSuites(new String[] {words[2]});
    if (!words[3].equals("0")) {
      parameters.setMaximumPacketSize(Integer.parseInt(words[3]));
    }
    if (words[0].equals("client")) {
      parameters.setEndpointIdentificationAlgorithm("HTTPS");
    }
    socket.setSSLParameters(parameters);
    socket.startHandshake();
    return socket;
  }

  static void serve(SSLSocket socket, String[] words) throws IOException {
    String mode = words[4];
    InputStream in = socket.getInputStream();
    OutputStream out = socket.getOutputStream();
    if (mode.equals("close")) {
      out.write("bye".getBytes());
    } else {
      byte[] buffer = new byte[1 << 16];
      int n;
      try {
        while ((n = in.read(buffer)) > 0) {
          if (mode.equals("update")) {
            socket.startHandshake(); // after the handshake this is a KeyUpdate
          }
          out.write(buffer, 0, n);
        }
      } catch (SSLException e) {
        System.err.println("truncated " + words[1] + ": " + e.getMessage());
      }
    }
    socket.close();
  }
}
