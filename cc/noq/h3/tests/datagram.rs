//! Tests of HTTP datagrams in both directions.
#![cfg(feature = "datagram")]

use crate::common;

use std::future::poll_fn;

use bytes::Bytes;
use common::{body, get, pair, pair_with, within};
use h3::quic::ConnectionErrorIncoming;
use h3_datagram::datagram::Datagram;
use h3_datagram::datagram_handler::HandleDatagramsExt;
use h3_datagram::quic_traits::{
    DatagramConnectionExt, RecvDatagram, SendDatagram, SendDatagramErrorIncoming,
};
use h3_noq::Connection;
use h3_noq::datagram::{DatagramReceiver, DatagramSender};

fn ends(connection: &noq::Connection) -> (DatagramSender, DatagramReceiver) {
    let connection = Connection::new(connection.clone());
    let send = DatagramConnectionExt::<Bytes>::send_datagram_handler(&connection);
    let recv = DatagramConnectionExt::<Bytes>::recv_datagram_handler(&connection);
    (send, recv)
}

fn datagram(payload: Bytes) -> h3_datagram::datagram::EncodedDatagram<Bytes> {
    Datagram::new(h3::quic::StreamId::try_from(0).expect("an id"), payload).encode()
}

#[tokio::test]
async fn datagrams_of_a_request_travel_in_both_directions() {
    within(async {
        let pair = pair().await;
        let mut server = h3::server::builder()
            .enable_datagram(true)
            .build::<_, Bytes>(Connection::new(pair.server.clone()))
            .await
            .expect("HTTP");
        let (client, mut requests) = h3::client::builder()
            .enable_datagram(true)
            .build::<_, _, Bytes>(Connection::new(pair.client.clone()))
            .await
            .expect("HTTP");
        let stream = requests.send_request(get("/")).await.expect("a stream");
        let resolver = server.accept().await.expect("a connection").expect("a request");
        let (_, _there) = resolver.resolve_request().await.expect("a head");

        let mut reader = server.get_datagram_reader();
        client
            .get_datagram_sender(stream.id())
            .send_datagram(Bytes::from_static(b"up"))
            .expect("sent");
        let got = reader.read_datagram().await.expect("a datagram");
        assert_eq!((got.stream_id(), &got.payload()[..]), (stream.id(), &b"up"[..]));

        let mut reader = client.get_datagram_reader();
        server
            .get_datagram_sender(stream.id())
            .send_datagram(Bytes::from_static(b"down"))
            .expect("sent");
        let got = reader.read_datagram().await.expect("a datagram");
        assert_eq!((got.stream_id(), &got.payload()[..]), (stream.id(), &b"down"[..]));
    })
    .await;
}

#[tokio::test]
async fn datagrams_that_cannot_be_sent_fail_with_a_reason() {
    within(async {
        let mut none = noq::TransportConfig::default();
        none.datagram_receive_buffer_size(None);
        let deaf = pair_with(none, noq::TransportConfig::default()).await;
        let refused = ends(&deaf.client).0.send_datagram(datagram(body(1)));
        assert!(matches!(refused, Err(SendDatagramErrorIncoming::NotAvailable)), "{refused:?}");

        let pair = pair().await;
        let (mut send, _) = ends(&pair.client);
        let refused = send.send_datagram(datagram(body(100_000)));
        assert!(matches!(refused, Err(SendDatagramErrorIncoming::TooLarge)), "{refused:?}");

        // A waiting receiver gets the error of the closed connection, and so does the next sender.
        let (mut back, mut recv) = ends(&pair.server);
        let waiting =
            tokio::spawn(async move { poll_fn(|cx| recv.poll_incoming_datagram(cx)).await });
        tokio::task::yield_now().await;
        pair.client.close(0x33_u32.into(), b"");
        let end = waiting.await.expect("no panic").expect_err("closed");
        assert!(
            matches!(end, ConnectionErrorIncoming::ApplicationClose { error_code: 0x33 }),
            "{end:?}"
        );
        let refused = back.send_datagram(datagram(body(1)));
        let Err(SendDatagramErrorIncoming::ConnectionError(end)) = refused else {
            panic!("{refused:?}")
        };
        assert!(
            matches!(end, ConnectionErrorIncoming::ApplicationClose { error_code: 0x33 }),
            "{end:?}"
        );
    })
    .await;
}
