//! Tests with handmade logs whose controllers are known.

use super::*;
use crate::{ResponseTime, report};

fn connection(controller: Option<&str>, ms: &[f64]) -> Connection {
    let response =
        |ms: &f64| ResponseTime { bytes: 5_000, ms: *ms, first_byte_ms: None, began_ms: None };
    Connection {
        controller: controller.map(str::to_owned),
        until: Some(ResponseEnd::Acknowledged),
        responses: ms.iter().map(response).collect(),
        sent: Some(100),
        ..Connection::default()
    }
}

/// Returns connections of a controller whose responses take `ms` to `ms` + 10 milliseconds.
fn connections(controller: Option<&str>, n: usize, ms: f64) -> Vec<Connection> {
    (0..n)
        .map(|i| connection(controller, &[ms + (i * 7 % 11) as f64, ms + (i * 5 % 11) as f64]))
        .collect()
}

fn log(connections: Vec<Connection>) -> Source {
    Source { name: "logs".into(), events: 1, connections, ..Source::default() }
}

fn row<'a>(answer: &'a ControllerComparison, name: &str) -> &'a [OfController] {
    &answer.tables[0].measures.iter().find(|m| m.name == name).unwrap().controllers
}

#[test]
fn connections_are_grouped_by_controller_across_log_files() {
    let mut one = connections(Some("sync"), 30, 150.0);
    one.extend(connections(None, 3, 500.0));
    one.extend(connections(Some("native:cubic"), 20, 100.0));
    let two = connections(Some("native:cubic"), 20, 100.0);
    let answer = by_controller(vec![log(one), log(two)]).unwrap();
    let groups: Vec<_> = answer
        .controllers
        .iter()
        .map(|g| (g.controller.as_deref(), g.connections, g.responses))
        .collect();
    assert_eq!(groups, [(Some("native:cubic"), 40, 80), (Some("sync"), 30, 60), (None, 3, 6)]);
    let [first, sync, none] = row(&answer, "mean (ms)") else { panic!("three") };
    let (low, high) = first.interval.unwrap();
    assert!(
        low < first.value.unwrap() && first.value.unwrap() < high && high - low < 5.0,
        "{first:?}"
    );
    let (low, high) = sync.difference_interval.unwrap();
    let difference = sync.difference.unwrap();
    assert!(
        (difference - 50.0).abs() < 1.0 && 45.0 < low && low < difference && difference < high,
        "{sync:?}"
    );
    assert_eq!(
        (first.difference, none.interval, none.difference_interval),
        (None, None, None),
        "three are too few"
    );
    // The 99th percentile of eighty values is nearly the largest; it needs a thousand values.
    assert!(
        answer.tables[0]
            .measures
            .iter()
            .all(|m| m.name != "p99 (ms)" || m.controllers[1].value.is_none())
    );
    let page = answer.page();
    assert!(
        page.verdicts[0].starts_with("sync, against native:cubic: response time, median (ms) +"),
        "{:?}",
        page.verdicts
    );
    assert!(page.verdicts[1].starts_with("not named: no measure differs"), "{:?}", page.verdicts);
    assert!(report::text(&page).contains("sync − native:cubic"));
}

#[test]
fn correlated_responses_of_a_connection_widen_the_interval() {
    // All responses of a connection take equally long, so there are only ten independent values,
    // not a thousand.
    let alike = |n: usize| connection(Some("a"), &vec![100.0 + 10.0 * n as f64; 100]);
    let answer = by_controller(vec![log((0..10).map(alike).collect())]).unwrap();
    let (low, high) = row(&answer, "mean (ms)")[0].interval.unwrap();
    assert!(high - low > 20.0, "{low} to {high}");
    assert!(answer.cautions.iter().any(|c| c.contains("nothing to compare")));
}

#[test]
fn logs_without_controller_name_are_refused_with_a_hint() {
    let refused = |source: Source| by_controller(vec![source]).unwrap_err().to_string();
    assert!(refused(log(connections(None, 3, 1.0))).contains("fathom serve --qlog"));
    let rows = vec![ResponseTime { bytes: 1, ms: 1.0, first_byte_ms: None, began_ms: None }];
    assert!(
        refused(Source { name: "t.csv".into(), rows, ..Source::default() })
            .contains("'t.csv' contains a table")
    );
    let mut old = connection(Some("a"), &[1.0]);
    (old.until, old.sent) = (Some(ResponseEnd::HandedOver), None);
    assert!(refused(log(vec![old])).contains("neither round trips nor responses"));
}

#[test]
fn thinned_samples_stay_with_their_connection() {
    let pieces: Vec<Vec<f64>> = (0..3).map(|n| vec![f64::from(n); VALUES]).collect();
    let thin = thinned(&pieces);
    assert_eq!(thin.iter().map(Vec::len).sum::<usize>(), VALUES);
    assert!(thin.iter().enumerate().all(|(n, piece)| piece.iter().all(|v| *v == n as f64)));
    assert_eq!(thinned(&pieces[..1]), pieces[..1]);
}
