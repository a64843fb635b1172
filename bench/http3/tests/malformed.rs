//! Malformed messages, and the codes that their senders get (RFC 9114 §4.1 to §4.4).

use std::future::poll_fn;

use bytes::Bytes;
use fathom_http3::error::{Code, Scope};
use fathom_http3::{Config, Error, client, server};

use super::connections::{GET, settle};
use super::memory;
use super::violations::{Act, SETTINGS, act, frame, headers};

/// End of a message, as its sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The message is accepted.
    Accepted,
    /// The stream is reset or stopped with this code.
    Stream(Code),
    /// The connection is closed with this code.
    Connection(Code),
}

use Outcome::{Accepted, Connection, Stream};

/// The outcome of nearly all malformed messages.
const MALFORMED: Outcome = Stream(Code::H3_MESSAGE_ERROR);
const UNEXPECTED: Outcome = Connection(Code::H3_FRAME_UNEXPECTED);

/// Returns the outcome of a request whose client also opens these streams. The server reads the
/// whole request, splits its halves, and leaves all codes to this crate.
pub(crate) async fn of_request(streams: &[Act<'_>], request: &[u8]) -> Outcome {
    let (transport, client) = memory::pair();
    let mut server = server::Connection::new(transport, Config::default());
    tokio::spawn(async move {
        while let Ok(Some(request)) = server.accept().await {
            let (mut send, mut receive) = request.split();
            tokio::spawn(async move {
                receive.head().await?;
                while receive.data().await?.is_some() {}
                send.send_message(&[(":status", "200")], Bytes::new()).await
            });
        }
    });
    let _kept = act(&client, streams).await;
    if let Some(code) = client.close_code() {
        return Connection(Code(code));
    }
    let (mut send, _receive) = client.open().await;
    send.write(request);
    let id = fathom_http3::transport::SendStream::id(&send);
    drop(send);
    settle().await;
    if let Some(code) = client.close_code() {
        return Connection(Code(code));
    }
    match client.inspect(id, |pipe| (pipe.reset, pipe.finished && pipe.writes > 0)) {
        (Some(code), _) => Stream(Code(code)),
        (None, true) => Accepted,
        (None, false) => panic!("the server did not answer"),
    }
}

/// Returns the outcome of a response to this request.
async fn of_response(request: &[(&str, &str)], response: &[u8]) -> Outcome {
    let (server, transport) = memory::pair();
    let (mut driver, mut sender) = client::Connection::new(transport, Config::default());
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let _kept = act(&server, &[Act::Unidirectional(SETTINGS)]).await;
    // The request stays open, so that its half shows the code, too.
    let (send, mut receive) = sender.open(request).await.unwrap().split();
    server.accept().await.0.write(response);
    let read = async {
        receive.head().await?;
        while receive.data().await?.is_some() {}
        Ok::<_, Error>(())
    };
    let outcome = match read.await {
        Ok(()) => Accepted,
        Err(Error::Protocol(error)) if error.scope == Scope::Stream => Stream(error.code),
        Err(Error::Protocol(error)) => Connection(error.code),
        Err(error) => panic!("{error}"),
    };
    drop(send);
    settle().await;
    match outcome {
        Connection(code) => assert_eq!(server.close_code(), Some(code.0)),
        Stream(code) => {
            assert_eq!(server.inspect(0, |pipe| pipe.reset), Some(code.0));
            assert_eq!(server.stop_code(0), Some(code.0));
        }
        Accepted => assert_eq!(server.close_code(), None),
    }
    outcome
}

type Field = (&'static str, &'static str);

/// Returns the request with these fields after it.
fn get_with(more: &[Field]) -> Vec<u8> {
    headers(&[&GET[..], more].concat())
}

/// Returns the request with one field instead of the one of the same name, or without it.
fn get_instead(name: &str, value: Option<&'static str>) -> Vec<u8> {
    let fields: Vec<Field> = GET
        .iter()
        .filter_map(|field| match (field.0 == name, value) {
            (true, value) => Some((field.0, value?)),
            (false, _) => Some(*field),
        })
        .collect();
    headers(&fields)
}

const DATA: &[u8] = b"\0\x03abc";

#[tokio::test]
async fn requests_have_the_outcome_of_rfc_9114() {
    let trailers = headers(&[("sum", "6")]);
    let with = |frames: &[&[u8]]| [&get_with(&[])[..], &frames.concat()].concat();
    let length = |value: &'static str, frames: &[&[u8]]| {
        [&get_with(&[("content-length", value)])[..], &frames.concat()].concat()
    };
    let connect = |frames: &[&[u8]]| {
        [&headers(&[(":method", "CONNECT"), (":authority", "a.test:1")])[..], &frames.concat()]
            .concat()
    };
    let mut cases = vec![
        ("whole request", with(&[DATA, &trailers]), Accepted),
        // §4.1: frames and their order.
        ("nothing", Vec::new(), Stream(Code::H3_REQUEST_INCOMPLETE)),
        ("unknown frame only", frame(0x21, b"x"), Stream(Code::H3_REQUEST_INCOMPLETE)),
        ("unknown frames between", with(&[b"\x21\x01x", DATA, b"\x40\x40\0"]), Accepted),
        ("DATA first", DATA.to_vec(), UNEXPECTED),
        ("DATA after the trailers", with(&[&trailers, DATA]), UNEXPECTED),
        ("second trailers", with(&[&trailers, &trailers]), UNEXPECTED),
        ("PUSH_PROMISE", with(&[b"\x05\x03\0\0\0"]), UNEXPECTED),
        ("cut frame", with(&[b"\0\x03ab"]), Connection(Code::H3_FRAME_ERROR)),
        // §4.1.2: content-length.
        ("length of the body", length("6", &[DATA, b"\x21\0", DATA]), Accepted),
        ("body is short", length("4", &[DATA]), MALFORMED),
        ("body is long", length("5", &[DATA, DATA]), MALFORMED),
        ("body is short before trailers", length("4", &[DATA, &trailers]), MALFORMED),
        ("no body", length("1", &[]), MALFORMED),
        // §4.2: fields.
        ("uppercase name", get_with(&[("Accept", "*/*")]), MALFORMED),
        ("empty name", get_with(&[("", "a")]), MALFORMED),
        ("space in a name", get_with(&[("a b", "a")]), MALFORMED),
        ("colon in a name", get_with(&[("a:b", "a")]), MALFORMED),
        ("line break in a value", get_with(&[("a", "b\r\nc: d")]), MALFORMED),
        ("NUL in a value", get_with(&[("a", "b\0")]), MALFORMED),
        ("te: trailers", get_with(&[("te", "trailers")]), Accepted),
        ("te: gzip", get_with(&[("te", "gzip")]), MALFORMED),
        ("uppercase name in trailers", with(&[&headers(&[("Sum", "6")])]), MALFORMED),
        // §4.3: pseudo-header fields.
        ("pseudo-header in trailers", with(&[&headers(&[(":path", "/")])]), MALFORMED),
        ("status in trailers", with(&[&headers(&[(":status", "200")])]), MALFORMED),
        (
            "pseudo-header after a field",
            headers(&[GET[0], GET[1], GET[2], ("a", "b"), GET[3]]),
            MALFORMED,
        ),
        ("status of a response", get_with(&[(":status", "200")]), MALFORMED),
        ("unknown pseudo-header", get_with(&[(":a", "b")]), MALFORMED),
        ("empty path", get_instead(":path", Some("")), MALFORMED),
        ("relative path", get_instead(":path", Some("a")), MALFORMED),
        ("fragment in the path", get_instead(":path", Some("/#a")), MALFORMED),
        ("path * of GET", get_instead(":path", Some("*")), MALFORMED),
        ("empty authority", get_instead(":authority", Some("")), MALFORMED),
        ("user in the authority", get_instead(":authority", Some("a@a.test")), MALFORMED),
        ("equal host", get_with(&[("host", "a.test")]), Accepted),
        ("other host", get_with(&[("host", "b.test")]), MALFORMED),
        (
            "host instead of an authority",
            headers(&[GET[0], GET[1], GET[3], ("host", "a.test")]),
            Accepted,
        ),
        ("empty host", headers(&[GET[0], GET[1], GET[3], ("host", "")]), MALFORMED),
        // §4.4: CONNECT.
        ("CONNECT with data", connect(&[DATA, DATA]), Accepted),
        ("CONNECT with unknown frames", connect(&[b"\x21\x01x", DATA]), Accepted),
        ("CONNECT with trailers", connect(&[DATA, &trailers]), UNEXPECTED),
        ("CONNECT with a path", get_instead(":method", Some("CONNECT")), MALFORMED),
        ("CONNECT without authority", headers(&[(":method", "CONNECT")]), MALFORMED),
        // RFC 9220 without its setting.
        ("extended CONNECT", get_with(&[(":protocol", "websocket")]), MALFORMED),
    ];
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        cases.push((name, headers(&[&GET[..], &[(name, "a")]].concat()), MALFORMED));
        cases.push((name, with(&[&headers(&[(name, "a")])]), MALFORMED));
    }
    for field in GET {
        cases.push((field.0, get_instead(field.0, None), MALFORMED));
        cases.push((field.0, get_with(&[field]), MALFORMED));
    }
    // Frames of the control stream, and those of HTTP/2 (§7.2, §7.2.8).
    for kind in [0x3, 0x4, 0x7, 0xd, 0x2, 0x6, 0x8, 0x9] {
        cases.push(("before the header", [frame(kind, b""), with(&[])].concat(), UNEXPECTED));
        cases.push(("after the header", with(&[&frame(kind, b"\0")]), UNEXPECTED));
    }
    for (case, request, wanted) in &cases {
        let outcome = of_request(&[Act::Unidirectional(SETTINGS)], request).await;
        assert_eq!(outcome, *wanted, "{case}: {request:?}");
    }
}

#[tokio::test]
async fn responses_have_the_outcome_of_rfc_9114() {
    let ok = headers(&[(":status", "200")]);
    let early = headers(&[(":status", "103"), ("link", "a")]);
    let trailers = headers(&[("sum", "6")]);
    let with = |frames: &[&[u8]]| [&ok[..], &frames.concat()].concat();
    let head =
        |fields: &[Field], frames: &[&[u8]]| [&headers(fields)[..], &frames.concat()].concat();
    let status = |status: &'static str| [(":status", status), ("content-length", "4")];
    let mut cases = vec![
        ("whole response", with(&[DATA, &trailers]), Accepted),
        ("interim responses", [&early[..], &early, &with(&[DATA])].concat(), Accepted),
        ("interim response only", early.clone(), MALFORMED),
        ("body after an interim response", [&early[..], DATA].concat(), UNEXPECTED),
        ("interim response after the final one", with(&[&early]), MALFORMED),
        ("second response", with(&[DATA, &ok]), MALFORMED),
        ("nothing", Vec::new(), MALFORMED),
        ("DATA first", DATA.to_vec(), UNEXPECTED),
        ("DATA after the trailers", with(&[&trailers, DATA]), UNEXPECTED),
        ("PUSH_PROMISE", with(&[b"\x05\x03\0\0\0"]), Connection(Code::H3_ID_ERROR)),
        ("cut frame", ok[..3].to_vec(), Connection(Code::H3_FRAME_ERROR)),
        ("body is short", head(&status("200"), &[DATA]), MALFORMED),
        ("body is long", head(&status("200"), &[DATA, DATA]), MALFORMED),
        ("length of 304", head(&status("304"), &[]), Accepted),
        ("no status", headers(&[("a", "b")]), MALFORMED),
        ("two of status", headers(&[(":status", "200"), (":status", "200")]), MALFORMED),
        ("status 101", headers(&[(":status", "101")]), MALFORMED),
        ("status of two digits", headers(&[(":status", "99")]), MALFORMED),
        ("field of a request", headers(&[(":status", "200"), (":path", "/")]), MALFORMED),
        ("status after a field", headers(&[("a", "b"), (":status", "200")]), MALFORMED),
        ("uppercase name", headers(&[(":status", "200"), ("Server", "a")]), MALFORMED),
        ("te", headers(&[(":status", "200"), ("te", "trailers")]), MALFORMED),
        ("pseudo-header in trailers", with(&[&ok]), MALFORMED),
    ];
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        cases.push((name, headers(&[(":status", "200"), (name, "a")]), MALFORMED));
    }
    for kind in [0x3, 0x4, 0x7, 0xd, 0x2, 0x6, 0x8, 0x9] {
        cases.push(("before the header", [frame(kind, b""), ok.clone()].concat(), UNEXPECTED));
        cases.push(("after the header", with(&[&frame(kind, b"\0")]), UNEXPECTED));
    }
    for (case, response, wanted) in &cases {
        assert_eq!(of_response(&GET, response).await, *wanted, "{case}: {response:?}");
    }
    let to_head = [(":method", "HEAD"), GET[1], GET[2], GET[3]];
    assert_eq!(of_response(&to_head, &head(&status("200"), &[])).await, Accepted);
    let connect = [(":method", "CONNECT"), (":authority", "a.test:1")];
    for (response, wanted) in [
        (head(&status("200"), &[DATA, DATA]), Accepted),
        (with(&[DATA, &trailers]), UNEXPECTED),
        // Not a tunnel.
        (head(&status("502"), &[DATA]), MALFORMED),
        (head(&[(":status", "502")], &[DATA, &trailers]), Accepted),
    ] {
        assert_eq!(of_response(&connect, &response).await, wanted, "{response:?}");
    }
}
