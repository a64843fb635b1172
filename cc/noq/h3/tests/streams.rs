//! Tests of the traits alone, without h3 on top: waking, cancelled polls, repeated ends, stream
//! numbers.

use crate::common;

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use common::{body, pair, pair_with, within};
use h3::quic::{BidiStream as _, ConnectionErrorIncoming, StreamErrorIncoming};
use h3::quic::{
    Connection as _, OpenStreams as _, RecvStream as _, SendStream as _, SendStreamUnframed as _,
};
use h3_noq::{BidiStream, Connection, RecvStream, SendStream};

type Open = h3_noq::OpenStreams;

async fn open(opener: &mut Open) -> BidiStream<Bytes> {
    poll_fn(|cx| opener.poll_open_bidi(cx)).await.expect("a stream")
}

async fn accept(connection: &mut Connection) -> BidiStream<Bytes> {
    poll_fn(|cx| connection.poll_accept_bidi(cx)).await.expect("a stream")
}

async fn write(send: &mut SendStream<Bytes>, mut data: &[u8]) -> Result<(), StreamErrorIncoming> {
    while !data.is_empty() {
        poll_fn(|cx| send.poll_send(cx, &mut data)).await?;
    }
    Ok(())
}

async fn read(recv: &mut RecvStream) -> Result<Option<Bytes>, StreamErrorIncoming> {
    poll_fn(|cx| recv.poll_data(cx)).await
}

fn opener(connection: &noq::Connection) -> Open {
    h3::quic::Connection::<Bytes>::opener(&Connection::new(connection.clone()))
}

/// Returns the halves of a stream that both sides know: the client's, then the server's.
async fn stream(pair: &common::Pair) -> [(SendStream<Bytes>, RecvStream); 2] {
    let (mut send, recv) = open(&mut opener(&pair.client)).await.split();
    write(&mut send, b"!").await.expect("written");
    let (back, mut here) = accept(&mut Connection::new(pair.server.clone())).await.split();
    assert_eq!(read(&mut here).await.expect("data"), Some(Bytes::from_static(b"!")));
    [(send, recv), (back, here)]
}

#[track_caller]
fn code(error: StreamErrorIncoming) -> u64 {
    let StreamErrorIncoming::StreamTerminated { error_code } = error else { panic!("{error:?}") };
    error_code
}

fn once() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[tokio::test]
async fn pending_reads_are_woken_and_cancelled_reads_lose_no_data() {
    within(async {
        let pair = pair().await;
        let [(mut send, _), (_, mut recv)] = stream(&pair).await;
        // Cancelled: the waker does nothing, and the read is not polled again.
        assert!(recv.poll_data(&mut once()).is_pending());
        let reading = tokio::spawn(async move { (read(&mut recv).await, recv) });
        // The reader waits before anything is sent.
        tokio::task::yield_now().await;
        write(&mut send, b"abc").await.expect("written");
        let (got, mut recv) = reading.await.expect("no panic");
        assert_eq!(got.expect("data"), Some(Bytes::from_static(b"abc")));
        poll_fn(|cx| send.poll_finish(cx)).await.expect("finished");
        poll_fn(|cx| send.poll_finish(cx)).await.expect("still finished");
        for _ in 0..2 {
            assert_eq!(read(&mut recv).await.expect("the end"), None);
        }
    })
    .await;
}

#[tokio::test]
async fn pending_writes_are_woken_and_cancelled_writes_lose_no_data() {
    within(async {
        let mut small = noq::TransportConfig::default();
        small.stream_receive_window(100u8.into());
        let pair = pair_with(small, noq::TransportConfig::default()).await;
        let [(mut send, _), (_, mut recv)] = stream(&pair).await;
        let all = body(10_000);
        let mut rest = &all[..];
        let waits = loop {
            match send.poll_send(&mut once(), &mut rest) {
                Poll::Ready(sent) => assert!(sent.expect("sent") > 0),
                Poll::Pending => break true,
            }
        };
        assert!(waits && !rest.is_empty());
        let rest = Bytes::copy_from_slice(rest);
        let writing = tokio::spawn(async move {
            write(&mut send, &rest).await.expect("written");
            poll_fn(|cx| send.poll_finish(cx)).await.expect("finished");
        });
        tokio::task::yield_now().await;
        let mut got = Vec::new();
        while let Some(data) = read(&mut recv).await.expect("data") {
            got.extend_from_slice(&data);
        }
        assert!(got == all, "{} bytes", got.len());
        writing.await.expect("no panic");
    })
    .await;
}

#[tokio::test]
async fn stream_can_be_stopped_during_a_read() {
    within(async {
        let pair = pair().await;
        let [(mut send, _), (_, mut recv)] = stream(&pair).await;
        assert!(recv.poll_data(&mut once()).is_pending());
        recv.stop_sending(0x1234);
        // A second stop finds nothing left to stop.
        recv.stop_sending(0x4321);
        let stopped = loop {
            match write(&mut send, b"more").await {
                Ok(()) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert_eq!(code(stopped), 0x1234);
        assert_eq!(code(write(&mut send, b"again").await.expect_err("stopped")), 0x1234);
        assert!(matches!(read(&mut recv).await, Err(StreamErrorIncoming::Unknown(_))));
    })
    .await;
}

#[tokio::test]
async fn stream_reset_never_looks_like_a_clean_end() {
    within(async {
        let pair = pair().await;
        let [(mut send, _), (_, mut recv)] = stream(&pair).await;
        write(&mut send, b"part").await.expect("written");
        assert_eq!(read(&mut recv).await.expect("data"), Some(Bytes::from_static(b"part")));
        send.reset(0x10c);
        for _ in 0..3 {
            assert_eq!(code(read(&mut recv).await.expect_err("reset")), 0x10c);
        }
        let after = poll_fn(|cx| send.poll_finish(cx)).await.expect_err("reset already");
        let StreamErrorIncoming::Unknown(after) = after else { panic!("{after:?}") };
        assert_eq!(after.downcast_ref(), Some(&noq::WriteError::ClosedStream));
    })
    .await;
}

#[tokio::test]
async fn error_codes_above_62_bits_arrive_as_internal_errors() {
    within(async {
        let pair = pair().await;
        let [(mut send, recv), (mut back, mut here)] = stream(&pair).await;
        send.reset(u64::MAX);
        assert_eq!(code(read(&mut here).await.expect_err("reset")), 0x102);
        let mut recv = recv;
        recv.stop_sending(u64::MAX);
        let stopped = loop {
            match write(&mut back, b"more").await {
                Ok(()) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert_eq!(code(stopped), 0x102);
    })
    .await;
}

/// RFC 9000 §2.1: the client's bidirectional streams are 0, 4 and 8, and its unidirectional streams
/// 2 and 6. The server's streams are 1 and 3.
#[tokio::test]
async fn stream_ids_match_those_of_quic() {
    within(async {
        let pair = pair().await;
        let mut client = opener(&pair.client);
        for expected in [0, 4, 8] {
            let bidi = open(&mut client).await;
            assert_eq!(
                (bidi.send_id().into_inner(), bidi.recv_id().into_inner()),
                (expected, expected)
            );
        }
        for expected in [2, 6] {
            let mut uni: SendStream<Bytes> =
                poll_fn(|cx| client.poll_open_send(cx)).await.expect("a stream");
            assert_eq!(uni.send_id().into_inner(), expected);
            write(&mut uni, b"!").await.expect("written");
        }
        let mut server = Connection::new(pair.server.clone());
        for expected in [2, 6] {
            let uni =
                poll_fn(|cx| h3::quic::Connection::<Bytes>::poll_accept_recv(&mut server, cx))
                    .await
                    .expect("a stream");
            assert_eq!(uni.recv_id().into_inner(), expected);
        }
        let bidi: BidiStream<Bytes> =
            poll_fn(|cx| server.poll_open_bidi(cx)).await.expect("a stream");
        let uni: SendStream<Bytes> =
            poll_fn(|cx| server.poll_open_send(cx)).await.expect("a stream");
        assert_eq!((bidi.send_id().into_inner(), uni.send_id().into_inner()), (1, 3));
    })
    .await;
}

#[tokio::test]
async fn cancelled_accept_or_open_loses_no_stream() {
    within(async {
        let mut one = noq::TransportConfig::default();
        one.max_concurrent_bidi_streams(1u8.into());
        let pair = pair_with(one, noq::TransportConfig::default()).await;
        let mut server = Connection::new(pair.server.clone());
        let polled: Poll<Result<BidiStream<Bytes>, _>> = server.poll_accept_bidi(&mut once());
        assert!(polled.is_pending());

        let mut client = opener(&pair.client);
        let (mut send, mut recv) = open(&mut client).await.split();
        write(&mut send, b"1").await.expect("written");
        poll_fn(|cx| send.poll_finish(cx)).await.expect("finished");
        let polled: Poll<Result<BidiStream<Bytes>, _>> = client.poll_open_bidi(&mut once());
        assert!(polled.is_pending(), "one stream at a time");
        let second = tokio::spawn(async move { open(&mut client).await.send_id().into_inner() });
        tokio::task::yield_now().await;

        let (mut back, mut here) = accept(&mut server).await.split();
        assert_eq!(here.recv_id().into_inner(), 0);
        while read(&mut here).await.expect("data").is_some() {}
        poll_fn(|cx| back.poll_finish(cx)).await.expect("finished");
        assert_eq!(read(&mut recv).await.expect("the end"), None);
        assert_eq!(second.await.expect("no panic"), 4, "the next stream, none lost");
    })
    .await;
}

#[tokio::test]
async fn pending_operations_fail_when_the_connection_closes() {
    within(async {
        let mut none = noq::TransportConfig::default();
        none.max_concurrent_uni_streams(0u8.into());
        let pair = pair_with(none, noq::TransportConfig::default()).await;
        let [_here, (_, mut recv)] = stream(&pair).await;
        let mut server = Connection::new(pair.server.clone());
        let mut client = Connection::new(pair.client.clone());
        let accepting = tokio::spawn(async move { accept_fails(&mut server).await });
        let reading = tokio::spawn(async move { read(&mut recv).await.expect_err("closed") });
        let opening = tokio::spawn(async move {
            let opened: Result<SendStream<Bytes>, _> =
                poll_fn(|cx| client.poll_open_send(cx)).await;
            opened.expect_err("closed")
        });
        tokio::task::yield_now().await;
        h3::quic::OpenStreams::<Bytes>::close(
            &mut opener(&pair.client),
            h3::error::Code::H3_CONNECT_ERROR,
            b"over",
        );
        // H3_CONNECT_ERROR (RFC 9114 §8.1).
        let ConnectionErrorIncoming::ApplicationClose { error_code: 0x10f } =
            accepting.await.expect("no panic")
        else {
            panic!("another end")
        };
        let StreamErrorIncoming::ConnectionErrorIncoming {
            connection_error: ConnectionErrorIncoming::ApplicationClose { error_code: 0x10f },
        } = reading.await.expect("no panic")
        else {
            panic!("another end")
        };
        let StreamErrorIncoming::ConnectionErrorIncoming {
            connection_error: ConnectionErrorIncoming::Undefined(own),
        } = opening.await.expect("no panic")
        else {
            panic!("another end")
        };
        assert_eq!(own.downcast_ref(), Some(&noq::ConnectionError::LocallyClosed));
    })
    .await;
}

async fn accept_fails(server: &mut Connection) -> ConnectionErrorIncoming {
    let accepted: Result<BidiStream<Bytes>, _> = poll_fn(|cx| server.poll_accept_bidi(cx)).await;
    accepted.expect_err("closed")
}
