//! Tests of loads on servers that misbehave.

use super::*;

/// Session store of a server that issues tickets but recognises none.
#[derive(Debug)]
struct Forgetful;

impl rustls::server::StoresServerSessions for Forgetful {
    fn put(&self, _: Vec<u8>, _: Vec<u8>) -> bool {
        true
    }

    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Starts a server that answers with five bytes and `promised` as the content-length. The server
/// offers 0-RTT but rejects it.
fn odd_server(promised: &'static str) -> SocketAddr {
    let identity = Identity::self_signed(&[]).unwrap();
    let mut tls = (*identity.server_with_early_data().unwrap()).clone();
    tls.session_storage = Arc::new(Forgetful);
    let crypto = QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(async move {
                let connection = h3_quinn::Connection::new(incoming.await.ok()?);
                let mut http =
                    h3::server::Connection::<_, bytes::Bytes>::new(connection).await.ok()?;
                while let Some(resolver) = http.accept().await.ok()? {
                    let (_, mut stream) = resolver.resolve_request().await.ok()?;
                    let head = http::Response::builder()
                        .header("content-length", promised)
                        .body(())
                        .unwrap();
                    stream.send_response(head).await.ok()?;
                    stream.send_data(bytes::Bytes::from_static(b"12345")).await.ok()?;
                    stream.finish().await.ok()?;
                }
                Some(())
            });
        }
    });
    address
}

/// A frame length of 2^40 as a varint.
const ENDLESS: u64 = 0xc0 << 56 | 1 << 40;
/// Status 200 in a HEADERS frame: field 25 of QPACK's static table.
const OK: &[u8] = b"\x01\x03\x00\x00\xd9";

/// Bytes that arrive before a busy client reads: 16 MiB, the credit returned for up to 1 MiB of a
/// control stream, and some margin.
const WINDOW: u64 = 20 << 20;

/// Stream on which the server writes.
#[derive(Clone, Copy)]
enum On {
    Answer,
    Control,
}

/// Starts a server that writes `begin` once and then `more` repeatedly. The channel reports how
/// many bytes it wrote, and the error that stopped it.
fn endless_server(
    on: On,
    begin: Vec<u8>,
    more: Vec<u8>,
) -> (SocketAddr, mpsc::UnboundedReceiver<(u64, WriteError)>) {
    let crypto = QuicServerConfig::try_from(
        (*Identity::self_signed(&[]).unwrap().server().unwrap()).clone(),
    )
    .unwrap();
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    // Limits the unsent part of the written data.
    Arc::get_mut(&mut config.transport).unwrap().send_window(64 << 10);
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let (end, ends) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let (begin, more, end) = (begin.clone(), more.clone(), end.clone());
            tokio::spawn(async move {
                let connection = incoming.await.ok()?;
                let mut control = connection.open_uni().await.ok()?;
                control.write_all(b"\x00\x04\x00").await.ok()?;
                let (mut answer, _request) = connection.accept_bi().await.ok()?;
                let stream = match on {
                    On::Answer => &mut answer,
                    On::Control => &mut control,
                };
                stream.write_all(&begin).await.ok()?;
                let mut written = 0;
                loop {
                    match stream.write_all(&more).await {
                        Ok(()) => written += more.len() as u64,
                        Err(why) => return end.send((written, why)).ok(),
                    }
                }
            });
        }
    });
    (address, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn load_client_does_not_buffer_an_endless_frame_of_a_server() {
    let (endless, zeros) = (ENDLESS.to_be_bytes(), vec![0; 4096]);
    let excessive = WriteError::Stopped(VarInt::from_u32(0x107));
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        for begin in [
            // The frames are HEADERS, a reserved frame (RFC 9114 §7.2.8), a reserved frame after a
            // header, and trailers.
            [b"\x01", &endless[..]].concat(),
            [b"\x21", &endless[..]].concat(),
            [OK, b"\x21", &endless].concat(),
            [OK, b"\x00\x01a\x01", &endless].concat(),
        ] {
            let (address, mut ends) = endless_server(On::Answer, begin, zeros.clone());
            let config = config(address, closed(address, 1, 1, &["/"]));
            let outcome = run(LoadConfig { stack, requests: Some(1), ..config }).await.unwrap();
            let (failed, why) = &outcome.counts.failures[FailureKind::Reset as usize];
            assert_eq!(*failed, 1, "{stack}: {:?}", outcome.counts);
            assert!(why.as_ref().unwrap().contains("exceeds its limit"), "{stack}: {why:?}");
            let (written, why) = ends.recv().await.unwrap();
            assert_eq!(why, excessive, "{stack}");
            assert!(written < WINDOW, "{stack}: {written}");
        }
        // On the control stream, such a frame ends the connection.
        let (address, mut ends) =
            endless_server(On::Control, [b"\x21", &endless[..]].concat(), zeros.clone());
        let config = config(address, closed(address, 1, 1, &["/"]));
        let outcome = run(LoadConfig { stack, requests: Some(1), ..config }).await.unwrap();
        assert_eq!(failures(&outcome, FailureKind::Reset), 1, "{stack}: {:?}", outcome.counts);
        let (written, _) = ends.recv().await.unwrap();
        assert!(written < WINDOW, "{stack}: {written}");
    }
    let (address, mut ends) = endless_server(On::Answer, [b"\x01", &endless[..]].concat(), zeros);
    let options = probe::ProbeOptions { trust: Trust::Insecure, ..Default::default() };
    let (origin, url) = (origin(address), origin(address).url("/").unwrap());
    let answer = probe::probe(&origin, &url, &options).await.unwrap();
    assert!(
        matches!(&answer.verdict, probe::ExtensionSupport::Unreachable(why) if why.to_string().contains("limit")),
        "{answer:?}"
    );
    assert!(ends.recv().await.unwrap().0 < WINDOW);
}

#[tokio::test(flavor = "multi_thread")]
async fn response_body_in_small_frames_is_flow_controlled() {
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        let (address, mut ends) =
            endless_server(On::Answer, OK.to_vec(), b"\x00\x01a".repeat(1_000));
        let traffic = closed(address, 1, 1, &["/"]);
        let timeout = Duration::from_secs(2);
        let outcome =
            run(LoadConfig { stack, timeout, requests: Some(1), ..config(address, traffic) })
                .await
                .unwrap();
        // The request times out. noq 1.4 gives up earlier: it counts 2,048 unread packets as gaps,
        // as quinn once did (quinn-rs/quinn#2809).
        assert_eq!(outcome.counts.failed(), 1, "{stack}: {:?}", outcome.counts);
        let (written, _) = ends.recv().await.unwrap();
        let read = outcome.counts.bytes * 3;
        // A client that reads ahead would buffer hundreds of megabytes and grant flow-control credit.
        assert!(written < read + WINDOW, "{stack}: {written}, of which {read} were read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_lost_with_rejected_0rtt_is_sent_again() {
    let address = odd_server("5");
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        let traffic = at_rate(address, 50.0, "/", None);
        let outcome = run(LoadConfig {
            stack,
            zero_rtt: true,
            requests: Some(10),
            ..config(address, traffic)
        })
        .await
        .unwrap();
        let of = &outcome.connections;
        assert_eq!(
            (outcome.counts.completed, of.early_rejected, of.early_accepted),
            (10, 10, 0),
            "{stack} {outcome:?}"
        );
        assert_eq!((of.opened, outcome.phases.connect.count()), (10, 10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn response_body_of_wrong_length_counts_as_failure() {
    let address = odd_server("7");
    let outcome =
        run(LoadConfig { requests: Some(3), ..config(address, closed(address, 1, 1, &["/"])) })
            .await
            .unwrap();
    assert_eq!(
        (failures(&outcome, FailureKind::Body), outcome.counts.bytes),
        (3, 15),
        "{:?}",
        outcome.counts
    );
}

/// Starts a server that answers every request with these bytes and then ends the stream.
fn fixed_server(answer: Vec<u8>) -> SocketAddr {
    let crypto = QuicServerConfig::try_from(
        (*Identity::self_signed(&[]).unwrap().server().unwrap()).clone(),
    )
    .unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let connection = incoming.await.ok()?;
                let mut control = connection.open_uni().await.ok()?;
                control.write_all(b"\x00\x04\x00").await.ok()?;
                while let Ok((mut send, _request)) = connection.accept_bi().await {
                    send.write_all(&answer).await.ok()?;
                    send.finish().ok()?;
                }
                Some(())
            });
        }
    });
    address
}

/// Returns a HEADERS frame of entries of QPACK's static table and literal fields (RFC 9204 §4.5).
fn head(status: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = [b"\0\0", status].concat();
    for (name, value) in fields {
        // Names have less than 7 + 128 bytes, values less than 127.
        section.extend_from_slice(&[0x27, u8::try_from(name.len() - 7).unwrap()]);
        section.extend_from_slice(name.as_bytes());
        section.push(u8::try_from(value.len()).unwrap());
        section.extend_from_slice(value.as_bytes());
    }
    [&[1, u8::try_from(section.len()).unwrap()], &section[..]].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn unusual_responses_complete_or_fail_with_a_reason() {
    let ok = |frames: &[u8]| [OK, frames].concat();
    let early_hints = head(b"\xd8", &[]);
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        for (what, answer, bytes) in [
            ("empty DATA frames", ok(b"\0\0\0\x01a\0\0\0\x01b\0\0"), 2),
            ("an interim response", [&early_hints[..], &early_hints, OK, b"\0\x02ab"].concat(), 2),
            ("trailers", ok(b"\0\x02ab\x01\x02\0\0"), 2),
        ] {
            let address = fixed_server(answer);
            let config = config(address, closed(address, 1, 1, &["/"]));
            let outcome = run(LoadConfig { stack, requests: Some(5), ..config }).await.unwrap();
            assert_eq!(
                (outcome.counts.completed, outcome.counts.bytes),
                (5, 5 * bytes),
                "{stack}, {what}"
            );
        }
        for (what, answer, reason) in [
            ("DATA cut off at once", ok(b"\0\x20"), "H3_FRAME_ERROR"),
            ("DATA cut off later", ok(b"\0\x20abc"), "H3_FRAME_ERROR"),
            ("HEADERS cut off", b"\x01\x20\0\0".to_vec(), "H3_FRAME_ERROR"),
            ("no header", Vec::new(), "without a header"),
            ("a header and another", [OK, OK].concat(), "':status' is in the trailers"),
            ("two statuses", head(b"\xd9\xd9", &[]), "':status' occurs twice"),
            ("no status", head(b"", &[]), "':status' is missing"),
            ("a path", head(b"\xd9\xc1", &[]), "':path'"),
            ("a field of HTTP/1.1", head(b"\xd9", &[("connection", "close")]), "'connection'"),
            ("chunked", head(b"\xd9", &[("transfer-encoding", "chunked")]), "'transfer-encoding'"),
            ("an upper-case name", head(b"\xd9", &[("X-Upper-Case", "a")]), "X-Upper-Case"),
            ("a push promise", ok(b"\x05\x03\0\0\0"), "H3_ID_ERROR"),
            ("an undecodable header", b"\x01\x03\0\0\x80".to_vec(), "QPACK_DECOMPRESSION_FAILED"),
        ] {
            let address = fixed_server(answer);
            let config = config(address, closed(address, 1, 1, &["/"]));
            let outcome = run(LoadConfig { stack, requests: Some(3), ..config }).await.unwrap();
            let (failed, why) = &outcome.counts.failures[FailureKind::Protocol as usize];
            assert_eq!(*failed, 3, "{stack}, {what}: {:?}", outcome.counts);
            assert!(why.as_ref().unwrap().contains(reason), "{stack}, {what}: {why:?}");
        }
    }
}
