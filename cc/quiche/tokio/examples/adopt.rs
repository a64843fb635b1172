//! An echo server and its client on plain quiche, each in a thread with a std socket, with a
//! controller of Fathom's. The code between the marks is what Fathom adds to a quiche program. The
//! comments show the code that it replaces.
//!
//! `cargo run --manifest-path cc/quiche/tokio/Cargo.toml --example adopt-quiche`

use std::error::Error;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use quiche::fathom::{ConnectionConfig, Extension, Offer};
use quiche::{Config, Connection, ConnectionId, RecvInfo};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Number of bytes sent and echoed.
const BODY: usize = 200_000;
/// The only stream.
const STREAM: u64 = 0;

pub(crate) fn main() -> Outcome<()> {
    let identity = tempfile::tempdir()?;
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    std::fs::write(identity.path().join("cert.pem"), signed.cert.pem())?;
    std::fs::write(identity.path().join("key.pem"), signed.signing_key.serialize_pem())?;

    let listening = UdpSocket::bind("127.0.0.1:0")?;
    let to = listening.local_addr()?;
    let path = identity.path().to_owned();
    let serving = std::thread::spawn(move || serve(&listening, &path));

    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut config = config()?;
    config.load_verify_locations_from_file(&identity.path().join("cert.pem").to_string_lossy())?;
    config.verify_peer(true);
    let id = ConnectionId::from_ref(&[1; 16]);
    let connection =
        quiche::connect(Some("localhost"), &id, socket.local_addr()?, to, &mut config)?;
    let body = vec![7; BODY];
    let (mut sent, mut got) = (0, Vec::new());
    run(connection, &socket, |connection| {
        if !connection.is_established() {
            return Ok(());
        }
        while sent < BODY {
            match connection.stream_send(STREAM, &body[sent..], true) {
                Ok(bytes) => sent += bytes,
                Err(quiche::Error::Done) => break,
                Err(e) => return Err(e),
            }
        }
        if read(connection, &mut got)? {
            connection.close(true, 0, b"")?;
        }
        Ok(())
    })?;
    assert!(got == body, "the body came back");
    serving.join().map_err(|_| "the server panicked")?
}

fn config() -> quiche::Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"echo"])?;
    config.set_max_idle_timeout(5_000);
    config.set_initial_max_data(1_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_bidi_remote(1_000_000);
    config.set_initial_max_streams_bidi(1);
    // >>> Fathom: before, config.set_cc_algorithm_name("cubic")?
    config.set_cc_algorithm_name("sync:signal=either")?;
    // <<<
    // >>> Fathom: each packet stamped and echoed, as in the Sync-TCP paper. Without this, stamps travel beside ACK frames.
    let extension = Extension { offer: Some(Offer::Paper), ..Extension::default() };
    config.set_fathom(ConnectionConfig { extension, ..ConnectionConfig::default() });
    // <<<
    Ok(config)
}

/// Echoes the stream of one connection.
fn serve(socket: &UdpSocket, identity: &Path) -> Outcome<()> {
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(&identity.join("cert.pem").to_string_lossy())?;
    config.load_priv_key_from_pem_file(&identity.join("key.pem").to_string_lossy())?;
    let (_, from) = socket.peek_from(&mut [0; 1_500])?;
    // There is one client and no routing. A server with many clients chooses random IDs.
    let id = ConnectionId::from_ref(&[2; 16]);
    let connection = quiche::accept(&id, None, socket.local_addr()?, from, &mut config)?;

    // >>> Fathom: a view into the connection, good after its end as well.
    let monitor = connection.fathom().ok_or("neither a controller of ours nor the extension")?;
    // <<<
    let (mut body, mut ended, mut echoed) = (Vec::new(), false, 0);
    run(connection, socket, |connection| {
        ended = ended || read(connection, &mut body)?;
        while ended && echoed < body.len() {
            match connection.stream_send(STREAM, &body[echoed..], true) {
                Ok(bytes) => echoed += bytes,
                Err(quiche::Error::Done) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    })?;
    let report = monitor.report();
    let controller = report.controller.ok_or("the controller never acted")?;
    println!(
        "server: one-way delays negotiated: {}, {} samples",
        report.negotiated, report.samples.samples
    );
    println!("  window {} bytes, {} reductions", controller.window, controller.reductions);
    Ok(())
}

/// Reads all available data. Returns whether the stream has ended.
fn read(connection: &mut Connection, to: &mut Vec<u8>) -> quiche::Result<bool> {
    let mut buf = [0; 65_535];
    loop {
        match connection.stream_recv(STREAM, &mut buf) {
            Ok((bytes, last)) => {
                to.extend_from_slice(&buf[..bytes]);
                if last {
                    return Ok(true);
                }
            }
            Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}

/// Drives a connection to its end, as any quiche application does.
fn run(
    mut connection: Connection,
    socket: &UdpSocket,
    mut work: impl FnMut(&mut Connection) -> quiche::Result<()>,
) -> Outcome<()> {
    let local = socket.local_addr()?;
    let mut buf = [0; 65_535];
    while !connection.is_closed() {
        work(&mut connection)?;
        loop {
            match connection.send(&mut buf) {
                Ok((bytes, info)) => drop(socket.send_to(&buf[..bytes], info.to)?),
                Err(quiche::Error::Done) => break,
                Err(e) => return Err(e.into()),
            }
        }
        // The time of a paced packet is a timeout like any other.
        let wait =
            connection.timeout().unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(wait))?;
        match socket.recv_from(&mut buf) {
            Ok((bytes, from)) => {
                match connection.recv(&mut buf[..bytes], RecvInfo { from, to: local }) {
                    Ok(_) | Err(quiche::Error::Done) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                connection.on_timeout()
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
