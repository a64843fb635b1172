//! Servers on sockets that mark the datagrams that they receive.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use crate::marking::Marks;
use crate::recording_socket::{RecordingSocket, Sizes};

fn bound(to: SocketAddr) -> UdpSocket {
    UdpSocket::bind(to).expect("a socket")
}

pub(crate) fn on_quinn(
    config: quinn::ServerConfig,
    to: SocketAddr,
    marks: Marks,
) -> quinn::Endpoint {
    use quinn::Runtime as _;
    let runtime = Arc::new(quinn::TokioRuntime);
    let socket = RecordingSocket::new(
        runtime.wrap_udp_socket(bound(to)).expect("wrapped"),
        Sizes::default(),
        Some(marks),
    );
    quinn::Endpoint::new_with_abstract_socket(
        quinn::EndpointConfig::default(),
        Some(config),
        Arc::new(socket),
        runtime,
    )
    .expect("an endpoint")
}

pub(crate) fn on_noq(config: noq::ServerConfig, to: SocketAddr, marks: Marks) -> noq::Endpoint {
    use noq::Runtime as _;
    let runtime = Arc::new(noq::TokioRuntime);
    let socket = RecordingSocket::new(
        runtime.wrap_udp_socket(bound(to)).expect("wrapped"),
        Sizes::default(),
        Some(marks),
    );
    noq::Endpoint::new_with_abstract_socket(
        noq::EndpointConfig::default(),
        Some(config),
        Box::new(socket),
        runtime,
    )
    .expect("an endpoint")
}
