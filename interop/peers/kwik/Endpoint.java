// kwik, and flupke for HTTP/3, as client and server of the interop tests.

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Field;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import tech.kwik.agent15.TlsConstants.CipherSuite;
import tech.kwik.core.QuicClientConnection;
import tech.kwik.core.QuicConnection;
import tech.kwik.core.QuicSessionTicket;
import tech.kwik.core.QuicStream;
import tech.kwik.core.impl.HandshakeState;
import tech.kwik.core.impl.QuicClientConnectionImpl;
import tech.kwik.core.impl.QuicConnectionImpl;
import tech.kwik.core.log.Logger;
import tech.kwik.core.log.SysOutLogger;
import tech.kwik.core.server.ApplicationProtocolConnection;
import tech.kwik.core.server.ApplicationProtocolConnectionFactory;
import tech.kwik.core.server.ServerConnectionConfig;
import tech.kwik.core.server.ServerConnector;
import tech.kwik.flupke.Http3SingleConnectionClient;
import tech.kwik.flupke.server.Http3ApplicationProtocolFactory;

public final class Endpoint {
    static final int UNSUPPORTED = 127;
    static final int LONGEST_REQUEST = 4096;
    static final int STREAMS = 1000;
    /** Of the key in memory. */
    static final String ALIAS = "server";
    static final char[] PASSWORD = "memory".toCharArray();
    /** Times 50 ms. */
    static final int PATIENCE = 40;
    static final long WINDOW = 2 << 20;
    static final Set<String> TESTS = Set.of("handshake", "transfer", "longrtt", "retry", "resumption", "zerortt", "http3",
            "multiconnect", "keyupdate", "chacha20", "goodput", "crosstraffic");

    static String env(String name, String without) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? without : value;
    }

    /** Errors alone. */
    static Logger logger() {
        return new SysOutLogger();
    }

    record Request(URI uri, Path file) {}

    /** One connection of HTTP/0.9: a line with GET and a path, then the file. */
    static final class Files09 implements ApplicationProtocolConnectionFactory {
        final Path root;
        final ExecutorService threads = Executors.newCachedThreadPool();

        Files09(Path root) {
            this.root = root;
        }

        @Override
        public ApplicationProtocolConnection createConnection(String protocol, QuicConnection connection) {
            return new ApplicationProtocolConnection() {
                @Override
                public void acceptPeerInitiatedStream(QuicStream stream) {
                    threads.submit(() -> serve(stream));
                }
            };
        }

        @Override
        public int maxConcurrentPeerInitiatedBidirectionalStreams() {
            return STREAMS;
        }

        void serve(QuicStream stream) {
            try {
                String line = new String(stream.getInputStream().readNBytes(LONGEST_REQUEST), StandardCharsets.US_ASCII);
                Path file = line.startsWith("GET ") ? served(root, line.substring(4).trim()) : null;
                if (file == null) {
                    stream.resetStream(1);
                    return;
                }
                try (OutputStream out = stream.getOutputStream()) {
                    Files.copy(file, out);
                }
            } catch (IOException error) {
                System.err.println("kwik: " + error);
            }
        }
    }

    /** The file that a path names; null if there is none below the root. */
    static Path served(Path root, String path) {
        Path file = root.resolve(path.replaceFirst("^/+", "")).normalize();
        return file.startsWith(root) && Files.isRegularFile(file) ? file : null;
    }

    /** The certificates and their key. From files kwik takes RSA's alone. */
    static KeyStore identity(Path certs) throws Exception {
        Certificate[] chain;
        try (InputStream pem = Files.newInputStream(certs.resolve("cert.pem"))) {
            chain = CertificateFactory.getInstance("X.509").generateCertificates(pem).toArray(new Certificate[0]);
        }
        String pem = Files.readString(certs.resolve("priv.key")).replaceAll("-----[A-Z ]+-----", "");
        PrivateKey key = KeyFactory.getInstance(chain[0].getPublicKey().getAlgorithm())
                .generatePrivate(new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(pem)));
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        store.setKeyEntry(ALIAS, key, PASSWORD, chain);
        return store;
    }

    static void server(String test) throws Exception {
        Path certs = Path.of(env("CERTS", "/certs"));
        Path root = Path.of(env("WWW", "/www")).toRealPath();
        ServerConnectionConfig config = ServerConnectionConfig.builder()
                .retryRequired(test.equals("retry"))
                .maxIdleTimeoutInSeconds(30)
                .maxOpenPeerInitiatedBidirectionalStreams(STREAMS)
                .maxOpenPeerInitiatedUnidirectionalStreams(10)
                .build();
        InetSocketAddress at = new InetSocketAddress(env("IP", "::"), Integer.parseInt(env("PORT", "443")));
        ServerConnector server = ServerConnector.builder()
                .withSocket(new DatagramSocket(at))
                .withKeyStore(identity(certs), ALIAS, PASSWORD)
                .withConfiguration(config)
                .withLogger(logger())
                .build();
        if (test.equals("http3")) {
            server.registerApplicationProtocol("h3", new Http3ApplicationProtocolFactory((request, response) -> {
                Path file = request.method().equals("GET") ? served(root, request.path()) : null;
                response.setStatus(file == null ? 404 : 200);
                try (OutputStream out = response.getOutputStream()) {
                    if (file != null) {
                        Files.copy(file, out);
                    }
                }
            }));
        } else {
            server.registerApplicationProtocol("hq-interop", new Files09(root));
        }
        // SIGTERM is to leave with 0, not with Java's 143.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        server.start();
        Thread.currentThread().join();
    }

    static QuicClientConnection.Builder builder(String test, URI uri) throws Exception {
        QuicClientConnection.Builder builder = QuicClientConnection.newBuilder()
                .uri(uri)
                // Where packets go; the name stays that of the URL.
                .proxy(env("FATHOM_ADDRESS", "127.0.0.1"))
                .applicationProtocol(test.equals("http3") ? "h3" : "hq-interop")
                .connectTimeout(Duration.ofSeconds(20))
                .maxIdleTimeout(Duration.ofSeconds(30))
                .defaultStreamReceiveBufferSize(WINDOW)
                .logger(logger());
        if (test.equals("http3")) {
            builder.maxOpenPeerInitiatedUnidirectionalStreams(10);
        }
        if (test.equals("chacha20")) {
            builder.cipherSuite(CipherSuite.TLS_CHACHA20_POLY1305_SHA256);
        }
        if (System.getenv("SSLKEYLOGFILE") != null) {
            builder.secrets(Path.of(System.getenv("SSLKEYLOGFILE")));
        }
        Path ca = Path.of(env("CERTS", "/certs"), "ca.pem");
        if (Files.isRegularFile(ca)) {
            KeyStore roots = KeyStore.getInstance(KeyStore.getDefaultType());
            roots.load(null, null);
            try (InputStream pem = Files.newInputStream(ca)) {
                roots.setCertificateEntry("root", CertificateFactory.getInstance("X.509").generateCertificate(pem));
            }
            builder.customTrustStore(roots);
        } else {
            builder.noServerCertificateCheck();
        }
        return builder;
    }

    static byte[] line(Request request) {
        return ("GET " + request.uri().getPath() + "\r\n").getBytes(StandardCharsets.US_ASCII);
    }

    static void store(QuicStream stream, Request request) throws IOException {
        try (OutputStream out = Files.newOutputStream(request.file()); InputStream in = stream.getInputStream()) {
            in.transferTo(out);
        }
    }

    /** One connection and its files; the session tickets that it got. */
    static List<QuicSessionTicket> fetch(String test, List<Request> requests, QuicSessionTicket ticket) throws Exception {
        QuicClientConnection.Builder builder = builder(test, requests.get(0).uri());
        if (ticket != null) {
            builder.sessionTicket(ticket);
        }
        QuicClientConnection connection = builder.build();
        boolean early = ticket != null && test.equals("zerortt");
        List<QuicStream> streams = new ArrayList<>();
        if (early) {
            List<QuicClientConnection.StreamEarlyData> data = new ArrayList<>();
            for (Request request : requests) {
                data.add(new QuicClientConnection.StreamEarlyData(line(request), true));
            }
            streams = connection.connect(data);
        } else {
            connection.connect();
        }
        QuicClientConnectionImpl own = (QuicClientConnectionImpl) connection;
        if (test.equals("keyupdate")) {
            // It refuses, with no more than a line of log, before the server has confirmed the handshake.
            Field state = QuicConnectionImpl.class.getDeclaredField("handshakeState");
            state.setAccessible(true);
            for (int i = 0; i < PATIENCE && state.get(own) != HandshakeState.Confirmed; i++) {
                Thread.sleep(50);
            }
            own.updateKeys();
        }
        Http3SingleConnectionClient http3 = test.equals("http3")
                ? new Http3SingleConnectionClient(connection, Duration.ofSeconds(20), null) : null;
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<Void>> all = new ArrayList<>();
        for (int number = 0; number < requests.size(); number++) {
            Request request = requests.get(number);
            QuicStream begun = early ? streams.get(number) : null;
            Callable<Void> task = () -> {
                if (http3 != null) {
                    HttpRequest get = HttpRequest.newBuilder().uri(request.uri()).build();
                    HttpResponse<Path> answer = http3.send(get, HttpResponse.BodyHandlers.ofFile(request.file()));
                    if (answer.statusCode() != 200) {
                        throw new IOException(request.uri() + ": " + answer.statusCode());
                    }
                    return null;
                }
                QuicStream stream = begun;
                if (stream == null) {
                    stream = connection.createStream(true);
                    try (OutputStream out = stream.getOutputStream()) {
                        out.write(line(request));
                    }
                }
                store(stream, request);
                return null;
            };
            all.add(threads.submit(task));
        }
        for (Future<Void> each : all) {
            each.get();
        }
        if (early && own.getEarlyDataStatus() != QuicClientConnectionImpl.EarlyDataStatus.Accepted) {
            throw new IOException("the server took no 0-RTT");
        }
        // A ticket that comes after the file.
        for (int i = 0; i < PATIENCE && ticket == null && connection.getNewSessionTickets().isEmpty() && twice(test); i++) {
            Thread.sleep(50);
        }
        List<QuicSessionTicket> tickets = connection.getNewSessionTickets();
        connection.closeAndWait(Duration.ofSeconds(1));
        return tickets;
    }

    static boolean twice(String test) {
        return test.equals("resumption") || test.equals("zerortt");
    }

    static void client(String test) throws Exception {
        List<Request> all = new ArrayList<>();
        for (String url : env("REQUESTS", "").trim().split("\\s+")) {
            URI uri = URI.create(url);
            if (uri.getPath() == null || uri.getPath().isEmpty()) {
                throw new IOException("REQUESTS names no URL with a path");
            }
            all.add(new Request(uri, Path.of(env("DOWNLOADS", "/downloads")).resolve(Path.of(uri.getPath()).getFileName())));
        }
        if (twice(test)) {
            List<QuicSessionTicket> tickets = fetch(test, all.subList(0, 1), null);
            if (tickets.isEmpty()) {
                throw new IOException("the server sent no session ticket");
            }
            fetch(test, all.subList(1, all.size()), tickets.get(tickets.size() - 1));
        } else if (test.equals("multiconnect")) {
            for (Request request : all) {
                fetch(test, List.of(request), null);
            }
        } else {
            fetch(test, all, null);
        }
    }

    public static void main(String[] arguments) {
        String role = env("ROLE", ""), test = env("TESTCASE", "");
        if (!Set.of("client", "server").contains(role) || !TESTS.contains(test)) {
            System.err.println("kwik: no " + role + " of test " + test);
            System.exit(UNSUPPORTED);
        }
        int code = 0;
        try {
            if (role.equals("client")) {
                client(test);
            } else {
                server(test);
            }
        } catch (Exception error) {
            System.err.println("kwik: " + error);
            code = 1;
        }
        // Its threads would keep it alive.
        Runtime.getRuntime().halt(code);
    }
}
