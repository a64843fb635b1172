//! DCA, Vegas and DUAL: tables 4-1 and 4-4, and the recoveries of §4.4.

use fathom_report::{Entry, Row};

use super::{DCA, bands};
use crate::dca::{throughput_change, timeout_change};
use crate::results::{BySeed, Measure};
use crate::{Artefact, ClaimCheck, Finding, Results, claim};

/// Returns a number of the runs of a controller beside Reno on a path.
fn paired(r: &Results, path: &str, controller: &str, of: Measure) -> BySeed {
    r.by_seed(DCA, &[("path", path), ("controller", controller)], of)
}

fn change(r: &Results, path: &str, controller: &str) -> BySeed {
    paired(r, path, controller, throughput_change)
}

/// Controller, the paper's name for it, and its change of throughput over Emory and over ASU with
/// their 95% intervals.
type PaperChange = (&'static str, &'static str, [(f64, f64, f64); 2]);

const TABLE_4_4: [PaperChange; 3] = [
    ("dca", "DCA, 50 %", [(-37.0, -42.0, -31.0), (-13.2, -19.8, -6.6)]),
    ("vegas", "Vegas-CAM", [(-21.0, -27.0, -15.0), (-7.3, -20.3, 5.8)]),
    ("dual", "DUAL", [(-14.2, -22.9, -5.43), (-18.0, -23.3, -12.9)]),
];

pub(super) fn table_4_4(r: &Results) -> Artefact {
    let row = |controller, name, paper: [String; 2]| {
        let ours = ["emory", "asu"].map(|path| change(r, path, controller).estimate());
        Row::new(name, ours.into_iter().zip(paper).map(|(ours, paper)| Entry::new(ours, &paper)))
    };
    let interval = |(mean, low, high): (f64, f64, f64)| format!("{mean} ({low} to {high})");
    let rows = TABLE_4_4
        .map(|(controller, name, paper)| row(controller, name, paper.map(interval)))
        .into_iter()
        .chain([row("newreno", "NewReno (§4.4)", ["76", "-"].map(str::to_owned))]);
    let note = "Change of throughput in percent, relative to a Reno connection at the same time. \
                The paper's 95 % intervals are in parentheses.";
    Artefact::table("Change of throughput", ["Emory", "ASU"], rows, note)
}

/// The test of [`as_the_paper`] for readers.
const IN_INTERVAL: &str = "Each number is in the paper's interval, extended on each side by half of \
                           the interval's width.";

/// Tests against the paper's interval, extended on each side by half of its width.
fn as_the_paper(r: &Results, controller: &str) -> Finding {
    let row = TABLE_4_4.iter().find(|(name, ..)| *name == controller).expect("a row of the table");
    let band = |path: usize, name: &'static str| {
        let (_, low, high) = row.2[path];
        let more = (high - low) / 2.0;
        (name, change(r, ["emory", "asu"][path], controller), low - more, high + more)
    };
    bands("%", [band(0, "Emory"), band(1, "ASU")])
}

pub(super) const BANDS: &[ClaimCheck] = &[
    claim("tcp-dca-newreno", "DCA §4.4", &[DCA])
        .says(
            "Over Emory, NewReno has 76 % more throughput than Reno and about 65 % fewer timeouts.",
        )
        .test("Each number differs from the paper's by at most a quarter.")
        .cause(
            "The cause is not known. NewReno avoids more of Reno's timeouts here than in the paper, \
             and gains less from each of them.",
        )
        .asks(|r| {
            let timeouts = paired(r, "emory", "newreno", timeout_change);
            let throughput = change(r, "emory", "newreno");
            bands(
                "%",
                [("throughput", throughput, 57.0, 95.0), ("timeouts", timeouts, -81.25, -48.75)],
            )
        }),
    claim("tcp-dca-vegas", "DCA table 4-4", &[DCA])
        .says(
            "Beside Reno, Vegas-CAM loses 21 % (15 to 27) of throughput over Emory and 7.3 % (-5.8 \
             to 20.3) over ASU.",
        )
        .test(IN_INTERVAL)
        .asks(|r| as_the_paper(r, "vegas")),
    claim("tcp-dca-dual", "DCA table 4-4", &[DCA])
        .says(
            "Beside Reno, DUAL loses 14.2 % (5.4 to 22.9) of throughput over Emory and 18 % (12.9 \
             to 23.3) over ASU.",
        )
        .test(IN_INTERVAL)
        .asks(|r| as_the_paper(r, "dual")),
    claim("tcp-dca-dca", "DCA table 4-1", &[DCA])
        .says(
            "Beside Reno, DCA loses 37 % (31 to 42) of throughput over Emory and 13.2 % (6.6 to \
             19.8) over ASU.",
        )
        .test(IN_INTERVAL)
        .cause(
            "The cause is not known. The change of throughput depends on how windows grow: it is \
             -29 % with growth by bytes, and -44 % with ACKs after 25 ms instead of 100 ms. ns-2 \
             has neither of these (`validation-dca-causes`).",
        )
        .asks(|r| as_the_paper(r, "dca")),
];
