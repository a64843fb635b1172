//! Tests with handmade logs whose results are known.

use std::fmt::Write;
use std::io::Write as _;

use fathom_qlog::ResponseEnd;
use rand::RngExt;

use super::*;
use crate::report;

/// Returns a log in quinn's format with an RTT sample every 10 ms. A packet is sent 5 ms after each
/// sample, and is lost if `lost` selects the sample.
fn log(rtts: &[f64], lost: impl Fn(usize) -> bool) -> String {
    let mut text = String::from(
        "\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{}}\n",
    );
    for (n, rtt) in rtts.iter().enumerate() {
        let at = 10 * n;
        let _ = writeln!(
            text,
            "\u{1e}{{\"time\":{at},\"name\":\"recovery:metrics_updated\",\"data\":{{\"latest_rtt\":{rtt},\"congestion_window\":30000}}}}"
        );
        for packet in [2 * n, 2 * n + 1] {
            let sent = at + 5;
            let _ = writeln!(
                text,
                "\u{1e}{{\"time\":{sent},\"name\":\"transport:packet_sent\",\"data\":{{\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{packet}}}}}}}"
            );
        }
        // Losses are detected later.
        if let Some(before) = n.checked_sub(9).filter(|before| lost(*before)) {
            let packet = 2 * before;
            let at = at + 6;
            let _ = writeln!(
                text,
                "\u{1e}{{\"time\":{at},\"name\":\"recovery:packet_lost\",\"data\":{{\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{packet}}}}}}}"
            );
        }
    }
    text
}

fn gathered(text: &str) -> Source {
    let file = named(text);
    gather(&file.0, &mut Kept::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// A file that is deleted when dropped.
struct Named(std::path::PathBuf);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn named(text: &str) -> Named {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("fathom-analyze-{}-{number}", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    Named(path)
}

fn noise(n: usize) -> Vec<f64> {
    let mut rng = super::chance::rng();
    (0..n).map(|_| 50.0 + 10.0 * rng.random::<f64>()).collect()
}

#[test]
fn random_losses_are_reported_as_not_predicted_by_delay() {
    let rtts = noise(4_000);
    let answer = loss_delay(vec![gathered(&log(&rtts, |n| n % 37 == 5))]).unwrap();
    assert_eq!(answer.verdict, Verdict::NoBetterThanChance, "{:?}", answer.page().verdicts);
    assert_eq!((answer.samples, answer.sent, answer.lost), (4_000, Some(8_000), 108));
    let (share, chance) = (answer.share.unwrap(), answer.by_chance.unwrap());
    assert!((share - chance).abs() < 0.1, "{share} {chance}");
    assert!(answer.p_value.unwrap() > 0.05);
    assert!(answer.lags.iter().all(|l| (l.relative - 1.0).abs() < 0.05), "flat");
    // Reducing the window at random only costs throughput.
    let cost = answer.cost.unwrap().degradation_percent;
    let (low, high) = answer.cost_interval.unwrap();
    assert!(cost < -10.0 && low <= cost && cost <= high && high < 0.0, "{low} {cost} {high}");
    let text = report::text(&answer.page());
    assert!(
        text.contains("Delay did not predict loss here")
            && text.contains("throughput would have changed by -"),
        "{text}"
    );
}

#[test]
fn full_queue_losses_are_reported_as_predicted_by_delay() {
    // A queue that fills and overflows, with some noise: losses come at the top of each ramp.
    let rtts: Vec<f64> = noise(4_000)
        .iter()
        .enumerate()
        .map(|(n, r)| if n % 40 >= 37 { r + 60.0 } else { *r })
        .collect();
    let answer = loss_delay(vec![gathered(&log(&rtts, |n| n % 40 == 39))]).unwrap();
    assert_eq!(answer.verdict, Verdict::Predicts, "{:?}", answer.page().verdicts);
    assert!(answer.share.unwrap() > 0.95 && answer.p_value.unwrap() < 0.05);
    let peak = answer.lags.iter().find(|l| l.lag == -1).unwrap();
    assert!(peak.relative > 1.5 && answer.before_loss.median_ms > 100.0, "{peak:?}");
    let page = report::html(&answer.page());
    assert!(
        page.matches("<svg").count() == 2
            && !page.contains("src=")
            && page.matches("href=").count() == page.matches("href=\"data:").count()
            && !page.contains("<script"),
        "self-contained"
    );
}

#[test]
fn loss_delay_analysis_of_few_losses_gives_no_conclusion() {
    let answer = loss_delay(vec![gathered(&log(&noise(300), |n| n == 150))]).unwrap();
    assert_eq!((answer.verdict, answer.losses), (Verdict::TooLittle, 1));
    assert!(
        answer.page().verdicts[0].contains("too few data")
            && answer.cautions.iter().any(|c| c.contains("before them: 1;"))
    );
    // Without packets, the send time is guessed and no cost is predicted.
    let text: String = log(&noise(1_000), |n| n % 30 == 0)
        .lines()
        .filter(|l| !l.contains("packet_sent"))
        .map(|l| format!("{l}\n"))
        .collect();
    let answer = loss_delay(vec![gathered(&text)]).unwrap();
    assert!(answer.sent.is_none() && answer.cost.is_none() && answer.losses > 20);
    assert!(
        answer.cautions.iter().any(|c| c.contains("does not say when"))
            && answer.cautions.iter().any(|c| c.contains("No cost"))
    );
}

#[test]
fn comparison_finds_slower_file_and_no_change_in_equal_files() {
    let rtts = noise(2_000);
    let slower: Vec<f64> = rtts.iter().map(|r| r * 1.5).collect();
    let of = |rtts: &[f64], lost: usize| gathered(&log(rtts, move |n| n % lost == 0));
    let same = compare(vec![of(&rtts, 40), of(&rtts, 40)]).unwrap();
    let page = same.page();
    assert!(page.verdicts[0].contains("no measure differs"), "{:?}", page.verdicts);
    let other = compare(vec![of(&rtts, 40), of(&slower, 10)]).unwrap();
    let row =
        |name: &str| other.measures.iter().find(|m| m.name.starts_with(name)).unwrap().files[1];
    let median = row("round trip, median");
    let (low, high) = median.interval.unwrap();
    assert!(
        (median.ratio.unwrap() - 1.5).abs() < 0.01 && low < 1.5 && 1.5 < high && low > 1.3,
        "{median:?}"
    );
    let lost = row("packets lost");
    assert!(lost.interval.is_some_and(|(low, _)| low > 2.0), "{lost:?}");
    assert!(
        other.page().verdicts[0].contains("round trip, median +50 %"),
        "{:?}",
        other.page().verdicts
    );
    assert!(compare(vec![of(&rtts, 40)]).is_err());
}

#[test]
fn response_times_are_read_from_tables_and_logs() {
    let mut text = String::from("intended_s,start_s,total_ms,bytes,status\n");
    for n in 0..500 {
        let _ = writeln!(
            text,
            "{n},{n},{},{},200",
            20 + n % 100,
            if n % 10 == 0 { 2_000_000 } else { 5_000 }
        );
    }
    let answer = response(vec![gathered(&text)]).unwrap();
    let counts: Vec<usize> = answer.classes[0].iter().map(|c| c.count).collect();
    assert_eq!(counts, [500, 450, 0, 0, 50]);
    let (median, interval) = answer.classes[0][0].percentiles[0].unwrap();
    assert!(
        (median - 69.0).abs() < 1.0
            && interval.is_some_and(|(low, high)| low < median && median < high)
    );
    let shown = |class: usize| {
        answer.classes[0][class].percentiles.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(
        (shown(0), shown(4)),
        (vec![true, true, true, false], vec![true, false, false, false]),
        "500 and 50"
    );
    let page = answer.page();
    assert_eq!((page.sheets.len(), page.figures.len()), (3, 1));
    // A log without streams has no responses; a table has no round trips.
    let none = response(vec![gathered(&log(&noise(50), |_| false))]).unwrap_err().to_string();
    assert!(none.contains("no responses") && !none.contains('\n'), "{none}");
    assert!(loss_delay(vec![gathered(&text)]).unwrap_err().to_string().contains("no round trips"));
}

/// Returns a log with one response on a stream, made of these events.
fn responding(vantage: &str, events: &str) -> Source {
    let head = format!(
        "\u{1e}{{\"qlog_version\":\"0.3\",\"trace\":{{\"vantage_point\":{{\"type\":\"{vantage}\"}}}}}}\n"
    );
    gathered(&(head + events))
}

fn event(at: u32, name: &str, data: &str) -> String {
    format!("\u{1e}{{\"time\":{at},\"name\":\"{name}\",\"data\":{{{data}}}}}\n")
}

#[test]
fn response_times_that_end_at_handover_to_quic_are_refused() {
    let packet = |way: &str, at, length: u32| {
        let frames = format!(
            "\"frames\":[{{\"frame_type\":\"stream\",\"stream_id\":0,\"offset\":0,\"length\":{length}}}]"
        );
        event(at, &format!("transport:packet_{way}"), &frames)
    };
    let moved = |at, to: &str| {
        let data = format!(
            "\"stream_id\":0,\"offset\":0,\"length\":9000,\"from\":\"application\",\"to\":\"{to}\""
        );
        event(at, "transport:data_moved", &data).replace("data_moved", "stream_data_moved")
    };
    let rtt = || event(1, "recovery:metrics_updated", "\"latest_rtt\":20");
    let response = |times: &str| {
        event(50, "fathom:response", &format!("\"status\":200,\"bytes\":9000,{times}"))
    };
    // The first log has the format of older versions of fathom serve. The second is from a server
    // of another stack and contains only the times when the application handed data over.
    let old = || responding("server", &(rtt() + &response("\"first_byte\":0.1,\"total\":0.2")));
    let handed =
        || responding("server", &(rtt() + &packet("received", 2, 30) + &moved(3, "transport")));
    for source in [old(), handed()] {
        assert_eq!(source.until(), Some(ResponseEnd::HandedOver));
        let why = super::response(vec![source]).unwrap_err().to_string();
        assert!(
            why.contains("when the server's QUIC stack accepted the last byte")
                && why.contains("Measure at the client"),
            "{why}"
        );
    }
    let new =
        || responding("server", &(rtt() + &response("\"handed_over\":0.2,\"acknowledged\":40")));
    let server = || {
        responding(
            "server",
            &(rtt()
                + &packet("received", 2, 30)
                + &moved(3, "transport")
                + &packet("sent", 30, 9_000)),
        )
    };
    let client =
        || responding("client", &(rtt() + &packet("sent", 2, 30) + &packet("received", 30, 9_000)));
    for (source, until, labelled) in [
        (new(), ResponseEnd::Acknowledged, false),
        (server(), ResponseEnd::Sent, true),
        (client(), ResponseEnd::Received, false),
    ] {
        assert_eq!(source.until(), Some(until));
        let answer = super::response(vec![source]).unwrap();
        assert_eq!(
            answer.cautions.iter().any(|c| c.contains("a server's log")),
            labelled,
            "{until:?}"
        );
    }
    // Response times with different end points are not compared, but all other measures are.
    let rows = |a: Source, b: Source| {
        let answer = compare(vec![a, b]).unwrap();
        let responses = answer.measures.iter().any(|m| m.name.starts_with("response time"));
        let warned = answer.cautions.iter().any(|c| c.contains("Response times are not compared"));
        assert!(answer.measures.iter().any(|m| m.name.starts_with("round trip")));
        assert_ne!(responses, warned, "{:?}", answer.cautions);
        responses
    };
    assert!(
        !rows(old(), old())
            && !rows(new(), old())
            && !rows(new(), client())
            && !rows(server(), client())
    );
    assert!(rows(new(), new()) && rows(server(), server()) && rows(client(), client()));
}

#[test]
fn control_characters_in_file_names_are_escaped() {
    let mut evil = gathered("total_ms,bytes\n5,1\n");
    evil.name = "a\u{1b}[2J\u{9b}31m\rb\u{202e}c".into();
    evil.failed = 1;
    let other = gathered("total_ms,bytes\n6,1\n");
    let pages = [
        compare(vec![evil.clone(), other]).unwrap().page(),
        super::response(vec![evil]).unwrap().page(),
    ];
    for page in pages {
        let text = report::text(&page);
        assert!(
            !text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'),
            "{text:?}"
        );
        assert!(text.contains("a\\u{1b}[2J\\u{9b}31m\\rb\\u{202e}c"), "{text}");
    }
}

#[test]
fn fathom_logs_give_packets_per_ack_and_send_times() {
    // Logs from `fathom serve --qlog` contain packets per ACK, bytes and send times of losses, and
    // responses.
    let mut text = String::from(
        "\u{1e}{\"qlog_version\":\"0.3\",\"trace\":{\"vantage_point\":{\"type\":\"server\"}}}\n",
    );
    for n in 0..40 {
        let _ = writeln!(
            text,
            "\u{1e}{{\"time\":{},\"name\":\"quic:recovery_metrics_updated\",\"data\":{{\"latest_rtt\":20,\"fathom_acked_packets\":{},\"fathom_acked_bytes\":{}}}}}",
            n * 10,
            1 + n % 2,
            1_000 * (1 + n % 2)
        );
    }
    text += "\u{1e}{\"time\":395,\"name\":\"quic:packet_lost\",\"data\":{\"fathom_sent\":371,\"fathom_bytes\":3000}}\n";
    text += "\u{1e}{\"time\":399,\"name\":\"fathom:response\",\"data\":{\"status\":200,\"bytes\":5000,\"first_byte_handed_over\":2,\"handed_over\":3,\"acknowledged\":40}}\n";
    let source = gathered(&text);
    let connection = &source.connections[0];
    // Frames of one packet give no samples.
    assert_eq!(
        (connection.series.samples.len(), connection.sent, connection.series.lost),
        (20, Some(63), 3)
    );
    assert_eq!((connection.guessed_losses, connection.responses.len()), (0, 1));
    assert!(
        connection.series.samples.iter().position(|s| s.loss_follows) == Some(18),
        "that of 370 ms"
    );
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn log_analysis_never_panics_on_altered_logs(
            every in 1_usize..9,
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
            numbers in prop::collection::vec((any::<prop::sample::Index>(), prop::num::f64::ANY), 0..10),
        ) {
            let mut records: Vec<String> = log(&noise(60), |n| n % every == 0).lines().map(str::to_owned).collect();
            for (place, number) in numbers {
                let at = place.index(records.len());
                records.insert(at, format!(
                    "\u{1e}{{\"time\":{number},\"name\":\"quic:recovery_metrics_updated\",\"data\":{{\"latest_rtt\":{number},\"cwnd\":{number},\
                     \"fathom_packets_sent\":{number},\"fathom_acked_packets\":{number},\"fathom_acked_bytes\":{number}}}}}"
                ));
                records.insert(at, format!("\u{1e}{{\"time\":{number},\"name\":\"quic:packet_lost\",\"data\":{{\"fathom_sent\":{number},\"fathom_bytes\":{number}}}}}"));
            }
            let mut bytes = records.join("\n").into_bytes();
            for (place, byte) in places {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            let file = named(&String::from_utf8_lossy(&bytes));
            let source = || gather(&file.0, &mut Kept::default(), &mut |_| {});
            let Ok(one) = source() else { return Ok(()) };
            if let Ok(answer) = loss_delay(vec![one]) {
                let page = answer.page();
                let _ = (report::text(&page), report::html(&page), serde_json::to_string(&answer).unwrap());
            }
            if let (Ok(a), Ok(b)) = (source(), source())
                && let Ok(answer) = compare(vec![a, b])
            {
                let _ = report::html(&answer.page());
            }
        }
    }
}

/// Returns a log with an ACK frame for each round trip.
fn acknowledged(rtts: &[f64], path: impl Fn(usize) -> Option<u32>) -> String {
    let mut text = String::from(
        "{\"qlog_version\":\"0.3\",\"trace\":{\"vantage_point\":{\"type\":\"server\"}}}\n",
    );
    for (n, rtt) in rtts.iter().enumerate() {
        let (sent, came) = (100.0 * n as f64, 100.0 * n as f64 + rtt);
        let path = path(n).map_or_else(String::new, |path| format!(",\"path_id\":{path}"));
        let number = format!("\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{n}}}");
        let ack = format!("\"frames\":[{{\"frame_type\":\"ack\",\"acked_ranges\":[[0,{n}]]}}]");
        let _ = writeln!(
            text,
            "{{\"time\":{sent},\"name\":\"transport:packet_sent\",\"data\":{{{number}}}{path}}}"
        );
        let _ = writeln!(
            text,
            "{{\"time\":{came},\"name\":\"transport:packet_received\",\"data\":{{{number},{ack}}}{path}}}"
        );
        let metrics = format!("\"latest_rtt\":{rtt},\"smoothed_rtt\":{rtt}");
        let _ = writeln!(
            text,
            "{{\"time\":{came},\"name\":\"recovery:metrics_updated\",\"data\":{{{metrics}}}{path}}}"
        );
        // Repeat the metrics, as some stacks do without a new ACK.
        let _ = writeln!(
            text,
            "{{\"time\":{came},\"name\":\"recovery:metrics_updated\",\"data\":{{{metrics}}}{path}}}"
        );
    }
    text
}

#[test]
fn equal_rtts_of_two_acks_count_as_two_samples() {
    let source = gathered(&acknowledged(&[40.0; 50], |_| None));
    assert_eq!(source.connections[0].series.samples.len(), 50);
    assert!(source.warnings.is_empty(), "{:?}", source.warnings);
}

#[test]
fn events_of_secondary_paths_are_left_out_with_a_warning() {
    let rtts: Vec<f64> = (0..50).map(|n| if n % 2 == 0 { 40.0 } else { 80.0 }).collect();
    let source = gathered(&acknowledged(&rtts, |n| Some(n as u32 % 2)));
    let samples = &source.connections[0].series.samples;
    assert!(
        samples.len() == 25 && samples.iter().all(|s| s.rtt.as_millis() == 40),
        "{}",
        samples.len()
    );
    let [warning] = &source.warnings[..] else { panic!("{:?}", source.warnings) };
    assert!(
        warning.contains("1 of 1 connections used several paths") && warning.contains("100 events"),
        "{warning}"
    );
}

#[test]
fn initial_rtt_guess_is_not_counted_as_rtt_sample() {
    let text = acknowledged(&[600.0; 5], |_| None);
    let (head, tail) = text.split_once('\n').unwrap();
    let guess = "{\"time\":0,\"name\":\"recovery:metrics_updated\",\"data\":{\"latest_rtt\":333,\"smoothed_rtt\":333,\"min_rtt\":333}}";
    let source = gathered(&format!("{head}\n{guess}\n{tail}"));
    let samples = &source.connections[0].series.samples;
    assert!(samples.len() == 5 && samples.iter().all(|s| s.rtt.as_millis() == 600), "{samples:?}");
}
