//! iroh, which has its own TLS, with one of Fathom's controllers: two endpoints on loopback
//! transfer a megabyte.

use anyhow::Context as _;
use iroh::endpoint::{PathId, QuicTransportConfig, RelayMode, presets};
use iroh::{Endpoint, EndpointAddr};

const ALPN: &[u8] = b"fathom-test";
const BYTES: usize = 1_000_000;

async fn endpoint() -> anyhow::Result<Endpoint> {
    let factory = fathom_noq::Plugin::named("vegas")?.controller_factory()?;
    let transport = QuicTransportConfig::builder().congestion_controller_factory(factory).build();
    let builder = Endpoint::builder(presets::Minimal).relay_mode(RelayMode::Disabled).transport_config(transport);
    Ok(builder.alpns(vec![ALPN.to_vec()]).bind_addr("127.0.0.1:0")?.bind().await?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (server, client) = (endpoint().await?, endpoint().await?);
    let socket = server.bound_sockets().into_iter().find(|socket| socket.is_ipv4()).context("no socket")?;
    let address = EndpointAddr::new(server.id()).with_ip_addr(socket);
    let sending = tokio::spawn(async move {
        let connection = server.accept().await.context("closed")?.await?;
        let (mut send, _) = connection.accept_bi().await?;
        send.write_all(&vec![7; BYTES]).await?;
        send.finish()?;
        let controller = format!("{:?}", connection.congestion_state(PathId::ZERO));
        connection.closed().await;
        anyhow::Ok(controller)
    });
    let connection = client.connect(address, ALPN).await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(b"?").await?;
    let got = recv.read_to_end(BYTES).await?;
    connection.close(0u32.into(), b"");
    let controller = sending.await??;
    let rule = controller.split("config: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or(&controller);
    println!("{} bytes under {rule}", got.len());
    Ok(())
}
