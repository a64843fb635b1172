//! HTTP/3 on every stack, in virtual time: control streams precede responses, and servers learn
//! when their responses have arrived.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fathom_http3::error::Code;
use fathom_http3::priority::Priority;
use fathom_http3::transport::{self, ConnectionError};
use fathom_http3::{Config, Error, client, server};
use fathom_netsim::link::Link;
use fathom_netsim::queue::QueueSpec;
use fathom_netsim::sim::{Executor, Group, Path, SimHandle, server_address};
use fathom_netsim::{Rate, Time};
#[cfg(feature = "quiche")]
use fathom_stacks::BoringTls;
use fathom_stacks::{
    Connection, Controller, Endpoint, EndpointSettings, ReadOrder, Stack, Tls, UseOfStack,
};
use futures_util::future::{Either, join, select};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::sync::oneshot;

/// One-way delay of the path.
const DELAY: Duration = Duration::from_millis(20);
/// Number of bytes that a connection buffers.
const SEND_WINDOW: u64 = 256 << 10;
const PIECE: usize = 64 << 10;
static ZEROS: [u8; PIECE] = [0; PIECE];
const REQUEST: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
const OK: [(&str, &str); 1] = [(":status", "200")];

/// A test of the two ends of a connection.
trait Test {
    async fn run<C: transport::Connection>(&self, stack: Stack, sim: &SimHandle, ends: Ends<C>);
}

struct Ends<C: transport::Connection> {
    client: client::Connection<C>,
    sender: client::RequestSender<C>,
    server: server::Connection<C>,
}

/// A test on one of the stacks.
struct OnStack<'a, T> {
    test: &'a T,
    stack: Stack,
}

impl<T: Test> OnStack<'_, T> {
    /// Runs the test over a link with a rate of 10 Mbit/s.
    fn run<E: Endpoint>(&self, [client, server]: [E::Tls; 2]) {
        let mut executor = Executor::new();
        let sim = executor.sim();
        let rate = Rate::from_bits_per_sec(10_000_000);
        let link = sim.add_link(Link::new(rate, QueueSpec::droptail_packets(50).build(rate, 1)));
        let sockets = (sim.client_socket(), sim.server_socket());
        let group = Group {
            client: sockets.0.id(),
            server: sockets.1.id(),
            down: Path::over(link, DELAY),
            up: Path::direct(DELAY),
        };
        let address = server_address(sim.add_flow(sim.add_group(group)));
        let endpoint = |socket, tls| {
            let controllers = vec![Controller::reference(self.stack).expect("a controller")];
            let mut settings =
                EndpointSettings { seed: Some([1; 32]), ..EndpointSettings::new(tls, controllers) };
            // Small enough that a large response fills it.
            settings.transport.send_window = Some(SEND_WINDOW);
            E::in_simulation(socket, &sim, settings).expect("an endpoint")
        };
        let (client, server) = (endpoint(sockets.0, client), endpoint(sockets.1, server));
        let connected = async {
            let client = client.connect(address, "localhost", None, None).expect("a connection");
            let server = async {
                let incoming = server.accept().await.expect("a client");
                server.begin(incoming, 0, None).expect("a connection").await
            };
            let (client, server) = join(client, server).await;
            let [client, server] =
                [client, server].map(|end| end.expect("a handshake").http(ReadOrder::Ordered));
            let (client, sender) = client::Connection::new(client, Config::default());
            let server = server::Connection::new(server, Config::default());
            self.test.run(self.stack, &sim, Ends { client, sender, server }).await;
        };
        executor.block_on(connected, Time::from_millis(60_000)).expect("the test ends");
    }
}

impl<T: Test> UseOfStack for OnStack<'_, T> {
    type Output = ();

    fn on_rustls<E: Endpoint<Tls = Tls>>(self) {
        let (certificate, key) = identity();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone().into()).expect("a certificate");
        let mut client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], PrivatePkcs8KeyDer::from(key).into())
            .expect("an identity");
        client.alpn_protocols = vec![b"h3".to_vec()];
        server.alpn_protocols = vec![b"h3".to_vec()];
        self.run::<E>([Tls::Client(Arc::new(client)), Tls::Server(Arc::new(server))]);
    }

    #[cfg(feature = "quiche")]
    fn on_boring<E: Endpoint<Tls = BoringTls>>(self) {
        use boring::ssl::{SslContext, SslMethod, SslVerifyMode};

        let (certificate, key) = identity();
        let tls = |server| {
            let mut context = SslContext::builder(SslMethod::tls()).expect("a context");
            if server {
                let certificate = boring::x509::X509::from_der(&certificate).expect("DER");
                let key = boring::pkey::PKey::private_key_from_pkcs8(&key).expect("PKCS #8");
                context.set_certificate(&certificate).expect("a certificate");
                context.set_private_key(&key).expect("its key");
            } else {
                context.set_verify(SslVerifyMode::NONE);
            }
            let protocol = b"h3".to_vec();
            BoringTls { server, context, protocol, early_data: false, sessions: None }
        };
        self.run::<E>([tls(false), tls(true)]);
    }

    fn on_tcp(self) {}
}

/// Returns a certificate for `localhost` and its key, in DER and PKCS #8.
fn identity() -> (Vec<u8>, Vec<u8>) {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
    (identity.cert.der().to_vec(), identity.signing_key.serialize_der())
}

fn on_every_stack(test: &impl Test) {
    for stack in Stack::ALL.iter().copied() {
        stack.with(OnStack { test, stack });
    }
}

/// Runs `work` while `driver` drives the connection. Polls the driver first, so that its writes
/// take precedence if the connection's buffer is full.
async fn driven<T>(work: impl Future<Output = T>, driver: impl Future) -> T {
    match select(pin!(driver), pin!(work)).await {
        Either::Left(_) => panic!("the connection ended first"),
        Either::Right((done, _)) => done,
    }
}

/// A server that sends GOAWAY when an eighth of a most urgent response has arrived.
struct GoAway;

impl GoAway {
    const SIZE: usize = 64 * PIECE;
}

impl Test for GoAway {
    async fn run<C: transport::Connection>(&self, stack: Stack, _: &SimHandle, ends: Ends<C>) {
        let Ends { mut client, mut sender, mut server } = ends;
        let (arrived, eighth) = oneshot::channel();
        let serve = async {
            let mut request = server.accept().await.unwrap().expect("a request");
            request.head().await.unwrap();
            let (mut send, _receive) = request.split();
            send.set_priority(Priority { urgency: 0, incremental: false });
            let respond = async {
                send.send_head(&OK).await.unwrap();
                for _ in 0..Self::SIZE / PIECE {
                    send.send_data(Bytes::from_static(&ZEROS)).await.unwrap();
                }
                send.finish().await.unwrap();
                poll_fn(|cx| send.poll_delivered(cx)).await.unwrap()
            };
            let shut_down = async {
                eighth.await.expect("an eighth");
                server.shutdown(0).unwrap();
                server.accept().await.map(|request| request.is_some())
            };
            assert_eq!(driven(respond, shut_down).await, None);
        };
        let fetch = async {
            let mut stream = sender.send(&REQUEST, Bytes::new()).await.unwrap();
            stream.head().await.unwrap();
            let (mut received, mut arrived, mut goaway) = (0, Some(arrived), None);
            while let Some(data) = stream.data().await.unwrap() {
                received += data.len();
                if received > Self::SIZE / 8 {
                    arrived.take().into_iter().for_each(|arrived| arrived.send(()).unwrap());
                }
                if goaway.is_none() && !sender.is_open() {
                    goaway = Some(received);
                }
            }
            assert_eq!(received, Self::SIZE);
            goaway
        };
        let fetch = driven(fetch, poll_fn(|cx| client.poll_close(cx)));
        let ((), goaway) = join(serve, fetch).await;
        let goaway = goaway.expect("GOAWAY arrives before the end");
        assert!(goaway < Self::SIZE / 4, "{stack}: GOAWAY arrived after {goaway} bytes");
    }
}

#[test]
fn goaway_overtakes_the_most_urgent_response() {
    on_every_stack(&GoAway);
}

/// A server that waits until its response has arrived.
struct Acknowledged;

impl Test for Acknowledged {
    async fn run<C: transport::Connection>(&self, stack: Stack, sim: &SimHandle, ends: Ends<C>) {
        let Ends { mut client, mut sender, mut server } = ends;
        let read = Cell::new(false);
        let serve = async {
            let mut request = server.accept().await.unwrap().expect("a request");
            request.head().await.unwrap();
            request.respond(&OK, Bytes::from_static(&ZEROS)).await.unwrap();
            let sent = sim.instant();
            let code = poll_fn(|cx| request.sender().poll_delivered(cx)).await.unwrap();
            assert_eq!(code, None, "{stack}");
            assert!(sim.instant().duration_since(sent) >= 2 * DELAY, "{stack}");
            assert!(read.get(), "{stack}");
        };
        let fetch = async {
            let mut stream = sender.send(&REQUEST, Bytes::new()).await.unwrap();
            stream.head().await.unwrap();
            while stream.data().await.unwrap().is_some() {}
            read.set(true);
        };
        join(serve, driven(fetch, poll_fn(|cx| client.poll_close(cx)))).await;
    }
}

#[test]
fn delivery_ends_when_the_whole_response_is_acknowledged() {
    on_every_stack(&Acknowledged);
}

/// A client that gives up a response, or the connection.
enum GivesUp {
    Stream,
    Connection,
}

impl Test for GivesUp {
    async fn run<C: transport::Connection>(&self, stack: Stack, _: &SimHandle, ends: Ends<C>) {
        let Ends { mut client, mut sender, mut server } = ends;
        let (ended, end) = oneshot::channel();
        let serve = async {
            let mut request = server.accept().await.unwrap().expect("a request");
            request.head().await.unwrap();
            request.sender().send_head(&OK).await.unwrap();
            request.sender().send_data(Bytes::from_static(b"a part")).await.unwrap();
            let delivered = poll_fn(|cx| request.sender().poll_delivered(cx)).await;
            let _ = ended.send(());
            delivered
        };
        let fetch = async {
            let mut stream = driven(
                async {
                    let mut stream = sender.send(&REQUEST, Bytes::new()).await.unwrap();
                    stream.head().await.unwrap();
                    stream
                },
                poll_fn(|cx| client.poll_close(cx)),
            )
            .await;
            match self {
                Self::Stream => stream.receiver().stop(Code::H3_REQUEST_CANCELLED),
                Self::Connection => drop(client),
            }
            end.await.expect("an end");
        };
        let (delivered, ()) = join(serve, fetch).await;
        match (self, delivered) {
            // quiche does not report the code here.
            (Self::Stream, Ok(Some(Code(0)))) if stack.name() == "quiche" => {}
            (Self::Stream, Ok(Some(Code::H3_REQUEST_CANCELLED))) => {}
            (
                Self::Connection,
                Err(Error::Connection(ConnectionError::Application { code, .. })),
            ) if Code(code) == Code::H3_NO_ERROR => {}
            (_, delivered) => panic!("{stack}: {delivered:?}"),
        }
    }
}

#[test]
fn delivery_fails_when_the_peer_stops_the_stream() {
    on_every_stack(&GivesUp::Stream);
}

#[test]
fn delivery_fails_when_the_peer_closes_the_connection() {
    on_every_stack(&GivesUp::Connection);
}
