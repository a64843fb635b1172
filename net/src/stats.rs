//! What a stack counts of a connection, in our words.

use crate::metrics::Ended;

/// quinn's.
pub(crate) fn quinn(connection: &quinn::Connection) -> Ended {
    let path = connection.stats().path;
    Ended {
        rtt: (!path.rtt.is_zero()).then_some(path.rtt),
        sent: path.sent_packets,
        lost: path.lost_packets,
        reductions: path.congestion_events,
        ..Ended::default()
    }
}

/// noq's.
pub(crate) fn noq(connection: &noq::Connection) -> Ended {
    let stats = connection.stats();
    let path = connection.path_stats(noq::PathId::ZERO);
    Ended {
        rtt: path.map(|path| path.rtt).filter(|rtt| !rtt.is_zero()),
        sent: stats.sent_packets,
        lost: stats.lost_packets,
        reductions: path.map_or(0, |path| path.congestion_events),
        ..Ended::default()
    }
}
