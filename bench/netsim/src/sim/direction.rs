//! Direction of a packet between the client and the server of its flow.

/// Direction of a packet on its flow's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
}
