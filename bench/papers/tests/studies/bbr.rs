//! The BBRs of the stacks by the test cases of the BBR draft (`docs/bbr.md`).

use fathom_judge::{League, Profile, Scorecard};
use fathom_metrics::{Bounds, round};
use fathom_report::{Axis, Figure, Series, standalone};

use crate::common::{readme_says, text, values};
use crate::{Page, Stored};

pub(crate) const PAGE: Page = Page {
    path: "docs/bbr.md",
    studies: &[&QUEUE],
    tables: &[("cases", cases)],
    figures: &[("bench/results/bbr/queue.svg", figure)],
};

/// Scorecards that `bench/judge/cards.sh` writes.
const CARDS: [&str; 5] = [
    "quinn-native-bbr",
    "noq-native-bbr3",
    "quiche-native-bbr2",
    "quinn-native-cubic",
    "quinn-vegas",
];

const QUEUE: Stored = Stored {
    name: "bbr-queue",
    folder: "bbr",
    axes: &["bbr"],
    measures: &[],
    over_time: Some(("queue_packets", |o| {
        let link = &o.links["left-right"];
        let time = |n: usize| round(n as f64 * link.bin_seconds, 3);
        link.queue_mean.iter().enumerate().map(|(n, queue)| (time(n), *queue)).collect()
    })),
    // quinn's BBR and noq's BBR3 use random numbers without a seed. Builds without quiche check
    // nothing.
    checked: ("bbr", if cfg!(feature = "quiche") { "quiche" } else { "" }),
};

/// Milliseconds that a packet of 1420 bytes takes at 20 Mbps.
const MS_PER_PACKET: f64 = 1_420.0 * 8.0 / 20e3;

fn cards() -> Vec<Scorecard> {
    let card = |name: &str| {
        let file = text(&format!("bench/results/bbr/{name}.json"));
        Scorecard::from_json(&file).expect("a scorecard")
    };
    CARDS.map(card).to_vec()
}

/// Returns the table of cases by implementation, and the failures of each.
fn cases() -> String {
    League::new(cards()).expect("judged alike").markdown("fathom")
}

#[test]
fn readme_counts_the_failed_cases_of_each_bbr() {
    let cards = cards();
    let failed = |name: &str| {
        let card = cards.iter().find(|card| card.controller == name).expect("a BBR");
        card.counts.failed
    };
    let cases = cards[0].criteria.iter().filter(|case| case.not_applicable.is_none()).count();
    let line = format!(
        "of {cases} test cases, noq's BBR3 fails {}, quiche's BBR2 {} and quinn's BBR {}",
        failed("native:bbr3"),
        failed("native:bbr2"),
        failed("native:bbr")
    );
    readme_says(&line);
}

#[test]
fn stored_scorecards_belong_to_the_current_test_cases() {
    for card in cards() {
        assert_eq!(card.profile, Profile::Bbr);
        card.check_battery().expect("make bbr");
    }
}

/// Returns the queueing delay over time behind one flow of each BBR.
fn figure() -> String {
    let rows = QUEUE.rows();
    let curve = |name: String| {
        let own = rows.iter().filter(|row| row["bbr"] == name);
        let point = |row: &crate::Row| {
            let of = |column: &str| row[column].parse::<f64>().expect("a number");
            (of("second"), round(of("queue_packets") * MS_PER_PACKET, 1))
        };
        let points = own.map(point).collect();
        Series::line(name, points)
    };
    let series = values(&rows, "bbr").into_iter().map(curve).collect();
    let x = Axis::linear("time in s");
    let y = Axis::linear("queueing delay in ms").within(Bounds::NOT_NEGATIVE);
    standalone(&Figure { x, y, series }).expect("curves")
}
