//! gHSTCP: figures 2 and 3.

use fathom_report::{Entry, Row};

use super::{GHSTCP, part};
use crate::claims::{above, all, below, exceeds};
use crate::results::BySeed;
use crate::{Artefact, ClaimCheck, Finding, Results, claim};

const CASES: [&str; 5] = ["1: Reno", "2: HSTCP", "3: HSTCP+SACK", "4: gHSTCP", "5: gHSTCP+SACK"];
const DELAYS: [&str; 3] = ["25ms", "50ms", "100ms"];

fn mbps(r: &Results, delay: &str, case: &str, group: &str) -> BySeed {
    r.by_seed(GHSTCP, &[("delay", delay), ("case", case)], |o| {
        Some(o.groups.get(group)?.throughput_bps / 1e6)
    })
}

fn total(r: &Results, delay: &str, case: &str) -> BySeed {
    let (a, b) = (mbps(r, delay, case, "S1"), mbps(r, delay, case, "S2"));
    a.zip(&b, |a, b| Some(a + b))
}

pub(super) fn throughput(r: &Results) -> Artefact {
    let rows = DELAYS.into_iter().flat_map(|delay| {
        CASES.map(|case| {
            let groups =
                ["S1", "S2"].map(|group| Entry::new(mbps(r, delay, case, group).estimate(), ""));
            let both = Entry::new(total(r, delay, case).estimate(), "");
            Row::new(format!("{delay}, case {case}"), groups.into_iter().chain([both]))
        })
    });
    let note = "Throughput in Mbps. S1 has five Reno flows behind access links of 100 Mbps. S2 has \
                five flows of the case's controller behind access links of 1 Gbps.";
    Artefact::table("Throughput of the groups", ["S1", "S2", "both"], rows, note)
}

/// Tests whether the first number is larger than the second at every delay.
fn at_every_delay(what: &str, of: impl Fn(&str) -> (BySeed, BySeed)) -> Finding {
    let each = DELAYS.map(|delay| {
        let (more, less) = of(delay);
        part(exceeds(&more, &less), &less, &format!("{delay} {more} and {less}"))
    });
    Finding::together(each).named(what)
}

pub(super) const BANDS: &[ClaimCheck] = &[
    claim("tcp-hstcp-reno-alone", "gHSTCP §3.1, figure 2, case 1", &[GHSTCP])
        .says(
            "With Reno in both groups, S1 fully uses its access links, and S2 does not use the \
             remaining capacity.",
        )
        .test(
            "At 50 and 100 ms, S1 has more than 90 % of 500 Mbps, and both groups together have \
             less than 95 % of 2.5 Gbps. The paper's bars for 25 ms cannot be read.",
        )
        .cause(
            "At 50 ms, Reno fills the link after the 300 s that do not count. The paper does not \
             say how long its runs are. No run tests another warm-up.",
        )
        .asks(|r| {
            Finding::together(["50ms", "100ms"].map(|delay| {
                let (one, both) = (mbps(r, delay, CASES[0], "S1"), total(r, delay, CASES[0]));
                let verdict = all([above(&one, 450.0), below(&both, 2_375.0)]);
                part(verdict, &one, &format!("{delay}: S1 {one}, both {both} Mbps"))
            }))
        }),
    claim("tcp-hstcp-hurts-reno", "gHSTCP §3.1, figure 2, cases 1 and 2", &[GHSTCP])
        .says(
            "With HighSpeed TCP without SACK in S2, S1 loses most of its throughput, and both \
             groups together have less.",
        )
        .test(
            "At every delay, S1 has less than three quarters of its throughput in case 1, and both \
             groups together have less than in case 1.",
        )
        .asks(|r| {
            Finding::together([
                at_every_delay("three quarters of S1", |d| {
                    (mbps(r, d, CASES[0], "S1").map(|m| m * 0.75), mbps(r, d, CASES[1], "S1"))
                }),
                at_every_delay("both", |d| (total(r, d, CASES[0]), total(r, d, CASES[1]))),
            ])
        }),
    claim("tcp-hstcp-sack", "gHSTCP §3.1, figure 2, cases 2 and 3", &[GHSTCP])
        .says(
            "With SACK, S2 achieves very high throughput, and S1 has less throughput than without \
             SACK.",
        )
        .test("At every delay, S2 has more throughput in case 3 than in case 2, and S1 has less.")
        .asks(|r| {
            Finding::together([
                at_every_delay("S2", |d| (mbps(r, d, CASES[2], "S2"), mbps(r, d, CASES[1], "S2"))),
                at_every_delay("S1", |d| (mbps(r, d, CASES[1], "S1"), mbps(r, d, CASES[2], "S1"))),
            ])
        }),
    claim("tcp-ghstcp-better", "gHSTCP §3.3, figure 3, cases 2 and 4", &[GHSTCP])
        .says("Without SACK, both groups have more throughput with gHSTCP than with HighSpeed TCP.")
        .test("At every delay, S1 and S2 have more throughput in case 4 than in case 2.")
        .asks(|r| {
            Finding::together(["S1", "S2"].map(|group| {
                at_every_delay(group, |d| {
                    (mbps(r, d, CASES[3], group), mbps(r, d, CASES[1], group))
                })
            }))
        }),
    claim("tcp-ghstcp-sack", "gHSTCP §3.3, figure 3, cases 3 and 5", &[GHSTCP])
        .says("With SACK, gHSTCP leaves Reno much more throughput, and the total stays the same.")
        .test(
            "At every delay, S1 has more than 1.5 times as much throughput in case 5 as in case 3, \
             and both groups together have at least 95 % of their throughput in case 3.",
        )
        .asks(|r| {
            Finding::together([
                at_every_delay("S1", |d| {
                    (mbps(r, d, CASES[4], "S1"), mbps(r, d, CASES[2], "S1").map(|m| m * 1.5))
                }),
                at_every_delay("both", |d| {
                    (total(r, d, CASES[4]), total(r, d, CASES[2]).map(|m| m * 0.95))
                }),
            ])
        }),
];
