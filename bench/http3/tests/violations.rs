//! Peers that violate the protocol.

use std::future::poll_fn;

use bytes::Bytes;
use fathom_http3::error::Code;
use fathom_http3::transport::SendStream as _;
use fathom_http3::{Config, client, qpack, server};

use super::connections::{GET, settle};
use super::memory::{self, Connection, SendStream};

pub(crate) const SETTINGS: &[u8] = b"\0\x04\0";

pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, payload.len() as u8], payload].concat()
}

pub(crate) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::encode(fields, &mut section);
    frame(1, &section)
}

/// Something that a peer does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act<'a> {
    /// Opens a unidirectional stream with these bytes, and keeps it open.
    Unidirectional(&'a [u8]),
    /// Opens a unidirectional stream with these bytes, and ends or resets it.
    Ended(&'a [u8]),
    Reset(&'a [u8]),
    /// Opens a bidirectional stream with these bytes, and ends it.
    Request(&'a [u8]),
}

pub(crate) async fn act(peer: &Connection, acts: &[Act<'_>]) -> Vec<SendStream> {
    let mut kept = Vec::new();
    for act in acts {
        match act {
            Act::Unidirectional(bytes) => {
                let mut stream = peer.open_unidirectional().await;
                stream.write(bytes);
                kept.push(stream);
            }
            Act::Ended(bytes) => peer.open_unidirectional().await.write(bytes),
            Act::Reset(bytes) => {
                let mut stream = peer.open_unidirectional().await;
                stream.write(bytes);
                settle().await;
                stream.reset(Code::H3_NO_ERROR.0);
            }
            Act::Request(bytes) => peer.open().await.0.write(bytes),
        }
        settle().await;
    }
    kept
}

/// Returns the code with which a server closes the connection with a client that does this.
async fn server_closes(acts: &[Act<'_>]) -> Option<Code> {
    let (transport, client) = memory::pair();
    let mut server = server::Connection::new(transport, Config::default());
    let serving = tokio::spawn(async move {
        let mut requests = Vec::new();
        loop {
            match server.accept().await {
                Ok(Some(mut request)) => requests.push(tokio::spawn(async move {
                    request.head().await?;
                    while request.receiver().data().await?.is_some() {}
                    request.respond(&[(":status", "200")], Bytes::new()).await
                })),
                over => return over.map(|_| ()),
            }
        }
    });
    let _kept = act(&client, acts).await;
    settle().await;
    let code = client.close_code().map(Code);
    if code.is_some() {
        // The server reports the same error.
        let error = serving.await.unwrap().unwrap_err();
        assert_eq!(error.protocol().map(|error| error.code), code, "{error}");
    }
    code
}

/// Returns the code with which a client closes the connection with a server that does this.
async fn client_closes(acts: &[Act<'_>], response: Option<&[u8]>) -> Option<Code> {
    let (server, transport) = memory::pair();
    let (mut driver, mut sender) = client::Connection::new(transport, Config::default());
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let mut stream = sender.send(&GET, Bytes::new()).await.unwrap();
    if let Some(response) = response {
        server.accept().await.0.write(response);
    }
    let _kept = act(&server, acts).await;
    let reading = tokio::spawn(async move {
        stream.head().await?;
        while stream.data().await?.is_some() {}
        Ok::<_, fathom_http3::Error>(())
    });
    settle().await;
    reading.abort();
    server.close_code().map(Code)
}

#[tokio::test]
async fn servers_close_connections_with_the_codes_of_the_rfcs() {
    let get = headers(&GET);
    let with = |frame: Vec<u8>| [get.clone(), frame].concat();
    let control = |frames: &[u8]| [SETTINGS, frames].concat();
    let undecodable = frame(1, b"\0\0\x80");
    // The name of a case, kinds and bytes of streams, and the code.
    type Case = (&'static str, Vec<(u8, Vec<u8>)>, Code);
    let cases: Vec<Case> = vec![
        ("DATA before HEADERS", vec![(b'r', frame(0, b"a"))], Code::H3_FRAME_UNEXPECTED),
        ("SETTINGS on a request", vec![(b'r', with(frame(4, b"")))], Code::H3_FRAME_UNEXPECTED),
        (
            "CANCEL_PUSH on a request",
            vec![(b'r', with(frame(3, b"\0")))],
            Code::H3_FRAME_UNEXPECTED,
        ),
        ("GOAWAY on a request", vec![(b'r', with(frame(7, b"\0")))], Code::H3_FRAME_UNEXPECTED),
        (
            "MAX_PUSH_ID on a request",
            vec![(b'r', with(frame(13, b"\0")))],
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "PUSH_PROMISE of a client",
            vec![(b'r', with(frame(5, b"\0\0\0")))],
            Code::H3_FRAME_UNEXPECTED,
        ),
        ("frame of HTTP/2", vec![(b'r', with(frame(6, b"")))], Code::H3_FRAME_UNEXPECTED),
        ("cut frame", vec![(b'r', get[..5].to_vec())], Code::H3_FRAME_ERROR),
        ("undecodable section", vec![(b'r', undecodable)], Code::QPACK_DECOMPRESSION_FAILED),
        ("second SETTINGS", vec![(b'u', control(&frame(4, b"")))], Code::H3_FRAME_UNEXPECTED),
        ("no SETTINGS", vec![(b'u', b"\0\x07\x01\0".to_vec())], Code::H3_MISSING_SETTINGS),
        ("DATA on the control stream", vec![(b'u', control(b"\0\0"))], Code::H3_FRAME_UNEXPECTED),
        ("HEADERS on the control stream", vec![(b'u', control(&get))], Code::H3_FRAME_UNEXPECTED),
        (
            "HTTP/2 on the control stream",
            vec![(b'u', control(b"\x02\0"))],
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "repeated setting",
            vec![(b'u', b"\0\x04\x04\x06\x01\x06\x01".to_vec())],
            Code::H3_SETTINGS_ERROR,
        ),
        (
            "setting of HTTP/2",
            vec![(b'u', b"\0\x04\x02\x02\x01".to_vec())],
            Code::H3_SETTINGS_ERROR,
        ),
        ("cancelled push", vec![(b'u', control(b"\x03\x01\0"))], Code::H3_ID_ERROR),
        (
            "smaller MAX_PUSH_ID",
            vec![(b'u', control(b"\x0d\x01\x05\x0d\x01\x04"))],
            Code::H3_ID_ERROR,
        ),
        (
            "second control stream",
            vec![(b'u', SETTINGS.into()), (b'u', b"\0".into())],
            Code::H3_STREAM_CREATION_ERROR,
        ),
        (
            "second encoder stream",
            vec![(b'u', b"\x02".into()), (b'u', b"\x02".into())],
            Code::H3_STREAM_CREATION_ERROR,
        ),
        (
            "push stream of a client",
            vec![(b'u', b"\x01\0".to_vec())],
            Code::H3_STREAM_CREATION_ERROR,
        ),
        ("ended control stream", vec![(b'e', SETTINGS.into())], Code::H3_CLOSED_CRITICAL_STREAM),
        ("reset control stream", vec![(b'x', SETTINGS.into())], Code::H3_CLOSED_CRITICAL_STREAM),
        ("ended encoder stream", vec![(b'e', b"\x02".to_vec())], Code::H3_CLOSED_CRITICAL_STREAM),
        ("ended decoder stream", vec![(b'e', b"\x03".to_vec())], Code::H3_CLOSED_CRITICAL_STREAM),
        (
            "capacity without a table",
            vec![(b'u', b"\x02\x3f\x01".to_vec())],
            Code::QPACK_ENCODER_STREAM_ERROR,
        ),
        ("increment of zero", vec![(b'u', b"\x03\0".to_vec())], Code::QPACK_DECODER_STREAM_ERROR),
        (
            "invalid acknowledgement",
            vec![(b'u', b"\x03\x84".to_vec())],
            Code::QPACK_DECODER_STREAM_ERROR,
        ),
        ("endless settings", vec![(b'u', b"\0\x04\x80\x10\0\0".to_vec())], Code::H3_EXCESSIVE_LOAD),
        ("too many streams", vec![(b'u', Vec::new()); 17], Code::H3_EXCESSIVE_LOAD),
    ];
    let mut cases = cases;
    for kind in [0x2, 0x6, 0x8, 0x9] {
        let sent = vec![(b'u', control(&frame(kind, b"")))];
        cases.push(("frame type of HTTP/2", sent, Code::H3_FRAME_UNEXPECTED));
    }
    for setting in [0x0, 0x2, 0x3, 0x4, 0x5] {
        let sent = vec![(b'u', [&b"\0"[..], &frame(4, &[setting, 1])].concat())];
        cases.push(("setting of HTTP/2", sent, Code::H3_SETTINGS_ERROR));
    }
    for (name, frames, code) in [
        ("growing GOAWAY", &b"\x07\x01\x04\x07\x01\x05"[..], Code::H3_ID_ERROR),
        ("empty GOAWAY", b"\x07\0", Code::H3_FRAME_ERROR),
        ("long MAX_PUSH_ID", b"\x0d\x02\0\0", Code::H3_FRAME_ERROR),
        ("PUSH_PROMISE", b"\x05\x01\0", Code::H3_FRAME_UNEXPECTED),
        ("PRIORITY_UPDATE of a push", b"\x80\x0f\x07\x01\x01\0", Code::H3_ID_ERROR),
        ("PRIORITY_UPDATE of stream 1", b"\x80\x0f\x07\0\x01\x01", Code::H3_ID_ERROR),
    ] {
        cases.push((name, vec![(b'u', control(frames))], code));
    }
    for (name, act) in [("ended", b'e'), ("reset", b'x')] {
        // SETTINGS on the control stream, and an instruction on each stream of QPACK.
        for bytes in [SETTINGS, b"\x02\x20", b"\x03\x44"] {
            cases.push((name, vec![(act, bytes.to_vec())], Code::H3_CLOSED_CRITICAL_STREAM));
        }
    }
    for (name, acts, wanted) in &cases {
        let acts: Vec<Act<'_>> = acts
            .iter()
            .map(|(kind, bytes)| match kind {
                b'u' => Act::Unidirectional(bytes),
                b'e' => Act::Ended(bytes),
                b'x' => Act::Reset(bytes),
                _ => Act::Request(bytes),
            })
            .collect();
        assert_eq!(server_closes(&acts).await, Some(*wanted), "{name}");
    }
}

#[tokio::test]
async fn harmless_peers_keep_their_connection() {
    let get = headers(&GET);
    let unknown = [&get[..], &frame(0x21, b"x")].concat();
    let acts = [
        Act::Unidirectional(SETTINGS),
        Act::Unidirectional(b"\x02\x20"),
        Act::Unidirectional(b"\x03\x44"),
        Act::Unidirectional(b"\x21abc"),
        Act::Ended(b"\x40"),
        Act::Reset(b"\x21"),
        Act::Request(&unknown),
        Act::Request(b""),
        Act::Request(b"\x01\x03\0\0\xd1"),
    ];
    assert_eq!(server_closes(&acts).await, None);
}

#[tokio::test]
async fn malformed_requests_reset_only_their_stream() {
    let (transport, client) = memory::pair();
    let mut server = server::Connection::new(transport, Config::default());
    tokio::spawn(async move {
        while let Ok(Some(mut request)) = server.accept().await {
            if request.head().await.is_ok() {
                while let Ok(Some(_)) = request.receiver().data().await {}
                if request.receiver().is_ended() {
                    let _ = request.respond(&[(":status", "200")], Bytes::new()).await;
                } else {
                    request.reset(Code::H3_MESSAGE_ERROR);
                }
            }
        }
    });
    let with = |more: &[(&'static str, &'static str)]| headers(&[&GET[..], more].concat());
    let short = [with(&[("content-length", "3")]), frame(0, b"ab")].concat();
    let long = [with(&[("content-length", "1")]), frame(0, b"ab")].concat();
    let requests = [
        with(&[("Upper", "a")]),
        with(&[("connection", "close")]),
        with(&[("te", "gzip")]),
        with(&[(":path", "/")]),
        with(&[(":unknown", "a")]),
        with(&[("a", "\r\n")]),
        with(&[("x", "y"), (":path", "/")]),
        headers(&GET[1..]),
        headers(&[(":method", "GET"), (":scheme", "https"), (":path", "/")]),
        short,
        long,
    ];
    for (number, request) in requests.iter().enumerate() {
        let (mut send, _receive) = client.open().await;
        send.write(request);
        drop(send);
        settle().await;
        let reset = client.inspect(number as u64 * 4, |pipe| pipe.reset);
        assert_eq!(reset.map(Code), Some(Code::H3_MESSAGE_ERROR), "{request:?}");
    }
    assert_eq!(client.close_code(), None);
}

#[tokio::test]
async fn clients_close_connections_with_the_codes_of_the_rfcs() {
    let ok = headers(&[(":status", "200")]);
    let push = [&ok[..], &frame(5, b"\0\0\0")].concat();
    assert_eq!(client_closes(&[], Some(&push)).await, Some(Code::H3_ID_ERROR));
    let data = frame(0, b"a");
    assert_eq!(client_closes(&[], Some(&data)).await, Some(Code::H3_FRAME_UNEXPECTED));
    assert_eq!(client_closes(&[], Some(&ok[..3])).await, Some(Code::H3_FRAME_ERROR));
    for (act, wanted) in [
        (Act::Unidirectional(b"\x01\0"), Code::H3_ID_ERROR),
        (Act::Unidirectional(b"\0\x04\0\x0d\x01\0"), Code::H3_FRAME_UNEXPECTED),
        (Act::Unidirectional(b"\0\x04\0\x07\x01\x01"), Code::H3_ID_ERROR),
        (Act::Unidirectional(b"\0\x04\0\x07\x01\x04\x07\x01\x08"), Code::H3_ID_ERROR),
        (Act::Unidirectional(b"\0\x04\0\x03\x01\0"), Code::H3_ID_ERROR),
        (Act::Unidirectional(b"\0\x04\0\x80\x0f\x07\0\x01\0"), Code::H3_FRAME_UNEXPECTED),
        (Act::Unidirectional(b"\0\x04\0\x04\0"), Code::H3_FRAME_UNEXPECTED),
        (Act::Unidirectional(b"\0\x04\0\0\0"), Code::H3_FRAME_UNEXPECTED),
        (Act::Unidirectional(b"\0\x04\0\x08\0"), Code::H3_FRAME_UNEXPECTED),
        (Act::Unidirectional(b"\0\x04\x02\x02\0"), Code::H3_SETTINGS_ERROR),
        (Act::Unidirectional(b"\0\x21\0"), Code::H3_MISSING_SETTINGS),
        (Act::Ended(b"\x02"), Code::H3_CLOSED_CRITICAL_STREAM),
        (Act::Reset(b"\x03"), Code::H3_CLOSED_CRITICAL_STREAM),
        (Act::Unidirectional(b"\x02\x3f\x01"), Code::QPACK_ENCODER_STREAM_ERROR),
        (Act::Unidirectional(b"\x03\x80"), Code::QPACK_DECODER_STREAM_ERROR),
        (Act::Request(b""), Code::H3_STREAM_CREATION_ERROR),
        (Act::Ended(SETTINGS), Code::H3_CLOSED_CRITICAL_STREAM),
    ] {
        assert_eq!(client_closes(&[act], None).await, Some(wanted), "{act:?}");
    }
    for kind in [0, 2, 3] {
        let second = [Act::Unidirectional(&[kind]), Act::Unidirectional(&[kind])];
        let closed = client_closes(&second, None).await;
        assert_eq!(closed, Some(Code::H3_STREAM_CREATION_ERROR), "a second stream of type {kind}");
    }
    assert_eq!(client_closes(&[Act::Unidirectional(SETTINGS)], Some(&ok)).await, None);
}
