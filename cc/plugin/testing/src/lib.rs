//! Endpoints of test connections on both stacks: with a plug-in or stock, as client or server. Each
//! endpoint can talk to any other endpoint.

// `side.rs` is compiled for each stack.
#![allow(clippy::duplicate_mod)]

pub mod failing;
mod marked_endpoint;
pub mod marking;
pub mod on_noq;
pub mod on_quinn;
pub mod recording_socket;

use std::sync::Arc;
use std::time::Duration;

use fathom_cc::ControllerConfig;
use fathom_plugin::{ConnectionMonitor, Extension, Observer, Report};
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Application protocol of the connections.
pub const ALPN: &[u8] = b"fathom-test";

/// TLS configurations of both sides, valid for `localhost`.
#[derive(Clone)]
pub struct Identity {
    /// Configuration of servers.
    pub server: Arc<rustls::ServerConfig>,
    /// Configuration of clients.
    pub client: Arc<rustls::ClientConfig>,
}

/// Returns an identity with ring on both sides.
pub fn identity() -> Identity {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    identity_with(Arc::clone(&provider), provider)
}

/// Returns an identity with one crypto provider for each side.
pub fn identity_with(server: Arc<CryptoProvider>, client: Arc<CryptoProvider>) -> Identity {
    let signed =
        rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let certificate: CertificateDer<'static> = signed.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let mut server = rustls::ServerConfig::builder_with_provider(server)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("a server");
    server.alpn_protocols = vec![ALPN.to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let mut client = rustls::ClientConfig::builder_with_provider(client)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![ALPN.to_vec()];
    Identity { server: Arc::new(server), client: Arc::new(client) }
}

/// Timeout of a test. It is longer than any test takes on a busy machine, so only a hanging test
/// reaches it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Function that returns whether a side has seen enough.
pub type Sees = fn(&Report) -> bool;

/// Condition on the reports of both sides. The number of stamps per body depends on the
/// interleaving of packets and acknowledgements, so rounds continue until both sides have seen
/// enough.
#[derive(Clone)]
pub struct Enough {
    of: Sees,
    sides: Arc<Mutex<Vec<(ConnectionMonitor, Sees)>>>,
}

impl Enough {
    /// Adds the monitor of a side's connection.
    pub fn by(&self, monitor: Option<&ConnectionMonitor>) {
        let side = monitor.map(|monitor| (monitor.clone(), self.of));
        self.sides.lock().extend(side);
    }

    /// Returns whether both sides have seen enough.
    pub fn is_seen(&self) -> bool {
        self.sides.lock().iter().all(|(monitor, of)| of(&monitor.report()))
    }
}

/// Adds a condition to both sides: rounds continue until the client and the server have seen
/// enough.
pub fn until(
    client: SideConfig,
    server: SideConfig,
    [of_client, of_server]: [Sees; 2],
) -> (SideConfig, SideConfig) {
    let enough = Enough { of: of_client, sides: Arc::default() };
    let same = Enough { of: of_server, ..enough.clone() };
    (SideConfig { enough: Some(enough), ..client }, SideConfig { enough: Some(same), ..server })
}

/// Configuration of one side of a connection.
#[derive(Clone)]
pub struct SideConfig {
    /// Controller of the plug-in; `None` for the stack without a plug-in.
    pub controller_config: Option<Arc<dyn ControllerConfig>>,
    /// Exchange of one-way delays by this side.
    pub extension: Extension,
    /// Bytes sent instead of the extension's transport parameters.
    pub parameter: Option<&'static [u8]>,
    /// Bytes sent instead of the timestamp frame.
    pub stamp: Option<&'static [u8]>,
    /// Observer of the connection.
    pub observer: Option<Arc<dyn Observer>>,
    /// Bytes that the client sends and receives back in each round.
    pub bytes: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Condition for further rounds after `rounds` rounds; `None` for no further rounds.
    pub enough: Option<Enough>,
    /// Whether a key update precedes each round except the first.
    pub key_updates: bool,
    /// Number of datagrams of the maximum size that both sides send beside the stream.
    pub datagrams: usize,
    /// Marks that the server's socket sets on received datagrams.
    pub marks: Option<marking::Marks>,
    /// Record of what leaves the shaping socket; `None` without a shaping socket.
    pub shaping_socket: Option<recording_socket::Sizes>,
    /// Whether the client's endpoint ignores its shaping socket.
    pub unwired: bool,
    /// Whether MTU discovery is on.
    pub discovery: bool,
    /// Initial size of the largest datagram in bytes.
    pub mtu: u16,
    /// Maximum number of open paths (noq only).
    pub paths: u32,
}

impl SideConfig {
    /// Returns a side without a plug-in.
    pub fn stock() -> Self {
        Self {
            controller_config: None,
            extension: Extension::default(),
            parameter: None,
            stamp: None,
            observer: None,
            bytes: 500_000,
            rounds: 1,
            enough: None,
            key_updates: false,
            datagrams: 0,
            marks: None,
            shaping_socket: None,
            unwired: false,
            discovery: true,
            mtu: 1_200,
            paths: 0,
        }
    }

    /// Returns a side with a plug-in and the controller of this name and options.
    pub fn with_plugin(spec: &str, extension: Extension) -> Self {
        Self {
            controller_config: Some(fathom_cc::catalogue::parse(spec).expect("a controller")),
            extension,
            ..Self::stock()
        }
    }
}

/// Result of one side.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Report of the monitor after each round.
    pub reports: Vec<Report>,
    /// Transport error code that ended the connection early, and whether this side raised it.
    pub error: Option<(u64, bool)>,
    /// Number of datagrams received from the other side.
    pub datagrams: usize,
}

impl Outcome {
    /// Returns the last report of a side with a plug-in.
    pub fn report(&self) -> Report {
        *self.reports.last().expect("a side with a plug-in")
    }
}

/// Returns a body in which every byte depends on its position.
pub fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Stack on which a side runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// quinn.
    Quinn,
    /// noq.
    Noq,
}

/// All pairs of stacks, as client and server, with noq on at least one side.
pub const WITH_NOQ: [(On, On); 3] =
    [(On::Noq, On::Noq), (On::Quinn, On::Noq), (On::Noq, On::Quinn)];
/// All pairs of stacks, as client and server.
pub const EVERY: [(On, On); 4] =
    [(On::Noq, On::Noq), (On::Quinn, On::Noq), (On::Noq, On::Quinn), (On::Quinn, On::Quinn)];

/// Runs one connection. Returns the results of client and server.
pub async fn run(on: (On, On), client: SideConfig, server: SideConfig) -> (Outcome, Outcome) {
    let identity = identity();
    let (to, serving) = match on.1 {
        On::Quinn => on_quinn::serve(server, &identity),
        On::Noq => on_noq::serve(server, &identity),
    };
    let both = async {
        let client = match on.0 {
            On::Quinn => on_quinn::fetch(client, identity, to).await,
            On::Noq => on_noq::fetch(client, identity, to).await,
        };
        (client, serving.await.expect("the server ended well"))
    };
    tokio::time::timeout(PATIENCE, both).await.expect("done in time")
}

/// Runs one connection that ends early. Returns the transport error code that the server saw, and
/// whether the server raised it.
pub async fn ended(on: (On, On), client: SideConfig, server: SideConfig) -> Option<(u64, bool)> {
    let identity = identity();
    let (to, serving) = match on.1 {
        On::Quinn => on_quinn::serve_to_the_end(&server, &identity),
        On::Noq => on_noq::serve_to_the_end(&server, &identity),
    };
    let both = async {
        match on.0 {
            On::Quinn => on_quinn::fetch_to_the_end(client, identity, to).await,
            On::Noq => on_noq::fetch_to_the_end(client, identity, to).await,
        }
        serving.await.expect("the server ended well")
    };
    tokio::time::timeout(PATIENCE, both).await.expect("done in time")
}
