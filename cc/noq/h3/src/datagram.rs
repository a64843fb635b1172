//! HTTP datagrams (RFC 9297): the traits of [`h3_datagram`], on noq's datagrams (RFC 9221).

use std::fmt;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::stream;
use h3::quic::ConnectionErrorIncoming;
use h3_datagram::datagram::EncodedDatagram;
use h3_datagram::quic_traits::{
    DatagramConnectionExt, RecvDatagram, SendDatagram, SendDatagramErrorIncoming,
};
use noq::SendDatagramError;

use super::waiting::{Answers, Waiting};
use super::{Connection, error};

/// Sender of datagrams.
///
/// noq's datagram buffer is bounded. A datagram that finds the buffer full replaces the oldest one.
#[derive(Clone)]
pub struct DatagramSender {
    connection: noq::Connection,
}

/// Receiver of datagrams.
///
/// Each datagram goes to only one receiver.
pub struct DatagramReceiver {
    connection: noq::Connection,
    next: Waiting<Bytes>,
}

impl<B: Buf> DatagramConnectionExt<B> for Connection {
    type SendDatagramHandler = DatagramSender;
    type RecvDatagramHandler = DatagramReceiver;

    fn send_datagram_handler(&self) -> DatagramSender {
        DatagramSender { connection: self.noq().clone() }
    }

    fn recv_datagram_handler(&self) -> DatagramReceiver {
        DatagramReceiver { connection: self.noq().clone(), next: Waiting::new() }
    }
}

impl<B: Buf> SendDatagram<B> for DatagramSender {
    fn send_datagram<T: Into<EncodedDatagram<B>>>(
        &mut self,
        data: T,
    ) -> Result<(), SendDatagramErrorIncoming> {
        let mut datagram = data.into();
        let bytes = datagram.copy_to_bytes(datagram.remaining());
        self.connection.send_datagram(bytes).map_err(|error| match error {
            SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled => {
                SendDatagramErrorIncoming::NotAvailable
            }
            SendDatagramError::TooLarge => SendDatagramErrorIncoming::TooLarge,
            SendDatagramError::ConnectionLost(error) => {
                SendDatagramErrorIncoming::ConnectionError(error::connection(error))
            }
        })
    }
}

impl RecvDatagram for DatagramReceiver {
    type Buffer = Bytes;

    fn poll_incoming_datagram(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, ConnectionErrorIncoming>> {
        let connection = &self.connection;
        let datagram = ready!(
            self.next.poll(cx, connection.read_datagram(), || datagrams(connection.clone()))
        );
        Poll::Ready(datagram.map_err(error::connection))
    }
}

fn datagrams(connection: noq::Connection) -> Answers<Bytes> {
    Box::pin(stream::unfold(connection, async |c| Some((c.read_datagram().await, c))))
}

impl fmt::Debug for DatagramSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramSender").field("id", &self.connection.stable_id()).finish()
    }
}

impl fmt::Debug for DatagramReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramReceiver")
            .field("id", &self.connection.stable_id())
            .finish_non_exhaustive()
    }
}
