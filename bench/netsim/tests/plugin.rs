//! Tests of Fathom's plug-in for quinn over the simulation.

#![cfg(feature = "quinn")]

use std::sync::Arc;
use std::time::Duration;

use fathom_netsim::Time;
use fathom_netsim::path::PathSpec;
use fathom_netsim::sim::{Executor, Group, SimHandle, server_address};
use fathom_quinn::{Plugin, Report, monitor};
use parking_lot::Mutex;
use quinn::{Connection, Endpoint, EndpointConfig, TransportConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

fn tls() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    let cert = rcgen::CertificateParams::new(["localhost".to_owned()])
        .and_then(|params| params.self_signed(&key))
        .expect("a certificate")
        .der()
        .clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.clone()).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .expect("a certificate and its key");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

async fn respond(connection: Connection) {
    while let Ok((mut send, _receive)) = connection.accept_bi().await {
        send.write_all(&[7; 300_000]).await.expect("sent");
        send.finish().expect("open");
    }
}

async fn request(connection: &Connection) -> usize {
    let (mut send, mut receive) = connection.open_bi().await.expect("open");
    send.write_all(b"?").await.expect("sent");
    receive.read_to_end(usize::MAX).await.expect("received").len()
}

/// Makes two requests with 20 s between them. Returns the trace hash and the server's report.
fn run(controller: &str, wire: impl Fn(Plugin, SimHandle) -> Plugin) -> (u64, Report) {
    let mut executor = Executor::new();
    let sim = executor.sim();
    let path = PathSpec {
        rate: Some("5Mbps".into()),
        rtt: Some("40ms".into()),
        loss: Some("1%".into()),
        ..PathSpec::default()
    };
    let (down, up) = sim.add_path(&path.check_simulated().expect("a path"), 1);
    let (client, server) = (sim.client_socket(), sim.server_socket());
    let group = Group { client: client.id(), server: server.id(), down, up };
    let flow = sim.add_flow(sim.add_group(group));

    let (server_tls, client_tls) = tls();
    let plugin = wire(Plugin::named(controller).expect("a controller"), sim.clone());
    let accept = plugin.server(server_tls).expect("a server").config();
    let connect =
        plugin.client(client_tls).expect("a client").shared_config(TransportConfig::default());
    let config = |seed| EndpointConfig::default().rng_seed(Some([seed; 32])).clone();
    let endpoint = Endpoint::new_with_abstract_socket;
    let runtime = Arc::new(sim.clone());
    let server = endpoint(config(1), Some(accept), Arc::new(server), runtime.clone()).expect("one");
    let client = endpoint(config(2), None, Arc::new(client), runtime).expect("one");
    let monitors = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&monitors);
    sim.spawn(async move {
        while let Some(incoming) = server.accept().await {
            let connection = incoming.await.expect("accepted");
            kept.lock().push(monitor(&connection).expect("the plug-in's"));
            respond(connection).await;
        }
    });
    let program = async {
        let connecting = client.connect_with(connect, server_address(flow), "localhost");
        let connection = connecting.expect("valid").await.expect("connected");
        assert_eq!(request(&connection).await, 300_000);
        sim.sleep_until(sim.time() + Duration::from_secs(20)).await;
        assert_eq!(request(&connection).await, 300_000);
    };
    executor.block_on(program, Time::from_millis(600_000)).expect("completes");
    let report = monitors.lock()[0].report();
    (sim.trace_hash(), report)
}

#[test]
fn plugin_on_the_simulated_runtime_is_deterministic() {
    for controller in ["sync:signal=either", "cubic", "vegas"] {
        let [first, second] =
            [(); 2].map(|()| run(controller, |plugin, sim| plugin.with_runtime(Arc::new(sim))));
        assert_eq!(first.0, second.0, "{controller}");
        let report = second.1;
        assert!(controller.starts_with(report.controller_name.expect("named")));
        assert_eq!(report.clock_error, Duration::ZERO);
        assert!(report.negotiated && report.one_way.is_some(), "{report:?}");
    }
}

#[test]
fn plugin_reports_a_clock_that_differs_from_the_stacks() {
    let (_, report) = run("cubic", |plugin, _| plugin);
    assert!(report.clock_error > Duration::from_secs(1), "{:?}", report.clock_error);
}
