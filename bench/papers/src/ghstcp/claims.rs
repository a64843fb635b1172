//! Claims of the paper about its figures, as predicates. Claims about cases without SACK are
//! inapplicable. Claims about both or about cases with SACK are tested if the runs were settled and
//! their queue dropped or marked ([`System::missed`]).

use fathom_experiments::scenario::Outcome;

use super::{
    DELAYS, DROPTAIL, GENTLE, GENTLE_ARED, GENTLE_GARED, HIGHSPEED, HIGHSPEED_ARED,
    HIGHSPEED_GARED, RED, RENO, System, queue_deviation, s1, s2, share, total, utilisation,
};
use crate::claims::{all, less, more, no_less, same};
use crate::results::{Measure, Pairs};
use crate::{ClaimCheck, Finding, Reason, Results, Verdict, claim};

/// Reason why claims about the paper's cases 2, 4, 6 and 8 cannot be tested.
const NO_SACK: &str =
    "QUIC always has selective acknowledgements, and this claim is about flows without them";
/// Minimum fraction of its access links at which Reno counts as filling them, net of headers and
/// handshake. Our choice.
const FULL: f64 = 0.9;
/// Maximum remaining fraction of a "severely" degraded throughput. Our choice.
const SEVERE: f64 = 0.75;
/// Utilisation in percent below which a link is underutilised. Our choice.
const UNDERUSED: f64 = 95.0;
/// Relative difference within which two throughputs are "the same". Our choice.
const SAME: f64 = 0.1;
/// Payload in Mbit/s that five flows behind 10 Mbps can get.
const S1_LIMIT: f64 = 50.0 * 1_472.0 / 1_500.0;
/// Payload in Mbit/s that the bottleneck carries.
const LINK: f64 = 250.0 * 1_472.0 / 1_500.0;

/// Reason why HighSpeed TCP harms Reno less than in the paper.
const SCALE: &str = "S1 loses 38 % of its throughput at 100 ms, 17 % at 50 ms and 8 % at 25 ms. At a \
                     tenth of the paper's rates, S2's windows are about 100 packets at 25 ms. With \
                     such windows, HighSpeed TCP behaves nearly as Reno, and S1 nearly fills its \
                     access links. With TCP at full rates, S1 loses 59, 62 and 74 % of its mean \
                     throughput at 25, 50 and 100 ms without SACK, and 69, 72 and 88 % with SACK \
                     (five seeds, validation-ghstcp).";

/// Numbers by which systems are compared, with their names.
const S1: Number = ("S1 in Mbit/s", s1);
const S2: Number = ("S2 in Mbit/s", s2);
const TOTAL: Number = ("total in Mbit/s", total);
/// Fairness of a case: S1's share of both groups, which can be at most a fifth (five times 10 of
/// 250 Mbps).
const SHARE: Number = ("S1's share of the total in %", share);
const UTILISATION: Number = ("utilisation in %", utilisation);
/// S2's throughput relative to the capacity that S1 leaves.
const REST: Number = ("S2's share of what S1 leaves", of_the_rest);
const DEVIATION: Number = ("queue's deviation in packets", queue_deviation);

type Number = (&'static str, Measure);

pub(super) const CLAIMS: &[ClaimCheck] = &[
    claim("ghstcp-reno-fills-slow-access", "gHSTCP §3.1, case 1", &[DROPTAIL])
        .says(
            "In competition with Reno flows, the five Reno flows of S1 fully use their access \
               links.",
        )
        .test(
            "At every delay, S1 gets more than 90 % (our choice) of the rate of its access links.",
        )
        .asks(|r| against(r, RENO, S1, FULL * S1_LIMIT, more)),
    claim("ghstcp-reno-fast-gets-more", "gHSTCP §3.1, case 1", &[DROPTAIL])
        .says(
            "Reno flows with faster access links get more throughput than Reno flows with slower \
               access links.",
        )
        .test("At every delay, S2 gets more throughput than S1.")
        .asks(|r| compared(r, "S2 and S1 in Mbit/s", (RENO, s2), (RENO, s1), more)),
    claim("ghstcp-reno-leaves-bandwidth", "gHSTCP §3.1, case 1", &[DROPTAIL])
        .says("Reno flows with fast access links do not use the whole capacity that S1 leaves.")
        .test(
            "At every delay, S2 gets less than 95 % (our choice) of the bottleneck's capacity \
               minus S1's throughput.",
        )
        .cause(
            "Rates and Reno's windows are a tenth of the paper's. So Reno refills the link \
                within seconds, and leaves capacity unused only at 100 ms. With TCP at full rates, \
                both groups have 2449 ± 8, 2453 ± 2 and 2241 ± 253 Mbps of payload at 25, 50 and \
                100 ms (five seeds). A full link carries 2453 Mbps. So Reno leaves 9 % unused at \
                100 ms, and hardly anything at 25 and 50 ms.",
        )
        .asks(|r| against(r, RENO, REST, UNDERUSED / 100.0, less)),
    claim("ghstcp-reno-unharmed-by-delay", "gHSTCP §3.1, case 1", &[DROPTAIL])
        .says("With longer delays, Reno flows in S2 still do not affect S1.")
        .test(
            "S1's throughput at 50 ms and at 100 ms differs from its throughput at 25 ms by at \
               most 10 % (our choice).",
        )
        .asks(|r| {
            Finding::together(["50ms", "100ms"].map(|delay| {
                let pairs = RENO.at(r, delay, s1).pairs(&RENO.at(r, "25ms", s1));
                Finding::of_pairs(
                    format!("S1 in Mbit/s, compared with 25ms, at {delay}"),
                    &pairs,
                    nearly_same(&pairs),
                )
                .unless(missed(r, &[RENO], &[delay, "25ms"]))
            }))
        }),
    claim("ghstcp-highspeed-harms-reno", "gHSTCP §3.1, cases 2 and 3", &[DROPTAIL])
        .says("In competition with HighSpeed TCP, the throughput of the Reno flows is much lower.")
        .test(
            "At every delay, S1 gets less than three quarters (our choice) of its throughput in \
               competition with Reno.",
        )
        .cause(SCALE)
        .asks(|r| {
            compared(
                r,
                "S1 in Mbit/s, compared with S1 in competition with Reno,",
                (HIGHSPEED, s1),
                (RENO, s1),
                |pairs| {
                    let judged: Pairs =
                        pairs.iter().map(|(harmed, whole)| (SEVERE * whole, *harmed)).collect();
                    more(&judged)
                },
            )
        }),
    claim("ghstcp-highspeed-slight-benefit", "gHSTCP §3.1, case 2 (without SACK)", &[DROPTAIL])
        .says(
            "Without SACK, HighSpeed TCP increases the throughput of S2 slightly, and the total \
               throughput falls.",
        )
        .test(
            "At every delay, S2 gets more throughput than with Reno, and the total throughput is \
               lower.",
        )
        .inapplicable(NO_SACK)
        .asks(|r| {
            Finding::together([
                beats(r, HIGHSPEED, RENO, &[S2], &DELAYS),
                beats(r, RENO, HIGHSPEED, &[TOTAL], &DELAYS).named("Reno and HighSpeed TCP"),
            ])
        }),
    claim("ghstcp-highspeed-gets-much", "gHSTCP §3.1, case 3 (with SACK)", &[DROPTAIL])
        .says("HighSpeed TCP with SACK achieves a very high throughput.")
        .test("At every delay, S2 gets more throughput than with Reno.")
        .asks(|r| beats(r, HIGHSPEED, RENO, &[S2], &DELAYS)),
    claim("ghstcp-highspeed-harm-grows-with-delay", "gHSTCP §3.1, cases 2 and 3", &[DROPTAIL])
        .says("In competition with HighSpeed TCP, S1 gets less throughput at longer delays.")
        .test(
            "S1's throughput is higher at 25 ms than at 50 ms, and higher at 50 ms than at 100 ms.",
        )
        .cause(SCALE)
        .asks(|r| {
            Finding::together([("25ms", "50ms"), ("50ms", "100ms")].map(|(short, long)| {
                let pairs = HIGHSPEED.at(r, short, s1).pairs(&HIGHSPEED.at(r, long, s1));
                Finding::of_pairs(
                    format!("S1 in Mbit/s at {short} and {long}"),
                    &pairs,
                    more(&pairs),
                )
                .unless(missed(r, &[HIGHSPEED], &[short, long]))
            }))
        }),
    claim("ghstcp-gentle-improves-both", "gHSTCP §3.3, case 4 (without SACK)", &[DROPTAIL])
        .says(
            "With gHSTCP instead of HighSpeed TCP, the Reno flows and the gHSTCP flows get \
               significantly more throughput, and fairness is significantly better.",
        )
        .test(
            "At every delay, S1's throughput, S2's throughput and S1's share of the total are \
               larger than with HighSpeed TCP.",
        )
        .inapplicable(NO_SACK)
        .asks(|r| beats(r, GENTLE, HIGHSPEED, &[S1, S2, SHARE], &DELAYS)),
    claim("ghstcp-gentle-keeps-fast-flows", "gHSTCP §3.3, case 5 (with SACK)", &[DROPTAIL])
        .says("With gHSTCP, the fast flows together get the same throughput as with HighSpeed TCP.")
        .test(
            "At every delay, S2's throughput differs from its throughput with HighSpeed TCP by \
               at most 10 % (our choice).",
        )
        .asks(|r| compared(r, "S2 in Mbit/s", (GENTLE, s2), (HIGHSPEED, s2), nearly_same)),
    claim("ghstcp-gentle-improves-reno", "gHSTCP §3.3, case 5 (with SACK)", &[DROPTAIL])
        .says(
            "In competition with gHSTCP, the Reno flows get much more throughput than in \
               competition with HighSpeed TCP, and fairness is better.",
        )
        .test(
            "At every delay, S1's throughput and S1's share of the total are larger than with \
               HighSpeed TCP.",
        )
        .asks(|r| beats(r, GENTLE, HIGHSPEED, &[S1, SHARE], &DELAYS)),
    claim("ghstcp-gentle-total-and-fairness", "gHSTCP §1", &[DROPTAIL])
        .says(
            "Over drop-tail queues, gHSTCP achieves both higher throughput and better fairness \
               than HighSpeed TCP.",
        )
        .test(
            "At every delay, the total throughput and S1's share of the total are larger than \
               with HighSpeed TCP.",
        )
        .asks(|r| beats(r, GENTLE, HIGHSPEED, &[TOTAL, SHARE], &DELAYS)),
    claim("ghstcp-ared-improves", "gHSTCP §4.2, case 6 (without SACK)", &[DROPTAIL, RED])
        .says(
            "With HighSpeed TCP, Adaptive RED gives significantly higher throughput and better \
               fairness than drop-tail queues.",
        )
        .test(
            "At every delay, the total throughput and S1's share of the total are larger than \
               over drop-tail queues.",
        )
        .inapplicable(NO_SACK)
        .asks(|r| beats(r, HIGHSPEED_ARED, HIGHSPEED, &[TOTAL, SHARE], &DELAYS)),
    claim("ghstcp-ared-fairer", "gHSTCP §4.2, case 7 (with SACK)", &[DROPTAIL, RED])
        .says("With SACK, Adaptive RED is fairer than drop-tail queues.")
        .test("At every delay, S1's share of the total is larger than over drop-tail queues.")
        .asks(|r| beats(r, HIGHSPEED_ARED, HIGHSPEED, &[SHARE], &DELAYS)),
    claim("ghstcp-ared-underuses", "gHSTCP §4.2, cases 6 and 7", &[RED])
        .says("With Adaptive RED, the bottleneck remains underutilised.")
        .test("At every delay, the utilisation of the bottleneck is below 95 % (our choice).")
        .cause(
            "At a tenth of the paper's rates, windows recover within seconds. So the link is \
                sometimes idle only at 100 ms.",
        )
        .asks(|r| against(r, HIGHSPEED_ARED, UTILISATION, UNDERUSED, less)),
    claim("ghstcp-gared-short-paths", "gHSTCP §4.4, cases 6 and 8 (without SACK)", &[RED])
        .says(
            "At 25 and 50 ms, gHSTCP with gARED has higher throughput and better fairness than \
               HighSpeed TCP with Adaptive RED.",
        )
        .test(
            "At 25 and 50 ms, the total throughput and S1's share of the total are larger than \
               with HighSpeed TCP and Adaptive RED.",
        )
        .inapplicable(NO_SACK)
        .asks(|r| beats(r, GENTLE_GARED, HIGHSPEED_ARED, &[TOTAL, SHARE], &["25ms", "50ms"])),
    claim("ghstcp-gared-long-path", "gHSTCP §4.4, cases 6 and 8 (without SACK)", &[RED])
        .says(
            "At 100 ms, the gHSTCP flows and all flows together get more throughput, and the \
               Reno flows get slightly less.",
        )
        .test(
            "At 100 ms, S2's throughput and the total throughput are larger than with HighSpeed \
               TCP and Adaptive RED. S1's throughput is smaller by at most a quarter (our choice).",
        )
        .inapplicable(NO_SACK)
        .asks(|r| {
            let pairs = GENTLE_GARED.at(r, "100ms", s1).pairs(&HIGHSPEED_ARED.at(r, "100ms", s1));
            let slightly: Pairs = pairs.iter().map(|(a, b)| (*a, (1.0 - 0.25) * b)).collect();
            let verdict = all([less(&pairs), no_less(&slightly, 0.0)]);
            Finding::together([
                beats(r, GENTLE_GARED, HIGHSPEED_ARED, &[S2, TOTAL], &["100ms"]),
                Finding::of_pairs("S1 in Mbit/s at 100ms", &pairs, verdict),
            ])
        }),
    claim("ghstcp-gared-needs-no-sack", "gHSTCP §4.4, cases 8 and 9", &[RED])
        .says("With gARED, gHSTCP performs as well without SACK as with SACK.")
        .test(
            "The claim has no test, because the cases without and with SACK are the same run here.",
        )
        .inapplicable(NO_SACK)
        .asks(|_| Finding::new(Verdict::Undecided, "nothing to compare")),
    claim("ghstcp-gared-both-groups", "gHSTCP §4.4, cases 7 and 9 (with SACK)", &[RED])
        .says(
            "With gHSTCP and gARED, each group gets more throughput than with HighSpeed TCP and \
               Adaptive RED.",
        )
        .test(
            "At every delay, S1 and S2 get more throughput than with HighSpeed TCP and Adaptive \
               RED.",
        )
        .asks(|r| beats(r, GENTLE_GARED, HIGHSPEED_ARED, &[S1, S2], &DELAYS)),
    claim("ghstcp-gared-fairer", "gHSTCP §4.4, cases 7 and 9 (with SACK)", &[RED])
        .says(
            "With gHSTCP and gARED, fairness between the groups is also better than with \
               HighSpeed TCP and Adaptive RED.",
        )
        .test(
            "At every delay, S1's share of the total is larger than with HighSpeed TCP and \
               Adaptive RED.",
        )
        .asks(|r| beats(r, GENTLE_GARED, HIGHSPEED_ARED, &[SHARE], &DELAYS)),
    claim("ghstcp-gared-loses-less-with-delay", "gHSTCP §4.4", &[RED])
        .says("Even at longer delays, gHSTCP with gARED loses little throughput.")
        .test(
            "From 25 to 100 ms, the total throughput falls less with gHSTCP and gARED than with \
               HighSpeed TCP and Adaptive RED.",
        )
        .asks(|r| {
            let [ared, gared] = [HIGHSPEED_ARED, GENTLE_GARED].map(|system| {
                let [short, long] = ["25ms", "100ms"].map(|delay| system.at(r, delay, total));
                short.minus(&long)
            });
            let pairs = ared.pairs(&gared);
            let what = "fall of the total in Mbit/s with HighSpeed TCP and ARED, and with gHSTCP \
                        and gARED";
            Finding::of_pairs(what, &pairs, more(&pairs)).unless(missed(
                r,
                &[HIGHSPEED_ARED, GENTLE_GARED],
                &["25ms", "100ms"],
            ))
        }),
    claim("ghstcp-gared-steadier", "gHSTCP §4.2 and §4.3", &[RED])
        .says("The queue of Adaptive RED oscillates, and the queue of gARED is more stable.")
        .test(
            "With the same controller and at every delay, the standard deviation of the queue is \
               smaller with gARED than with Adaptive RED.",
        )
        .cause(
            "With gHSTCP at 25 ms, gARED keeps a queue twice as long as Adaptive RED's (476 and 244 \
             packets), whose deviation is larger, too (76 and 53 packets). In all other cases, \
             gARED's queue deviates less, or the intervals overlap.",
        )
        .asks(|r| {
            let steadier = |ared, gared, whose: &str| {
                beats(r, ared, gared, &[DEVIATION], &DELAYS).named(whose)
            };
            Finding::together([
                steadier(HIGHSPEED_ARED, HIGHSPEED_GARED, "HighSpeed TCP, ARED and gARED"),
                steadier(GENTLE_ARED, GENTLE_GARED, "gHSTCP, ARED and gARED"),
            ])
        }),
];

/// Tests whether the numbers differ by at most [`SAME`] of the larger mean.
fn nearly_same(pairs: &[(f64, f64)]) -> Verdict {
    let mean = |of: fn(&(f64, f64)) -> f64| {
        pairs.iter().map(of).sum::<f64>().abs() / pairs.len().max(1) as f64
    };
    same(pairs, SAME * mean(|p| p.0).max(mean(|p| p.1)))
}

/// Compares a number of two systems, or two numbers of one system, at every delay.
fn compared(
    r: &Results,
    what: &str,
    (a, of_a): (System, Measure),
    (b, of_b): (System, Measure),
    judge: fn(&[(f64, f64)]) -> Verdict,
) -> Finding {
    Finding::together(DELAYS.map(|delay| {
        let pairs = a.at(r, delay, of_a).pairs(&b.at(r, delay, of_b));
        Finding::of_pairs(format!("{what} at {delay}"), &pairs, judge(&pairs)).unless(missed(
            r,
            &[a, b],
            &[delay],
        ))
    }))
}

/// Tests whether `a` has larger numbers than `b` at these delays.
fn beats(r: &Results, a: System, b: System, numbers: &[Number], delays: &[&str]) -> Finding {
    let cases = numbers.iter().flat_map(|number| delays.iter().map(move |delay| (number, delay)));
    Finding::together(cases.map(|((name, of), delay)| {
        let [of_a, of_b] = [a, b].map(|system| system.at(r, delay, *of));
        let pairs = of_a.pairs(&of_b);
        Finding::of_pairs(format!("{name} at {delay}"), &pairs, more(&pairs)).unless(missed(
            r,
            &[a, b],
            &[delay],
        ))
    }))
}

/// Compares a number of a system with a bound, at every delay.
fn against(
    r: &Results,
    system: System,
    (name, of): Number,
    bound: f64,
    judge: fn(&[(f64, f64)]) -> Verdict,
) -> Finding {
    Finding::together(DELAYS.map(|delay| {
        let pairs = system.at(r, delay, of).beside(bound);
        Finding::of_pairs(format!("{name} at {delay}"), &pairs, judge(&pairs)).unless(missed(
            r,
            &[system],
            &[delay],
        ))
    }))
}

/// Returns the reasons why the runs of these systems at these delays missed the regime of the
/// claims.
fn missed(r: &Results, systems: &[System], delays: &[&str]) -> Vec<Reason> {
    let runs = systems.iter().flat_map(|system| delays.iter().map(move |delay| (system, delay)));
    runs.filter_map(|(system, delay)| system.missed(r, delay)).collect()
}

/// Returns S2's throughput as a fraction of the capacity that S1 leaves.
fn of_the_rest(o: &Outcome) -> Option<f64> {
    Some(s2(o)? / (LINK - s1(o)?))
}
