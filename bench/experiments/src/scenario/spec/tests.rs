//! Tests of the parsing of scenarios, and of the error messages.

use std::time::Duration;

use super::super::{Bulk, PageShape, Pages, Period, Uploads, WebLoad, Workload};
use super::*;

const SOUND: &str = r#"
        stop = "100s"
        [network]
        topology = "dumbbell"
        [[traffic]]
        name = "flows"
        from = "left"
        to = "right"
        workload = "flows:10@2s"
        controller = "reno"
        [[background]]
        name = "web"
        from = "left"
        to = "right"
        workload = "users:20 idle 1s..4s"
    "#;

fn error(change: impl FnOnce(&mut ScenarioSpec)) -> String {
    let mut spec = ScenarioSpec::from_toml(SOUND).unwrap();
    change(&mut spec);
    spec.check().unwrap_err().to_string()
}

#[test]
fn valid_scenario_is_read_with_its_defaults() {
    let spec = ScenarioSpec::from_toml(SOUND).unwrap();
    let s = spec.check().unwrap();
    assert_eq!(s.stop, Stop::At(Duration::from_secs(100)));
    assert_eq!(s.traffic[0].datagram, 1_392);
    assert_eq!(s.chain.links[0].rate, Rate::from_bits_per_sec(10_000_000));
    assert_eq!(ScenarioSpec::from_toml(&toml::to_string(&spec).unwrap()).unwrap(), spec);
}

#[test]
fn controller_mixes_shared_rates_and_delay_ranges_are_parsed() {
    let mut spec = ScenarioSpec::from_toml(SOUND).unwrap();
    spec.traffic[0].controller = "25% sync:floor=1ms + 75% reno".into();
    spec.traffic[0].access.rate = Some("100Mbps/flows".into());
    spec.traffic[0].access.delay = Some("1ms..2.5ms".into());
    let s = spec.check().unwrap();
    let parts: Vec<f64> = s.traffic[0].mix.iter().map(|(part, _)| *part).collect();
    assert_eq!(parts, [0.25, 0.75]);
    assert_eq!(s.traffic[0].access.rate, Rate::from_bits_per_sec(10_000_000));
    assert_eq!(s.traffic[0].access.delay, (Duration::from_millis(1), Duration::from_micros(2_500)));
}

#[test]
fn flows_workload_accepts_a_start_delay() {
    let secs = Duration::from_secs;
    let read: Workload = "flows:10@2s after 20s".parse().unwrap();
    let of = Bulk { flows: 10, bytes: None, spread: secs(2), after: secs(20) };
    assert_eq!(read, Workload::Bulk(of));
    let starts: Vec<u64> = read
        .model()
        .source(0.0, 1)
        .unwrap()
        .map(|request| request.start().as_nanos() / 1_000_000_000)
        .collect();
    assert_eq!((starts.first(), starts.last(), starts.len()), (Some(&20), Some(&22), 10));
    assert!("flows:10 after lunch".parse::<Workload>().is_err());
}

#[test]
fn page_upload_and_media_workloads_are_parsed() {
    let secs = Duration::from_secs;
    let read = |text: &str| text.parse::<Workload>().unwrap_or_else(|e| panic!("{e}"));
    let pages = read("pages:60% of 10Mbps from 20s to 80s");
    let Workload::Pages(Pages { load: WebLoad::Computed { part, of }, shape, period, .. }) = pages
    else {
        panic!("{pages:?}")
    };
    assert_eq!((part, of.bits_per_sec(), shape), (0.6, 10_000_000, PageShape::Archive));
    assert_eq!(period, Period { from: secs(20), until: Some(secs(80)) });
    let pages = read("pages:0.5/s with 20kB,4x50kB,20x30kB");
    let Workload::Pages(Pages { load, shape, priorities, in_flight, .. }) = pages else {
        panic!("{pages:?}")
    };
    assert_eq!((load, priorities, in_flight), (WebLoad::Connections(0.5), true, 100));
    assert_eq!(shape, PageShape::Waves([(1, 20_000), (4, 50_000), (20, 30_000), (0, 0)]));
    let pages = read("pages:20% of 8Mbps with 3.5x500B..2kB..10kB..40kB..200kB..3MB");
    let Workload::Pages(Pages { shape, .. }) = pages else { panic!("{pages:?}") };
    let bytes = [500, 2_000, 10_000, 40_000, 200_000, 3_000_000];
    assert_eq!(shape, PageShape::Sizes { objects: 3_500, bytes });
    for wrong in [
        "3x1kB..2kB",
        "3x2kB..1kB..3kB..4kB..5kB..6kB",
        "0.5x1B..1B..1B..1B..1B..1B",
        "1B..1B..1B..1B..1B..1B",
    ] {
        let error = format!("pages:2/s with {wrong}").parse::<Workload>().unwrap_err();
        assert!(error.hint.contains("99th"), "{error}");
    }
    let uploads = Workload::Uploads(Uploads { count: 4, bytes: 10_000_000, spread: secs(3) });
    assert_eq!((read("uploads:4x10MB@1s"), uploads.requests()), (uploads, Some(4)));
    let media = read("media:3 at 2Mbps 30fps deadline 100ms for 60s");
    assert_eq!((media.flows(), media.requests()), (Some(3), Some(5_400)));
    assert_eq!(read("media:3 at 2Mbps 30fps deadline 100ms").requests(), None);
}

#[test]
fn scenario_errors_name_the_field_and_a_fix() {
    let cases = [
        (error(|s| s.stop = "soon".into()), "stop: ", "100s"),
        (error(|s| s.stop = "100 responses".into()), "stop: ", "100s"),
        (error(|s| s.warm_up = "100s".into()), "warm-up: ", "shorten"),
        (error(|s| s.network.topology = "ring".into()), "network.topology: ", "dumbbell"),
        (error(|s| s.network.queue = Some("blue".into())), "network.queue: ", "droptail"),
        (error(|s| s.traffic.clear()), "traffic: ", "[[traffic]]"),
        (error(|s| s.traffic[0].from = "r9".into()), "traffic 'flows': from", "left, right"),
        (error(|s| s.traffic[0].to = "left".into()), "traffic 'flows': from", "cross"),
        (error(|s| s.traffic[0].packet = 100), "traffic 'flows': packet", "278"),
        (
            error(|s| s.traffic[0].workload = "much".into()),
            "traffic 'flows': workload",
            "flows:100",
        ),
        (error(|s| s.traffic[0].controller = "rneo".into()), "traffic 'flows': controller", "reno"),
        (
            error(|s| s.traffic[0].controller = "20% reno".into()),
            "traffic 'flows': controller",
            "100%",
        ),
        (
            error(|s| s.background[0].workload = "much".into()),
            "background 'web': workload",
            "users:2200",
        ),
        (error(|s| s.background[0].name = "flows".into()), "background: ", "own name"),
        (
            error(|s| s.background[0].controller = "native:cubic".into()),
            "background 'web': controller",
            "packet-level",
        ),
        (error(|s| s.keep.queue = vec!["up".into()]), "keep.queue: ", "left-right"),
        (error(|s| s.keep.rtt = vec!["up".into()]), "keep.rtt: ", "flows"),
        (
            error(|s| {
                s.network.topology = "asu".into();
                s.network.link = Some("1Mbps".into());
            }),
            "network.link: ",
            "leave it out",
        ),
    ];
    for (text, field, hint) in cases {
        assert!(text.starts_with(field) && text.contains(hint) && !text.contains('\n'), "{text}");
    }
}
