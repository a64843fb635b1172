//! One connection is written in all variants of logs, which differ in layout, units, headers,
//! order, byte order mark and compression. Each variant must give the same events, with a warning
//! if something was converted.

use std::io::Write;
use std::path::Path;

use fathom_qlog::{LoggedEvent, ParsedEvent, Summary, read};
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

/// Returns time in milliseconds, name and data of each event; round trips are in `rtts` per
/// millisecond.
fn connection(rtts: f64) -> Vec<(f64, &'static str, Value)> {
    let mut events = Vec::new();
    let header = |n: u32| json!({ "packet_type": "1RTT", "packet_number": n });
    for n in 0..80_u32 {
        let (sent, rtt) = (0.37 + f64::from(n) * 2.2, 40.0 + f64::from(n) / 4.0);
        let stream = json!([{ "frame_type": "stream", "stream_id": 4, "offset": n * 1_100, "length": 1_100 }]);
        let packet = json!({ "header": header(n), "raw": { "length": 1_200 }, "frames": stream });
        events.push((sent, "packet_sent", packet));
        let ack = json!([{ "frame_type": "ack", "acked_ranges": [[0, n]] }]);
        let packet = json!({ "header": header(n), "raw": { "length": 40 }, "frames": ack });
        events.push((sent + rtt, "packet_received", packet));
        let metrics = json!({ "latest_rtt": rtt * rtts, "congestion_window": 30_000 + n, "bytes_in_flight": 20_000 });
        events.push((sent + rtt + 1e-3, "metrics_updated", metrics));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    events
}

fn category(name: &str) -> &'static str {
    if name == "metrics_updated" { "recovery" } else { "transport" }
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    Sequence,
    Lines,
    TwoHeaders,
    Document,
    /// Settings after the events.
    Behind,
    /// draft-00: arrays.
    Arrays,
}

const LAYOUTS: [Layout; 6] = [
    Layout::Sequence,
    Layout::Lines,
    Layout::TwoHeaders,
    Layout::Document,
    Layout::Behind,
    Layout::Arrays,
];

/// Unit that a log declares, and units of time per millisecond.
const UNITS: [(Option<&str>, f64); 4] =
    [(None, 1.0), (Some("ms"), 1.0), (Some("us"), 1e3), (Some("s"), 1e-3)];

#[derive(Clone, Copy, Debug)]
enum Order {
    Sorted,
    NeighboursSwapped,
    BlocksReversed,
}

#[derive(Clone, Copy, Debug)]
enum Packed {
    Plain,
    Gzip,
    GzipInTwo,
    Zstd,
    ZstdInTwo,
}

fn written(layout: Layout, unit: (Option<&str>, f64), rtts: f64, order: Order) -> String {
    let mut events = connection(rtts);
    match order {
        Order::Sorted => {}
        Order::NeighboursSwapped => events.chunks_mut(2).for_each(<[_]>::reverse),
        Order::BlocksReversed => events.chunks_mut(60).for_each(<[_]>::reverse),
    }
    let configuration = unit.0.map_or(json!({}), |name| json!({ "time_units": name }));
    let vantage = json!({ "type": "server" });
    let objects = events.iter().map(
        |(at, name, data)| json!({ "time": at * unit.1, "name": format!("{}:{name}", category(name)), "data": data }),
    );
    let trace = json!({ "vantage_point": vantage, "configuration": configuration });
    match layout {
        Layout::Sequence | Layout::Lines => {
            let header =
                json!({ "qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": trace });
            let before = if matches!(layout, Layout::Sequence) { "\u{1e}" } else { "" };
            std::iter::once(header)
                .chain(objects)
                .map(|record| format!("{before}{record}\n"))
                .collect()
        }
        Layout::TwoHeaders => {
            let headers = [json!({ "qlog_version": "0.4", "qlog_format": "JSON-SEQ" }), trace];
            headers.into_iter().chain(objects).map(|record| format!("{record}\n")).collect()
        }
        Layout::Document => {
            let mut trace = trace;
            trace["events"] = objects.collect();
            json!({ "qlog_version": "0.3", "traces": [trace] }).to_string()
        }
        Layout::Behind => {
            let events: Value = objects.collect();
            format!(
                "{{\"traces\":[{{\"events\":{events},\"configuration\":{configuration},\"vantage_point\":{vantage}}}]}}"
            )
        }
        Layout::Arrays => {
            let rows: Value = events
                .iter()
                .map(|(at, name, data)| json!([at * unit.1, category(name), name, data]))
                .collect();
            let fields = json!(["relative_time", "category", "event", "data"]);
            let trace = json!({
                "vantage_point": vantage, "configuration": configuration, "event_fields": fields, "events": rows,
            });
            json!({ "qlog_version": "draft-00", "traces": [trace] }).to_string()
        }
    }
}

fn packed(text: &[u8], packed: Packed) -> Vec<u8> {
    let gzip = |part: &[u8]| {
        let mut to = GzEncoder::new(Vec::new(), Compression::fast());
        to.write_all(part).unwrap();
        to.finish().unwrap()
    };
    let zstd = |part: &[u8]| compress_to_vec(part, CompressionLevel::Fastest);
    let (head, tail) = text.split_at(text.len() / 3);
    match packed {
        Packed::Plain => text.to_vec(),
        Packed::Gzip => gzip(text),
        Packed::GzipInTwo => [gzip(head), gzip(tail)].concat(),
        Packed::Zstd => zstd(text),
        // Insert a skippable frame between the two frames.
        Packed::ZstdInTwo => {
            [zstd(head), b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc".to_vec(), zstd(tail)].concat()
        }
    }
}

type Seen = Vec<(f64, ParsedEvent)>;

fn seen_at(path: &Path) -> (Seen, Summary) {
    let mut all = Vec::new();
    let summary = read(path, &mut |_| {}, &mut |event: &LoggedEvent<'_>| {
        all.push((event.at, ParsedEvent::parse(event)));
    });
    (all, summary.unwrap())
}

fn seen(bytes: &[u8]) -> (Seen, Summary) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    seen_at(file.path())
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

/// Panics with `what` unless both have the same events.
fn assert_same(found: &Seen, truth: &Seen, what: &str) {
    assert_eq!(found.len(), truth.len(), "{what}");
    for (a, b) in found.iter().zip(truth) {
        let is_same = match (&a.1, &b.1) {
            (ParsedEvent::Metrics(a), ParsedEvent::Metrics(b)) => {
                near(a.latest_rtt.unwrap_or(0.0), b.latest_rtt.unwrap_or(0.0))
                    && (a.window, a.in_flight) == (b.window, b.in_flight)
            }
            (a, b) => a == b,
        };
        assert!(is_same && near(a.0, b.0), "{what}: {a:?} instead of {b:?}");
    }
}

#[test]
fn logs_in_every_layout_give_the_same_events() {
    let (truth, plain) = seen(written(Layout::Sequence, UNITS[0], 1.0, Order::Sorted).as_bytes());
    assert_eq!((truth.len(), plain.warnings.len()), (240, 0));
    for layout in LAYOUTS {
        for unit in UNITS {
            for rtts in [1e-3, 1.0, 1e3] {
                for order in [Order::Sorted, Order::NeighboursSwapped, Order::BlocksReversed] {
                    let what = format!("{layout:?} {unit:?} {rtts} {order:?}");
                    let (found, summary) = seen(written(layout, unit, rtts, order).as_bytes());
                    assert_same(&found, &truth, &format!("{what}; {:?}", summary.warnings));
                    let is_converted = (rtts / unit.1 - 1.0).abs() > 1e-9;
                    assert_eq!(
                        summary.warnings.len(),
                        usize::from(is_converted),
                        "{what}: {:?}",
                        summary.warnings
                    );
                    assert_eq!((summary.malformed, summary.cut_off), (None, None), "{what}");
                }
            }
        }
    }
}

#[test]
fn compressed_logs_give_the_same_events() {
    let (truth, _) = seen(written(Layout::Sequence, UNITS[0], 1.0, Order::Sorted).as_bytes());
    for layout in LAYOUTS {
        for how in [Packed::Plain, Packed::Gzip, Packed::GzipInTwo, Packed::Zstd, Packed::ZstdInTwo]
        {
            for mark in ["", "\u{feff}"] {
                for space in ["", "\r\n "] {
                    let text =
                        format!("{mark}{space}{}", written(layout, UNITS[2], 1e3, Order::Sorted));
                    let (found, summary) = seen(&packed(text.as_bytes(), how));
                    let what = format!("{layout:?} {how:?} {mark:?} {space:?}");
                    assert_same(&found, &truth, &what);
                    let nothing = (summary.warnings.len(), summary.malformed, summary.cut_off);
                    assert_eq!(nothing, (0, None, None), "{what}");
                }
            }
        }
    }
}

#[test]
fn truncated_compressed_log_is_read_up_to_its_end() {
    let text = written(Layout::Sequence, UNITS[0], 1.0, Order::Sorted);
    for how in [Packed::Gzip, Packed::Zstd] {
        let whole = packed(text.as_bytes(), how);
        let mut file = whole[..whole.len() * 9 / 10].to_vec();
        let (found, summary) = if matches!(how, Packed::Gzip) {
            seen(&file)
        } else {
            // A zstd block is read completely or not at all: the second frame breaks off.
            file = [whole.clone(), whole[..whole.len() / 2].to_vec()].concat();
            seen(&file)
        };
        assert!(
            found.len() > 100
                && summary.cut_off.as_ref().is_some_and(|at| at.contains("compressed data")),
            "{how:?}: {summary:?}"
        );
    }
}

#[test]
fn decompression_bomb_is_stopped() {
    // The file has 400 MB of spaces in 400 kB of gzip.
    let mut to = GzEncoder::new(Vec::new(), Compression::best());
    to.write_all(b"\x1e{\"qlog_version\":\"0.3\"}\n").unwrap();
    let spaces = vec![b' '; 1 << 20];
    (0..400).for_each(|_| to.write_all(&spaces).unwrap());
    let bomb = to.finish().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bomb).unwrap();
    let line = read(file.path(), &mut |_| {}, &mut |_| {}).unwrap_err().to_string();
    assert!(line.contains("100 times its size") && !line.contains('\n'), "{line}");
}

#[test]
fn read_progress_counts_bytes_of_the_compressed_file() {
    let text = written(Layout::Sequence, UNITS[0], 1.0, Order::Sorted);
    for how in [Packed::Plain, Packed::Gzip, Packed::Zstd] {
        let bytes = packed(text.as_bytes(), how);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let mut told = 0;
        read(file.path(), &mut |n| told += n, &mut |_| {}).unwrap();
        assert_eq!(told, bytes.len() as u64, "{how:?}");
    }
}

#[cfg(unix)]
#[test]
fn log_from_a_pipe_is_read_like_a_file() {
    let (truth, _) = seen(written(Layout::Sequence, UNITS[0], 1.0, Order::Sorted).as_bytes());
    for (layout, how) in [
        (Layout::Sequence, Packed::Plain),
        (Layout::Document, Packed::Gzip),
        (Layout::Behind, Packed::Zstd),
    ] {
        let bytes = packed(written(layout, UNITS[0], 1.0, Order::Sorted).as_bytes(), how);
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::write(pipe, bytes).unwrap()
        });
        let (found, _) = seen_at(&pipe);
        writer.join().unwrap();
        assert_same(&found, &truth, &format!("{layout:?} {how:?}"));
    }
}

#[test]
fn error_names_the_format_of_a_file_that_is_not_a_qlog() {
    let capture: &[u8] = b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00";
    let old = br#"{"quic_version":"0xff00000b","qlog_version":"0.1","vantagepoint":"NETWORK","connectionid":"9e:f8","starttime":1524571067.8,"fields":["time","category","type","trigger","data"],"events":[[0,"CONNECTIVITY","NEW_CONNECTION","LINE",{}]]}"#;
    let files: [(&[u8], &str); 10] = [
        (
            b"{\"constants\":{\"logEventTypes\":{}},\n\"events\":[\n{\"time\":\"1\",\"type\":2}]}",
            "Chrome's NetLog",
        ),
        (b"{\"constants\":{},\"events\":[{\"time\":\"1\",\"type\":2}]}\n", "Chrome's NetLog"),
        (old, "before draft-00"),
        (b"// qlog\nvar log = {};", "JavaScript"),
        (b"[0,\"transport\",\"packet_sent\",{}]\n", "the header is missing"),
        (capture, "packet capture"),
        (b"\xfd7zXZ\x00\x00", "unxz"),
        (b"PK\x03\x04\x14\x00", "zip archive"),
        (b"{\"log\":{\"version\":\"1.2\",\"entries\":[]}}", "HAR"),
        (b"<!doctype html>", "HTML"),
    ];
    for (bytes, says) in files {
        for how in [Packed::Plain, Packed::Gzip] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), packed(bytes, how)).unwrap();
            let line = read(file.path(), &mut |_| {}, &mut |_| {}).unwrap_err().to_string();
            assert!(line.contains(says) && !line.contains('\n'), "{how:?} {says}: {line}");
        }
    }
}

#[test]
fn windows_logged_in_packets_become_bytes() {
    let bytes = written(Layout::Sequence, UNITS[0], 1.0, Order::Sorted);
    let packets = bytes
        .replace("\"congestion_window\":300", "\"congestion_window\":3")
        .replace("\"bytes_in_flight\":20000", "\"bytes_in_flight\":16");
    let (found, summary) = seen(packets.as_bytes());
    let [warning] = &summary.warnings[..] else { panic!("{:?}", summary.warnings) };
    assert!(
        warning.contains("windows and bytes in flight in the log are counted in packets"),
        "{warning}"
    );
    let window = found.iter().find_map(|(_, event)| {
        if let ParsedEvent::Metrics(m) = event { m.window.zip(m.in_flight) } else { None }
    });
    assert_eq!(window, Some((300.0 * 1_200.0, 16.0 * 1_200.0)));
}

#[test]
fn unknown_units_in_logs_are_reported() {
    let text = written(Layout::Sequence, (Some("fortnights"), 1.0), 1.0, Order::Sorted);
    let (_, summary) = seen(text.as_bytes());
    assert!(
        matches!(&summary.warnings[..], [line] if line.contains("\"fortnights\"")),
        "{:?}",
        summary.warnings
    );
}

#[test]
fn log_events_far_out_of_order_are_counted() {
    let mut lines: Vec<String> =
        written(Layout::Lines, UNITS[0], 1.0, Order::Sorted).lines().map(str::to_owned).collect();
    let early = lines.remove(1);
    let filler =
        (0..600).map(|n| format!("{{\"time\":{},\"name\":\"a:b\",\"data\":{{}}}}", 1_000 + n));
    lines.extend(filler);
    lines.push(early);
    let (_, summary) = seen(lines.join("\n").as_bytes());
    assert!(
        matches!(&summary.warnings[..], [line] if line.starts_with("1 of the 840 events")),
        "{:?}",
        summary.warnings
    );
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Damaged compressed logs never panic: either the part before the damage is read, or one
        /// line says why nothing is.
        #[test]
        fn log_reader_never_panics_on_damaged_compressed_logs(
            how in prop::sample::select(vec![Packed::Gzip, Packed::GzipInTwo, Packed::Zstd, Packed::ZstdInTwo]),
            layout in prop::sample::select(LAYOUTS.to_vec()),
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = packed(written(layout, UNITS[0], 1.0, Order::Sorted).as_bytes(), how);
            for (place, byte) in places {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            let mut events = 0;
            match read(file.path(), &mut |_| {}, &mut |event| events += u64::from(event.at.is_finite())) {
                Ok(summary) => prop_assert_eq!(events, summary.events),
                Err(e) => prop_assert!(!e.to_string().contains('\n'), "{}", e),
            }
        }
    }
}
