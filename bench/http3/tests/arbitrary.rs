//! Servers and clients whose peers send arbitrary streams.

use std::future::poll_fn;

use bytes::Bytes;
use fathom_http3::transport::SendStream as _;
use fathom_http3::{Config, Error, client, qpack, server};

use super::connections::{GET, settle};
use super::memory;
use super::noise::{Noise, cases};

/// Appends a frame with a likely type and a likely payload.
fn frame(noise: &mut Noise, to: &mut Vec<u8>) {
    let payload = match noise.below(4) {
        0 if noise.below(2) == 0 => noise.text(6),
        0 => noise.bytes(6),
        1 => vec![noise.next() as u8 & 0x3f],
        _ => {
            let fields =
                [GET[0], GET[1], GET[2], GET[3], (":status", "200"), ("content-length", "3")];
            let (begin, end) = ([0, 0, 4, 5][noise.below(4)], [4, 4, 5, 6][noise.below(4)]);
            let mut section = Vec::new();
            qpack::encode(&fields[begin..end.max(begin)], &mut section);
            section
        }
    };
    let kind = [0, 1, 1, 1, 0x21, 4, 7, noise.next() as u8 & 0x3f][noise.below(8)];
    to.extend([kind, payload.len() as u8]);
    to.extend(payload);
}

/// Returns frames, mostly valid, of which a byte may be wrong and the end may be missing.
fn stream(noise: &mut Noise, begin: &[u8]) -> Vec<u8> {
    let mut bytes = begin.to_vec();
    for _ in 0..noise.below(4) {
        frame(noise, &mut bytes);
    }
    if noise.below(4) == 0 && !bytes.is_empty() {
        let at = noise.below(bytes.len());
        bytes[at] = noise.next() as u8;
    }
    if noise.below(8) == 0 {
        bytes.truncate(noise.below(bytes.len() + 1));
    }
    bytes
}

/// Opens some unidirectional streams and writes arbitrary frames or instructions on them.
async fn unidirectional(noise: &mut Noise, peer: &memory::Connection) -> Vec<memory::SendStream> {
    let mut kept = Vec::new();
    for _ in 0..noise.below(4) {
        let begin: &[u8] =
            [&b"\0\x04\0"[..], b"\0\x04\0", b"\x02\x3f\xbd\x01", b"\x03", b"\x21"][noise.below(5)];
        let mut bytes = stream(noise, begin);
        if begin[0] != 0 {
            bytes = [begin, &noise.bytes(8)].concat();
        }
        if peer.close_code().is_some() {
            break;
        }
        let mut stream = peer.open_unidirectional().await;
        for chunk in noise.cut(&bytes).into_iter().filter(|chunk| !chunk.is_empty()) {
            stream.write(chunk);
        }
        match noise.below(16) {
            0 => stream.reset(0x10c),
            1 => drop(stream),
            _ => kept.push(stream),
        }
    }
    kept
}

fn config(noise: &mut Noise) -> Config {
    let mut config = Config::default();
    if noise.below(2) == 0 {
        (config.qpack_table_capacity, config.qpack_blocked_streams) = (220, 1);
    }
    config
}

/// Every request that ends is answered or reset, unless it waits for the dynamic table or the
/// connection is closed.
#[tokio::test]
async fn arbitrary_clients_get_an_answer_or_an_error() {
    let mut noise = Noise::new(24);
    for case in 0..cases() {
        let (transport, client) = memory::pair();
        let config = config(&mut noise);
        let mut server = server::Connection::new(transport, config);
        let serving = tokio::spawn(async move {
            let mut requests = Vec::new();
            while let Ok(Some(mut request)) = server.accept().await {
                requests.push(tokio::spawn(async move {
                    request.head().await?;
                    while request.receiver().data().await?.is_some() {}
                    request.respond(&[(":status", "200")], Bytes::new()).await
                }));
            }
            requests
        });
        let _kept = unidirectional(&mut noise, &client).await;
        let mut ids = Vec::new();
        for _ in 0..noise.below(3) {
            settle().await;
            if client.close_code().is_some() {
                break;
            }
            let (mut send, _receive) = client.open().await;
            let begin = [&b""[..], b"\x01\x03\x02\0\x80"][usize::from(noise.below(8) == 0)];
            let bytes = stream(&mut noise, begin);
            for chunk in noise.cut(&bytes).into_iter().filter(|chunk| !chunk.is_empty()) {
                send.write(chunk);
            }
            if noise.below(16) == 0 {
                send.reset(0x10c);
            }
            ids.push(send.id());
        }
        settle().await;
        if client.close_code().is_none() {
            for id in ids {
                let over = client.inspect(id, |pipe| pipe.finished || pipe.reset.is_some());
                assert!(over || config.qpack_blocked_streams > 0, "case {case}, stream {id}");
            }
            transport_close(&client);
        }
        for request in serving.await.expect("the server does not panic") {
            let _ = request.await.expect("a request does not panic");
        }
    }
}

/// Every response that ends is read to its end or fails.
#[tokio::test]
async fn arbitrary_servers_get_an_end_or_an_error() {
    let mut noise = Noise::new(25);
    for case in 0..cases() {
        let (server, transport) = memory::pair();
        let config = config(&mut noise);
        let (mut driver, mut sender) = client::Connection::new(transport, config);
        let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        let mut stream_of_request = sender.send(&GET, Bytes::new()).await.unwrap();
        let _kept = unidirectional(&mut noise, &server).await;
        let reading = tokio::spawn(async move {
            stream_of_request.head().await?;
            while stream_of_request.data().await?.is_some() {}
            Ok::<_, Error>(())
        });
        settle().await;
        if server.close_code().is_none() {
            let (mut send, _receive) = server.accept().await;
            let bytes = stream(&mut noise, b"");
            for chunk in noise.cut(&bytes).into_iter().filter(|chunk| !chunk.is_empty()) {
                send.write(chunk);
            }
            drop(send);
            settle().await;
            assert!(
                reading.is_finished() || config.qpack_blocked_streams > 0,
                "case {case}: the response has ended"
            );
            transport_close(&server);
        }
        let _ = reading.await.expect("a request does not panic");
        driving.await.expect("the client does not panic");
    }
}

fn transport_close(connection: &memory::Connection) {
    fathom_http3::transport::Connection::close(connection, 0x100, b"");
}
