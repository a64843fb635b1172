//! Tests of the path properties that are derived from logs of other stacks' servers. Each log is a
//! download of 52,000 bytes over `fathom link --rate 2Mbps --rtt 30ms` from aioquic 1.7.2, picoquic
//! 1.1.53, quic-go 0.65.0 or ngtcp2 0.12.1, recorded in real time on a busy machine. Each stack was
//! recorded three times, and the log with the smallest round trip was kept, because other load
//! disturbed it least. The log of quinn is in `bench/qlog/tests/logs`. The log of mvfst is
//! generated here, in the format of `bench/qlog/tests/stacks.rs`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use fathom_advise::{Observation, Observed, Profile, RateSource};

fn observed(path: &Path) -> Observed {
    Observed::read(&[path.to_owned()], &mut |_| {}).unwrap()
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name)
}

#[test]
fn paths_are_recovered_from_logs_of_four_other_stacks() {
    for name in ["aioquic.qlog", "picoquic.qlog", "quic-go.sqlog", "ngtcp2.sqlog"] {
        let observed = observed(&recorded(name));
        let [connection] = &observed.connections[..] else {
            panic!("{name}: {:?}", observed.connections)
        };
        println!(
            "{name:14} {:.2} Mbps {:.1} ms",
            connection.rate_bps.unwrap_or(0.0) / 1e6,
            connection.rtt_ms.unwrap_or(0.0)
        );
        assert_eq!(connection.rate_source, Some(RateSource::Acknowledged), "{name}");
        let near = |found: Option<f64>, truth: f64, part: f64| {
            found.is_some_and(|n| (n / truth - 1.0).abs() < part)
        };
        assert!(near(connection.rate_bps, 2e6, 0.1), "{name}: {connection:?}");
        // aioquic, which is written in Python, needed extra processing time.
        assert!(near(connection.rtt_ms, 30.0, 0.25), "{name}: {connection:?}");
        assert!(
            connection.responses.iter().any(|bytes| (52_000..53_000).contains(bytes)),
            "{name}: {:?}",
            connection.responses
        );
        assert_eq!(Profile::of(&observed, 4).classes.len(), 1, "{name}");
    }
}

/// Simulates a sender over 10 Mbps with a round trip of 40 ms and a growing queue. It sends
/// 1,222 bytes per millisecond, and IP and UDP headers make up the rest of the rate.
fn made(head: &str, tail: &str, event: impl Fn(&mut String, u32, f64)) -> Observation {
    let mut text = head.to_owned();
    for i in 0..600 {
        event(&mut text, i, 40.0 + f64::from(i) / 10.0);
    }
    text.push_str(tail);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    observed(file.path()).connections.remove(0)
}

fn is_the_path(found: &Observation, source: RateSource) {
    assert_eq!(found.rate_source, Some(source));
    assert!((found.rate_bps.unwrap() / 1e7 - 1.0).abs() < 0.02, "{found:?}");
    assert!((found.rtt_ms.unwrap() - 39.0).abs() < 0.5, "{found:?}");
}

#[test]
fn path_is_recovered_from_recorded_quinn_log() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../qlog/tests/logs/quinn-0.11.sqlog");
    let observed = observed(&log);
    let [found] = &observed.connections[..] else { panic!("{:?}", observed.connections) };
    assert_eq!(found.rate_source, Some(RateSource::SentLessInFlight));
    // Recorded behind `fathom link --rate 4Mbps --rtt 40ms`; the log has round trips in seconds.
    assert!((found.rate_bps.unwrap() / 4e6 - 1.0).abs() < 0.05, "{found:?}");
    assert!((found.rtt_ms.unwrap() / 40.0 - 1.0).abs() < 0.05, "{found:?}");
}

#[test]
fn mvfst_ack_ranges_written_as_text_are_read() {
    let head = "{\"qlog_version\":\"draft-00\",\"traces\":[{\"events\":[[\"0\",\"transport\",\"connection_started\",{}]";
    let tail = "],\"event_fields\":[\"relative_time\",\"CATEGORY\",\"EVENT_TYPE\",\"DATA\"],\"configuration\":{\"time_units\":\"us\"},\
                \"common_fields\":{\"dcid\":\"9c\"},\"vantage_point\":{\"type\":\"server\"}}]}";
    let found = made(head, tail, |text, i, rtt| {
        let (sent, acked, rtt) = (i * 1_000, i * 1_000 + 400, (rtt * 1e3) as u32);
        let _ = write!(
            text,
            ",[\"{sent}\",\"transport\",\"packet_sent\",{{\"header\":{{\"packet_number\":{i},\"packet_size\":1222}},\"packet_type\":\"1RTT\",\"frames\":[]}}]\
             ,[\"{acked}\",\"transport\",\"packet_received\",{{\"header\":{{\"packet_number\":{i},\"packet_size\":40}},\"packet_type\":\"1RTT\",\
             \"frames\":[{{\"frame_type\":\"ack\",\"acked_ranges\":[[\"0\",\"{i}\"]],\"ack_delay\":\"12\"}}]}}]\
             ,[\"{acked}\",\"recovery\",\"metric_update\",{{\"latest_rtt\":{rtt},\"min_rtt\":40000,\"smoothed_rtt\":{rtt}}}]"
        );
    });
    is_the_path(&found, RateSource::Acknowledged);
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Corrupted logs are read or refused with one line, and all numbers of the classes are
        /// valid.
        #[test]
        fn advise_never_panics_on_corrupted_logs(
            which in 0_usize..4,
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
            cut in any::<prop::sample::Index>(),
        ) {
            let name = ["aioquic.qlog", "picoquic.qlog", "quic-go.sqlog", "ngtcp2.sqlog"][which];
            let mut bytes = std::fs::read(recorded(name)).unwrap();
            for (place, byte) in places {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            match Observed::read(&[file.path().to_owned()], &mut |_| {}) {
                Ok(observed) => {
                    for class in Profile::of(&observed, 4).classes {
                        prop_assert!(class.rtt_ms.is_finite() && class.rate_bps.is_finite() && class.loss <= 1.0, "{class:?}");
                    }
                }
                Err(e) => prop_assert!(!e.to_string().contains('\n')),
            }
        }
    }
}
