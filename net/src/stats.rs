//! Connection statistics of each stack.

use crate::metrics::ConnectionStats;

/// quinn's.
pub(crate) fn quinn(connection: &quinn::Connection) -> ConnectionStats {
    let stats = connection.stats();
    let path = stats.path;
    ConnectionStats {
        rtt: (!path.rtt.is_zero()).then_some(path.rtt),
        window: path.cwnd,
        sent: path.sent_packets,
        sent_bytes: stats.udp_tx.bytes,
        lost: path.lost_packets,
        reductions: path.congestion_events,
        ..ConnectionStats::default()
    }
}

/// quiche's; it does not count reductions.
#[cfg(feature = "quiche")]
pub(crate) fn quiche<F: quiche::BufFactory>(connection: &quiche::Connection<F>) -> ConnectionStats {
    let stats = connection.stats();
    let path = connection.path_stats().find(|path| path.active);
    ConnectionStats {
        // Without a sample it is a guess.
        rtt: path.as_ref().filter(|path| path.min_rtt.is_some()).map(|path| path.rtt),
        window: path.map_or(0, |path| path.cwnd as u64),
        sent: stats.sent as u64,
        sent_bytes: stats.sent_bytes,
        lost: stats.lost as u64,
        ..ConnectionStats::default()
    }
}

/// noq's.
pub(crate) fn noq(connection: &noq::Connection) -> ConnectionStats {
    let stats = connection.stats();
    let path = connection.path_stats(noq::PathId::ZERO);
    ConnectionStats {
        rtt: path.map(|path| path.rtt).filter(|rtt| !rtt.is_zero()),
        window: path.map_or(0, |path| path.cwnd),
        sent: stats.sent_packets,
        sent_bytes: path.map_or(0, |path| path.udp_tx.bytes),
        lost: stats.lost_packets,
        reductions: path.map_or(0, |path| path.congestion_events),
        ..ConnectionStats::default()
    }
}
