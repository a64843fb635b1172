//! Tests that units are derived from a log's own packets, whatever the log declares. The same
//! connection in every unit must give the same numbers, and one warning about the conversion.

use std::path::{Path, PathBuf};

use fathom_qlog::{LoggedEvent, ParsedEvent, ParsedMetrics, Summary, read};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name)
}

/// Returns times and round trips of all metrics, in milliseconds.
fn rtts(path: &Path) -> (Vec<(f64, f64)>, Summary) {
    let mut all = Vec::new();
    let summary = read(path, &mut |_| {}, &mut |event: &LoggedEvent<'_>| {
        if let ParsedEvent::Metrics(ParsedMetrics { latest_rtt: Some(rtt), .. }) =
            ParsedEvent::parse(event)
        {
            all.push((event.at, rtt));
        }
    });
    (all, summary.unwrap())
}

fn read_text(text: &str) -> (Vec<(f64, f64)>, Summary) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    rtts(file.path())
}

fn same(found: &[(f64, f64)], truth: &[(f64, f64)]) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * b.abs().max(1.0);
    found.len() == truth.len()
        && found.iter().zip(truth).all(|(a, b)| near(a.0, b.0) && near(a.1, b.1))
}

#[test]
fn seconds_in_logs_of_released_quinn_become_milliseconds() {
    let (seconds, summary) = rtts(&fixture("small-seconds.sqlog"));
    let (millis, plain) = rtts(&fixture("small-ms.sqlog"));
    assert!(same(&seconds, &millis) && (millis[0].1 - 40.0).abs() < 1e-9, "{seconds:?}");
    let [warning] = &summary.warnings[..] else { panic!("{:?}", summary.warnings) };
    assert!(
        warning.contains("in seconds") && warning.contains("quinn#2631") && !warning.contains('\n'),
        "{warning}"
    );
    assert_eq!(plain.warnings, [""; 0]);
}

#[test]
fn log_may_use_different_units_for_times_and_rtts() {
    let (found, summary) = rtts(&fixture("quicx-two-header-lines.qlog"));
    assert!((found[0].0 - 40.0).abs() < 1e-9 && (found[0].1 - 40.0).abs() < 1e-9, "{:?}", found[0]);
    assert!(
        matches!(&summary.warnings[..], [line] if line.contains("its event times in microseconds")),
        "{summary:?}"
    );
    assert_eq!(summary.malformed, None);
}

#[test]
fn logs_compressed_by_other_encoders_are_read() {
    let [gzip, zstd] =
        ["tokio-quiche.sqlog.gz", "tokio-quiche.sqlog.zst"].map(|name| rtts(&fixture(name)));
    assert!(same(&gzip.0, &zstd.0) && gzip.0.len() == 392, "{}", gzip.0.len());
    assert!(gzip.1.warnings.is_empty() && zstd.1.warnings.is_empty(), "{:?}", gzip.1.warnings);
}

/// Evidence in a log besides its metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Has {
    AckFrames,
    BytesInFlight,
    PacketsSent,
    InitialRtt,
    FirstAnswer,
    Metrics,
}

/// Returns the log of a server's connection: a packet each 2.2 ms over a path of `path` ms whose
/// queue grows, and incoming packets at the same rate. Event times are written in `times` per
/// millisecond, round trips in `rtts` per millisecond.
fn made(has: Has, header: &str, path: f64, times: f64, rtts: f64) -> String {
    let mut events: Vec<(f64, String)> = Vec::new();
    let mut push = |at: f64, name: &str, data: String| {
        events.push((
            at,
            format!("{{\"time\":{},\"name\":\"{name}\",\"data\":{data}}}\n", at * times),
        ));
    };
    let packet = |n: u32, bytes: u32, frames: &str| {
        format!(
            "{{\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{n},\"length\":{bytes}}}{frames}}}"
        )
    };
    let space = 2.2 * path / 40.0;
    if has == Has::InitialRtt {
        push(0.0, "recovery:metrics_updated", format!("{{\"smoothed_rtt\":{}}}", 333.0 * rtts));
    }
    for n in 0..120 {
        let (sent, rtt) = (f64::from(n) * space, path * (1.0 + f64::from(n) / 200.0));
        let answered = sent + rtt;
        let is_sent =
            has != Has::Metrics && has != Has::InitialRtt && (has != Has::FirstAnswer || n == 0);
        if is_sent {
            push(sent, "transport:packet_sent", packet(n, 1_200, ""));
        }
        if has == Has::AckFrames {
            let ack =
                format!(",\"frames\":[{{\"frame_type\":\"ack\",\"acked_ranges\":[[0,{n}]]}}]");
            push(answered, "transport:packet_received", packet(n, 40, &ack));
        } else if has == Has::FirstAnswer && n == 0 {
            push(answered + 1.0, "transport:packet_received", packet(n, 40, ""));
        }
        let flight = match has {
            Has::BytesInFlight => {
                format!(",\"bytes_in_flight\":{}", 1_200 * (1 + ((answered - sent) / space) as u32))
            }
            _ => String::new(),
        };
        push(
            answered + 1e-3,
            "recovery:metrics_updated",
            format!("{{\"latest_rtt\":{}{flight}}}", rtt * rtts),
        );
    }
    if has == Has::BytesInFlight {
        // Bytes in flight follow the packets: each sent packet adds, each acknowledged packet
        // subtracts.
        events.clear();
        let mut all: Vec<(f64, i32, f64)> = Vec::new();
        for n in 0..120 {
            let (sent, rtt) = (f64::from(n) * space, path * (1.0 + f64::from(n) / 200.0));
            all.extend([(sent, 1_200, 0.0), (sent + rtt, -1_200, rtt)]);
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut flight = 0;
        for (at, change, rtt) in all {
            flight += change;
            let rtt =
                if rtt > 0.0 { format!("\"latest_rtt\":{},", rtt * rtts) } else { String::new() };
            let line = format!(
                "\"name\":\"recovery:metrics_updated\",\"data\":{{{rtt}\"bytes_in_flight\":{flight}}}"
            );
            events.push((at, format!("{{\"time\":{},{line}}}\n", at * times)));
        }
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut text = format!(
        "{{\"qlog_version\":\"0.3\",\"trace\":{{\"vantage_point\":{{\"type\":\"server\"}}{header}}}}}\n"
    );
    text.extend(events.into_iter().map(|(_, line)| line));
    text
}

const DECLARED: [(&str, f64); 3] = [
    ("", 1.0),
    (",\"configuration\":{\"time_units\":\"us\"}", 1e3),
    (",\"common_fields\":{\"time_units\":\"s\"}", 1e-3),
];
const EVIDENCE: [Has; 5] =
    [Has::AckFrames, Has::BytesInFlight, Has::PacketsSent, Has::InitialRtt, Has::FirstAnswer];

#[test]
fn rtts_in_every_unit_become_milliseconds() {
    for has in EVIDENCE {
        let (truth, plain) = read_text(&made(has, "", 40.0, 1.0, 1.0));
        assert!(
            plain.warnings.is_empty() && (truth[0].1 - 40.0).abs() < 1e-9,
            "{has:?}: {plain:?}"
        );
        for (header, times) in DECLARED {
            for rtts in [1e-3, 1.0, 1e3] {
                let (found, summary) = read_text(&made(has, header, 40.0, times, rtts));
                assert!(
                    same(&found, &truth),
                    "{has:?} {header} {rtts}: {:?} {:?}",
                    &found[..3],
                    summary.warnings
                );
                let is_converted = (rtts / times - 1.0_f64).abs() > 1e-9;
                assert_eq!(
                    summary.warnings.len(),
                    usize::from(is_converted),
                    "{has:?} {header} {rtts}: {summary:?}"
                );
            }
        }
    }
}

#[test]
fn event_times_in_an_undeclared_unit_are_converted() {
    for has in EVIDENCE.into_iter().filter(|has| *has != Has::InitialRtt) {
        let (truth, _) = read_text(&made(has, "", 40.0, 1.0, 1.0));
        // Both in microseconds: no path takes 40 s. Only events in microseconds: acknowledgements
        // cannot take 40 s if metrics say 40 ms.
        for (times, rtts) in [(1e3, 1e3), (1e3, 1.0)] {
            let (found, summary) = read_text(&made(has, "", 40.0, times, rtts));
            let [warning] = &summary.warnings[..] else {
                panic!("{has:?} {times} {rtts}: {:?}", summary.warnings)
            };
            assert!(warning.contains("microseconds"), "{has:?} {times} {rtts}: {warning}");
            assert!(same(&found, &truth), "{has:?} {times} {rtts}: {:?} {warning}", &found[..3]);
        }
    }
}

#[test]
fn implausible_rtts_without_other_evidence_are_labelled() {
    for (rtts, says) in [(1e-3, "40 ms"), (1e3, "40 ms")] {
        let (_, summary) = read_text(&made(Has::Metrics, "", 40.0, 1.0, rtts));
        let [warning] = &summary.warnings[..] else { panic!("{rtts}: {:?}", summary.warnings) };
        assert!(warning.contains("to check them") && warning.contains(says), "{warning}");
    }
    assert!(read_text(&made(Has::Metrics, "", 40.0, 1.0, 1.0)).1.warnings.is_empty());
}

#[test]
fn rtts_that_contradict_the_packets_are_labelled() {
    let (_, summary) = read_text(&made(Has::AckFrames, "", 40.0, 1.0, 1.0 / 30.0));
    let [warning] = &summary.warnings[..] else { panic!("{:?}", summary.warnings) };
    assert!(warning.contains("contradict"), "{warning}");
}

#[test]
fn rtts_below_a_millisecond_are_kept() {
    for has in [Has::AckFrames, Has::BytesInFlight, Has::FirstAnswer] {
        let (found, summary) = read_text(&made(has, "", 0.3, 1.0, 1.0));
        assert!(
            (found[0].1 - 0.3).abs() < 1e-9 && summary.warnings.is_empty(),
            "{has:?}: {:?}",
            summary.warnings
        );
        let (seconds, _) = read_text(&made(has, "", 0.3, 1.0, 1e-3));
        assert!((seconds[0].1 - 0.3).abs() < 1e-9, "{has:?}: {:?}", seconds[0]);
    }
}
