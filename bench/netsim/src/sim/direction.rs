//! Direction of a packet between the client and the server of its flow.

/// Direction of a packet on its flow's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
}
