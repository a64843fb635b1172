//! All code points that this project puts on the wire, in one table.
//!
//! RFC 9000 has no experimental range. The code points of SYNC_TIMESTAMP are random numbers of at
//! least 2^14, outside the greasing form 31N + 27, as RFC 9000 §22.1.2 requires of provisional
//! registrations. **They are provisional and unregistered: they may change with any release.**

/// The frame type SYNC_TIMESTAMP without an echo (`91 fa 6b 58`).
pub const SYNC_TIMESTAMP: u64 = 0x11fa_6b58;

/// The frame type SYNC_TIMESTAMP with echo and transit time (`91 fa 6b 59`).
pub const SYNC_TIMESTAMP_ECHO: u64 = 0x11fa_6b59;

/// The transport parameter sync_timestamp (`bd cf 82 ec`).
pub const SYNC_TIMESTAMP_PARAMETER: u64 = 0x3dcf_82ec;

/// The frame type TIMESTAMP (`42 f5`) of draft-huitema-quic-ts-08, which other implementations also
/// use.
pub const TIMESTAMP: u64 = 0x02f5;

/// The transport parameter enable_timestamp (`80 00 71 58`) of draft-huitema-quic-ts-08.
pub const ENABLE_TIMESTAMP_PARAMETER: u64 = 0x7158;

/// The frame type ACK_RECEIVE_TIMESTAMPS (`83 17 83 07`) of draft-ietf-quic-receive-ts-02.
pub const ACK_RECEIVE_TIMESTAMPS: u64 = 0x0317_8307;

/// The frame type ACK_RECEIVE_TIMESTAMPS with ECN counts (`83 17 83 08`) of
/// draft-ietf-quic-receive-ts-02.
pub const ACK_RECEIVE_TIMESTAMPS_ECN: u64 = 0x0317_8308;

/// The transport parameter max_receive_timestamps_per_ack of draft-ietf-quic-receive-ts-02.
pub const MAX_RECEIVE_TIMESTAMPS_PARAMETER: u64 = 0x4ac07;

/// The transport parameter receive_timestamps_exponent of draft-ietf-quic-receive-ts-02.
pub const RECEIVE_TIMESTAMPS_EXPONENT_PARAMETER: u64 = 0x4ac26;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_are_unreserved_and_four_bytes_long() {
        for id in [SYNC_TIMESTAMP, SYNC_TIMESTAMP_ECHO, SYNC_TIMESTAMP_PARAMETER] {
            assert!((1 << 14..1 << 30).contains(&id), "{id:#x} is not a 4-byte varint");
            assert_ne!(id % 31, 27, "{id:#x} is reserved for greasing");
        }
        assert_eq!(SYNC_TIMESTAMP_ECHO, SYNC_TIMESTAMP + 1);
    }
}
