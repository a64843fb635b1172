//! Tests with logs as seven stacks write them. The texts were written by hand from each stack's
//! code and documentation. They have the stack's header, names, units and layout, and a few events
//! each.

use fathom_qlog::{
    Direction, LoggedEvent, PacketNumberSpace, ParsedEvent, ParsedMetrics, Phase, ReadError,
    StreamData, Summary, VantagePoint, read,
};

/// Layout of quinn 0.11: JSON-SEQ of qlog 0.3; connections are groups, with events in `recovery`.
/// Round trips are in milliseconds here, which no release writes; `logs/quinn-0.11.sqlog` was
/// written by a release.
const QUINN: &str = "\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"perf\",\"trace\":{\"vantage_point\":{\"type\":\"server\"},\
\"title\":\"quinn\",\"configuration\":{\"time_offset\":0.0}}}\n\
\u{1e}{\"time\":3.5,\"name\":\"transport:packet_sent\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":7,\"length\":1200}},\"group_id\":\"a1\"}\n\
\u{1e}{\"time\":24.0,\"name\":\"recovery:metrics_updated\",\"data\":{\"min_rtt\":20.5,\"smoothed_rtt\":20.5,\"latest_rtt\":20.5,\"congestion_window\":14720},\"group_id\":\"a1\"}\n\
\u{1e}{\"time\":25.0,\"name\":\"recovery:packet_lost\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":7},\"trigger\":\"reordering_threshold\"},\"group_id\":\"a1\"}\n\
\u{1e}{\"time\":26.0,\"name\":\"recovery:metrics_updated\",\"data\":{\"latest_rtt\":30.0},\"group_id\":\"b2\"}\n";

/// noq 1.4: newer event names in the same layout.
const NOQ: &str = "\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"JSON-SEQ\",\"trace\":{\"vantage_point\":{\"type\":\"client\"},\
\"event_schemas\":[\"urn:ietf:params:qlog:events:quic-12\"],\"common_fields\":{\"group_id\":\"c3\",\"time_format\":\"relative_to_epoch\"}}}\n\
\u{1e}{\"time\":0.0,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"latest_rtt\":12.25,\"smoothed_rtt\":12.25,\"congestion_window\":12000}}\n\
\u{1e}{\"time\":9.0,\"name\":\"quic:packet_lost\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":3}}}\n";

/// quiche: draft-12, RawInfo in frames.
const QUICHE: &str = "\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"JSON-SEQ\",\"title\":\"quiche-server qlog\",\
\"trace\":{\"title\":\"quiche-server qlog\",\"vantage_point\":{\"type\":\"server\"},\"event_schemas\":[\"urn:ietf:params:qlog:events:quic-12\"]}}\n\
\u{1e}{\"time\":1.25,\"name\":\"quic:packet_sent\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":0},\"raw\":{\"length\":1251},\
\"frames\":[{\"frame_type\":\"stream\",\"stream_id\":4,\"offset\":100,\"fin\":true,\"raw\":{\"payload_length\":900}}]}}\n\
\u{1e}{\"time\":30.0,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"latest_rtt\":28.75,\"congestion_window\":13500,\"bytes_in_flight\":0}}\n\
\u{1e}{\"time\":31.0,\"name\":\"quic:congestion_state_updated\",\"data\":{\"old\":\"congestion_avoidance\",\"new\":\"recovery\"}}\n";

/// quic-go: one JSON text per record, both kinds of header.
const QUIC_GO: &str = "\u{1e}{\"qlog_format\":\"JSON-SEQ\",\"qlog_version\":\"0.3\",\"title\":\"quic-go qlog\",\"code_version\":\"v0.48.0\",\"trace\":{\"vantage_point\":{\"type\":\"client\"},\
\"common_fields\":{\"ODCID\":\"d4e5\",\"group_id\":\"d4e5\",\"reference_time\":1700000000000.5,\"time_format\":\"relative\"}}}\n\
\u{1e}{\"time\":0.125,\"name\":\"transport:packet_received\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":5,\"dcid\":\"00\"},\"raw\":{\"length\":1252},\
\"frames\":[{\"frame_type\":\"stream\",\"stream_id\":0,\"offset\":0,\"length\":1200,\"fin\":false}]}}\n\
\u{1e}{\"time\":8.125,\"name\":\"recovery:metrics_updated\",\"data\":{\"min_rtt\":7.5,\"smoothed_rtt\":7.5,\"latest_rtt\":8,\"congestion_window\":40960}}\n\
\u{1e}{\"time\":9.0,\"name\":\"recovery:packet_lost\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":12},\"trigger\":\"time_threshold\"}}\n";

/// picoquic: draft-00 arrays with a path, microseconds, `cwnd`.
const PICOQUIC: &str = r#"{ "qlog_version": "draft-00", "title": "picoquic", "traces": [
{ "vantage_point": { "name": "backend-67", "type": "client" }, "title": "picoquic", "description": "f6",
"event_fields": ["relative_time", "path_id", "category", "event", "data"],
"configuration": {"time_units": "us"},
"common_fields": { "protocol_type": "QUIC_HTTP3", "reference_time": "1600000000000000"},
"events": [
[0, 0, "transport", "packet_sent", { "packet_type": "1RTT", "header": { "packet_size": 1252, "packet_number": 9 }, "frames": [{
    "frame_type": "stream", "id": 4, "offset": 0, "length": 1200, "fin": false }]}],
[45228, 0, "recovery", "metrics_updated", {"pacing_rate": 10000, "bytes_in_flight": 668, "cwnd": 12154, "smoothed_rtt": 46151, "min_rtt": 46151, "latest_rtt": 46151}],
[50000, 0, "recovery", "packet_lost", { "packet_type": "1RTT", "trigger": "repeat", "header": { "packet_type": "1RTT", "packet_number": 9 }}]
]}]}
"#;

/// aioquic: one JSON document of qlog 0.3 with keys in alphabetical order, so some settings come
/// after the events.
const AIOQUIC: &str = r#"{"qlog_format":"JSON","qlog_version":"0.3","traces":[{"common_fields":{"ODCID":"a7b8"},"events":[
{"data":{"header":{"packet_number":2,"packet_type":"1RTT"},"frames":[{"frame_type":"stream","stream_id":0,"offset":0,"length":30,"fin":true}],"raw":{"length":80}},"name":"transport:packet_sent","time":1000.5},
{"data":{"latest_rtt":15.5,"min_rtt":15.5,"smoothed_rtt":15.5},"name":"recovery:metrics_updated","time":1016.0},
{"data":{"bytes_in_flight":0,"cwnd":14720},"name":"recovery:metrics_updated","time":1016.0},
{"data":{"packet_number":2,"type":"1RTT"},"name":"recovery:packet_lost","time":1030.0}
],"vantage_point":{"name":"aioquic","type":"client"}}]}"#;

/// mvfst: arrays of strings, microseconds, names of its own, and settings after the events.
const MVFST: &str = r#"{"qlog_version":"draft-00","title":"mvfst qlog","summary":{"trace_count":1},"traces":[{"events":[
["100","transport","packet_sent",{"header":{"packet_number":11,"packet_size":1252},"packet_type":"1RTT","frames":[{"frame_type":"stream","stream_id":"0","offset":"0","length":"1000","fin":false}]}],
["20100","recovery","metric_update",{"latest_rtt":20000,"min_rtt":19000,"smoothed_rtt":20000,"ack_delay":12}],
["20100","metric_update","congestion_metric_update",{"bytes_in_flight":0,"current_cwnd":12520,"congestion_event":"packet ack","state":"","recovery_state":""}],
["30100","loss","packets_lost",{"largest_lost_packet_num":11,"lost_bytes":2504,"lost_packets":2}]
],"event_fields":["relative_time","CATEGORY","EVENT_TYPE","DATA"],"configuration":{"time_offset":0,"time_units":"us"},
"common_fields":{"dcid":"9c","protocol_type":"QUIC_HTTP3","reference_time":"0"},"vantage_point":{"name":"server","type":"server"}}]}"#;

/// Connection, time and content of every event; the summary of the file; the endpoint that logged
/// it.
type Parsed = (Vec<(usize, f64, ParsedEvent)>, Summary, Option<VantagePoint>);

fn seen_in(bytes: &[u8]) -> Result<Parsed, ReadError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let (mut all, mut vantage) = (Vec::new(), None);
    let summary = read(file.path(), &mut |_| {}, &mut |event: &LoggedEvent<'_>| {
        vantage = event.vantage;
        all.push((event.connection, event.at, ParsedEvent::parse(event)));
    })?;
    Ok((all, summary, vantage))
}

fn seen(text: &str) -> Parsed {
    let found = seen_in(text.as_bytes()).unwrap();
    assert_eq!(found.1.malformed, None);
    assert_eq!(found.1.cut_off, None);
    found
}

fn rtts(all: &[(usize, f64, ParsedEvent)]) -> Vec<(f64, f64)> {
    let rtt = |(_, at, seen): &(usize, f64, ParsedEvent)| match seen {
        ParsedEvent::Metrics(ParsedMetrics { latest_rtt: Some(rtt), .. }) => Some((*at, *rtt)),
        _ => None,
    };
    all.iter().filter_map(rtt).collect()
}

fn windows(all: &[(usize, f64, ParsedEvent)]) -> Vec<f64> {
    all.iter()
        .filter_map(|(_, _, seen)| if let ParsedEvent::Metrics(m) = seen { m.window } else { None })
        .collect()
}

/// Number of packets, and the packet named by the event.
type Losses = Vec<(Option<u64>, Option<(PacketNumberSpace, u64)>)>;

fn losses(all: &[(usize, f64, ParsedEvent)]) -> Losses {
    all.iter()
        .filter_map(
            |(_, _, s)| {
                if let ParsedEvent::Lost(l) = s { Some((l.packets, l.packet)) } else { None }
            },
        )
        .collect()
}

#[test]
fn logs_of_quinn_and_noq_are_read() {
    let (all, summary, vantage) = seen(QUINN);
    assert_eq!((summary.events, summary.connections, vantage), (4, 2, Some(VantagePoint::Server)));
    assert_eq!(rtts(&all), [(20.5, 20.5), (22.5, 30.0)]);
    assert_eq!(
        (windows(&all), losses(&all)),
        (vec![14_720.0], vec![(None, Some((PacketNumberSpace::Application, 7)))])
    );
    assert_eq!(all.iter().map(|e| e.0).collect::<Vec<_>>(), [0, 0, 0, 1]);
    let (all, summary, vantage) = seen(NOQ);
    assert_eq!(
        (summary.connections, vantage, rtts(&all)),
        (1, Some(VantagePoint::Client), vec![(0.0, 12.25)])
    );
    assert_eq!(losses(&all), [(None, Some((PacketNumberSpace::Application, 3)))]);
}

#[test]
fn recorded_quinn_log_has_the_rtts_of_its_path() {
    let (all, summary, _) = seen(include_str!("logs/quinn-0.11.sqlog"));
    assert_eq!((summary.events, summary.connections), (543, 1));
    // The first RTT in the log is the initial 333 ms of RFC 9002, which is not a sample. The path's
    // round trip is 40 ms, and its queue fills.
    let rtts = rtts(&all);
    assert!(
        rtts.len() > 100 && rtts.iter().all(|(_, rtt)| (40.0..2_000.0).contains(rtt)),
        "{rtts:?}"
    );
}

#[test]
fn logs_of_quiche_and_quic_go_are_read() {
    let (all, summary, _) = seen(QUICHE);
    assert_eq!(summary.title.as_deref(), Some("quiche-server qlog"));
    assert_eq!((rtts(&all), windows(&all)), (vec![(28.75, 28.75)], vec![13_500.0]));
    assert_eq!(all[2].2, ParsedEvent::Phase(Phase::Recovery));
    let ParsedEvent::Packet(packet) = &all[0].2 else { panic!("{:?}", all[0]) };
    assert_eq!(packet.streams, [StreamData { stream: 4, offset: 100, length: 900 }]);
    let (all, _, vantage) = seen(QUIC_GO);
    assert_eq!((rtts(&all), vantage), (vec![(8.0, 8.0)], Some(VantagePoint::Client)));
    let ParsedEvent::Packet(packet) = &all[0].2 else { panic!("{:?}", all[0]) };
    assert_eq!(
        (packet.direction, packet.number),
        (Direction::Received, Some((PacketNumberSpace::Application, 5)))
    );
    assert_eq!(losses(&all), [(None, Some((PacketNumberSpace::Application, 12)))]);
}

#[test]
fn logs_of_picoquic_aioquic_and_mvfst_are_read() {
    let (all, _, vantage) = seen(PICOQUIC);
    assert_eq!(
        (rtts(&all), windows(&all), vantage),
        (vec![(45.228, 46.151)], vec![12_154.0], Some(VantagePoint::Client))
    );
    let ParsedEvent::Packet(packet) = &all[0].2 else { panic!("{:?}", all[0]) };
    assert_eq!(
        (packet.number, packet.streams[0].stream),
        (Some((PacketNumberSpace::Application, 9)), 4)
    );
    assert_eq!(losses(&all), [(None, Some((PacketNumberSpace::Application, 9)))]);
    let (all, _, _) = seen(AIOQUIC);
    assert_eq!(
        (rtts(&all), windows(&all), losses(&all).len()),
        (vec![(15.5, 15.5)], vec![14_720.0], 1)
    );
    let (all, _, vantage) = seen(MVFST);
    assert_eq!(
        (rtts(&all), windows(&all), vantage),
        (vec![(20.0, 20.0)], vec![12_520.0], Some(VantagePoint::Server))
    );
    assert_eq!(losses(&all), [(Some(2), Some((PacketNumberSpace::Application, 11)))]);
    let ParsedEvent::Packet(packet) = &all[0].2 else { panic!("{:?}", all[0]) };
    assert_eq!(packet.streams, [StreamData { stream: 0, offset: 0, length: 1_000 }]);
}

#[test]
fn json_lines_and_draft_00_are_read() {
    let lines = "{\"qlog_format\":\"NDJSON\",\"qlog_version\":\"draft-02\",\"trace\":{\"common_fields\":{\"time_format\":\"delta\"}}}\n\
                 {\"time\":1,\"name\":\"recovery:metrics_updated\",\"data\":{\"latest_rtt\":5}}\n\n\
                 {\"time\":2,\"name\":\"recovery:metrics_updated\",\"data\":{\"latest_rtt\":6}}\n";
    assert_eq!(rtts(&seen(lines).0), [(0.0, 5.0), (2.0, 6.0)]);
}

#[test]
fn malformed_records_are_skipped_and_reported_by_line() {
    let broken = QUINN.replacen("\"time\":24.0,", "\"time\":24.0,,", 1);
    let (all, summary, _) = seen_in(broken.as_bytes()).unwrap();
    let malformed = summary.malformed.unwrap();
    assert_eq!((all.len(), malformed.records, malformed.first), (3, 1, 3));
    assert!(!malformed.why.contains('\n'), "{}", malformed.why);
    // The writer crashed.
    let cut = &QUINN[..QUINN.len() - 30];
    assert_eq!(
        seen_in(cut.as_bytes()).unwrap().1.cut_off.as_deref(),
        Some("record 5 is not complete")
    );
    let cut = &PICOQUIC[..PICOQUIC.len() - 40];
    let (all, summary, _) = seen_in(cut.as_bytes()).unwrap();
    assert!(all.len() == 2 && summary.cut_off.unwrap().starts_with("line 10"), "{}", all.len());
    let broken = AIOQUIC.replacen("\"time\":1016.0}", "\"time\":1016.0]", 1);
    let (all, summary, _) = seen_in(broken.as_bytes()).unwrap();
    assert_eq!((all.len(), summary.malformed.unwrap().first), (1, 3));
}

#[test]
fn files_that_are_not_logs_are_rejected_in_one_line() {
    for (bytes, says) in [
        (&b""[..], "empty"),
        (b"GIF89a", "begins neither"),
        (b"\x1f\x8b\x08\x00", "damaged"),
        (b"{\"traces\":[]}", "no event"),
        (b"\x1e{\"qlog_version\":\"0.3\",\"trace\":{}}\n", "no event"),
        (b"{}", "no event"),
        (b"{\n\"a\": [", "no event"),
        (b"\x1e{]\n", "record 1"),
        (b"{\"traces\":7}", "line 1"),
    ] {
        let line = seen_in(bytes).unwrap_err().to_string();
        assert!(line.contains(says) && !line.contains('\n'), "{bytes:?}: {line}");
    }
    let nowhere =
        read(std::path::Path::new("/nowhere/at.sqlog"), &mut |_| {}, &mut |_| {}).unwrap_err();
    assert!(nowhere.to_string().starts_with("cannot be read"));
}

#[test]
fn logs_of_every_stack_are_exported_to_qvis() {
    for (text, events) in [(QUINN, 4), (QUICHE, 3), (PICOQUIC, 3), (MVFST, 4), (AIOQUIC, 4)] {
        let from = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(from.path(), text).unwrap();
        let mut out = Vec::new();
        let summary = fathom_qlog::export(from.path(), &mut out, &mut |_| {}).unwrap();
        assert_eq!(summary.events, events);
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (json["qlog_version"].as_str(), json["qlog_format"].as_str()),
            (Some("0.3"), Some("JSON"))
        );
        let traces = json["traces"].as_array().unwrap();
        assert_eq!(traces.len(), summary.connections);
        let all: Vec<&serde_json::Value> =
            traces.iter().flat_map(|t| t["events"].as_array().unwrap()).collect();
        assert_eq!(all.len() as u64, events);
        assert!(all.iter().all(|e| !e["name"].as_str().unwrap().starts_with("quic:")), "{out:?}");
        // Reading the exported file gives the same events.
        let again = seen(std::str::from_utf8(&out).unwrap());
        let before = seen(text);
        assert_eq!(
            (rtts(&again.0).len(), losses(&again.0)),
            (rtts(&before.0).len(), losses(&before.0))
        );
    }
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn log_reader_never_panics_on_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = seen_in(&bytes);
        }

        #[test]
        fn log_reader_never_panics_on_corrupted_logs(
            which in 0_usize..7,
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = [QUINN, NOQ, QUICHE, QUIC_GO, PICOQUIC, AIOQUIC, MVFST][which].as_bytes().to_vec();
            for (place, byte) in places {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            match seen_in(&bytes) {
                Ok((all, summary, _)) => {
                    prop_assert_eq!(all.len() as u64, summary.events);
                    prop_assert!(all.iter().all(|e| e.1.is_finite()));
                }
                Err(e) => prop_assert!(!e.to_string().contains('\n')),
            }
        }
    }
}
