//! An ordinary tokio and quinn program over a simulated network, run twice with the same packets.
//! The module `program` uses only tokio and quinn; `simulate` is all the glue.
use std::{error::Error, sync::Arc, time::Duration};

use fathom_netsim::Time;
use fathom_netsim::path::PathSpec;
use fathom_netsim::sim::{Executor, Group, server_address};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

mod program {
    use std::{net::SocketAddr, time::Duration};

    use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream};
    use tokio::{task::JoinSet, time};

    use super::Result;

    pub(crate) async fn serve(endpoint: Endpoint) {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(answer(incoming));
        }
    }

    async fn answer(incoming: Incoming) -> Result<()> {
        let connection = incoming.await?;
        loop {
            let (send, receive) = connection.accept_bi().await?;
            tokio::spawn(respond(send, receive));
        }
    }

    async fn respond(mut send: SendStream, mut receive: RecvStream) -> Result<()> {
        let size = String::from_utf8(receive.read_to_end(16).await?)?.parse()?;
        send.write_all(&vec![7; size]).await?;
        Ok(send.finish()?)
    }

    async fn request(connection: Connection, size: usize) -> Result<usize> {
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(size.to_string().as_bytes()).await?;
        send.finish()?;
        Ok(receive.read_to_end(size).await?.len())
    }

    /// Returns the time of 20 requests, which begin 10 ms apart.
    pub(crate) async fn fetch(endpoint: &Endpoint, server: SocketAddr) -> Result<Duration> {
        let connection = endpoint.connect(server, "localhost")?.await?;
        let (mut requests, began) = (JoinSet::new(), time::Instant::now());
        for _ in 0..20 {
            let request = request(connection.clone(), 50_000);
            requests.spawn(time::timeout(Duration::from_secs(5), request));
            time::sleep(Duration::from_millis(10)).await;
        }
        while let Some(bytes) = requests.join_next().await {
            assert_eq!(bytes???, 50_000);
        }
        Ok(began.elapsed())
    }
}

fn tls() -> Result<(ServerConfig, ClientConfig)> {
    // Ed25519 signatures have one length, so the handshakes of both runs have the same size.
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
    let cert = rcgen::CertificateParams::new(["localhost".to_owned()])?.self_signed(&key)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone())?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let accept = ServerConfig::with_single_cert(vec![cert.der().clone()], key.into())?;
    Ok((accept, ClientConfig::with_root_certificates(Arc::new(roots))?))
}

fn simulate() -> Result<(Duration, u64)> {
    let mut executor = Executor::new();
    let sim = executor.sim();
    let mut path = PathSpec { preset: Some("dsl".into()), ..PathSpec::default() };
    path.events.push("blackout:200ms@150ms".into());
    let (down, up) = sim.add_path(&path.check_simulated()?, 1);
    let (client, server) = (sim.client_socket(), sim.server_socket());
    let group = Group { client: client.id(), server: server.id(), down, up };
    let flow = sim.add_flow(sim.add_group(group));

    let (accept, connect) = tls()?;
    let config = |seed| EndpointConfig::default().rng_seed(Some([seed; 32])).clone();
    let (client, server, runtime) = (Arc::new(client), Arc::new(server), Arc::new(sim.clone()));
    let endpoint = Endpoint::new_with_abstract_socket;
    let server = endpoint(config(1), Some(accept), server, runtime.clone())?;
    let mut client = endpoint(config(2), None, client, runtime)?;
    client.set_default_client_config(connect);
    let program = async {
        tokio::spawn(program::serve(server));
        program::fetch(&client, server_address(flow)).await
    };
    Ok((executor.block_on_tokio(program, Time::from_millis(60_000))??, sim.trace_hash()))
}

pub(crate) fn main() -> Result<()> {
    let (first, second) = (simulate()?, simulate()?);
    println!("20 requests: {:?}; trace hashes: {:016x} {:016x}", first.0, first.1, second.1);
    if first == second { Ok(()) } else { Err("the runs differ".into()) }
}
