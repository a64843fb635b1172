//! A quinn application over a bottleneck, run twice: the same packets at the same nanoseconds.
//! `serve` and `fetch` are the application. Only the creation of its endpoints is special.
use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};

use fathom_netsim::sim::{Executor, Group, Path, server_address};
use fathom_netsim::{Rate, Time, link::Link, queue::QueueSpec};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

async fn serve(endpoint: Endpoint) -> Result<(), Box<dyn Error>> {
    let connection = endpoint.accept().await.ok_or("closed")?.await?;
    let (mut send, _) = connection.accept_bi().await?;
    send.write_all(&[7; 1_000_000]).await?;
    send.finish()?;
    connection.closed().await;
    Ok(())
}

async fn fetch(endpoint: Endpoint, server: SocketAddr) -> Result<usize, Box<dyn Error>> {
    let connection = endpoint.connect(server, "localhost")?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(b"?").await?;
    Ok(receive.read_to_end(usize::MAX).await?.len())
}

fn run() -> Result<u64, Box<dyn Error>> {
    let mut executor = Executor::new();
    let sim = executor.sim();
    let rate = Rate::from_bits_per_sec(10_000_000);
    let link = sim.add_link(Link::new(rate, QueueSpec::droptail_packets(50).build(rate, 1)));
    let (client, server) = (sim.client_socket(), sim.server_socket());
    let (down, up) =
        (Path::over(link, Duration::from_millis(20)), Path::direct(Duration::from_millis(20)));
    let flow =
        sim.add_flow(sim.add_group(Group { client: client.id(), server: server.id(), down, up }));

    // Ed25519 signatures have one length, so the handshakes of both runs have the same size.
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
    let cert =
        rcgen::CertificateParams::new(["localhost".to_owned()])?.self_signed(&key)?.der().clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.clone())?;
    let accept = ServerConfig::with_single_cert(
        vec![cert],
        PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
    )?;
    let config = |seed| EndpointConfig::default().rng_seed(Some([seed; 32])).clone();
    let runtime = Arc::new(sim.clone());
    let server = Endpoint::new_with_abstract_socket(
        config(1),
        Some(accept),
        Arc::new(server),
        runtime.clone(),
    )?;
    let mut client =
        Endpoint::new_with_abstract_socket(config(2), None, Arc::new(client), runtime)?;
    client.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots))?);
    sim.spawn(async { serve(server).await.unwrap_or_else(|error| eprintln!("server: {error}")) });
    sim.spawn(
        async move { println!("bytes fetched: {:?}", fetch(client, server_address(flow)).await) },
    );
    executor.run(Time::from_millis(60_000));
    Ok(sim.trace_hash())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (first, second) = (run()?, run()?);
    println!("trace hashes: {first:016x} {second:016x}");
    if first == second { Ok(()) } else { Err("the runs differ".into()) }
}
