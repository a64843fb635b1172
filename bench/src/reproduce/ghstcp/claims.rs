//! What the paper's text says of its figures, as predicates. Those about cases without SACK and those about cases with it use the
//! same runs.

use super::super::Verdict;
use super::super::claims::{self, ClaimCheck, Finding, all, margin, more, no_less, pairs, same, shown, together};
use super::*;

/// Reno's share of its access links that counts as full, headers and handshake taken off. Ours.
const FULL: f64 = 0.9;
/// What is left of a throughput that was "severely" degraded, at most. Ours.
const SEVERE: f64 = 0.75;
/// Utilisation in percent below which a link is underutilised. Ours.
const UNDERUSED: f64 = 95.0;
/// Relative difference within which two throughputs are "the same". Ours.
const SAME: f64 = 0.1;
/// Payload that five flows behind 100 Mbps can get, in Mbit/s.
const S1_LIMIT: f64 = 500.0 * 1_472.0 / 1_500.0;
/// Payload that the bottleneck carries, in Mbit/s.
const LINK: f64 = 2_500.0 * 1_472.0 / 1_500.0;
const DROPTAIL_ONLY: &[&str] = &[DROPTAIL];
const RED_ONLY: &[&str] = &[RED];
const BOTH: &[&str] = &[DROPTAIL, RED];

pub(super) const CLAIMS: &[ClaimCheck] = &[
    ClaimCheck {
        id: "ghstcp-reno-fills-slow-access",
        source: "gHSTCP §3.1, case 1",
        says: "beside Reno, the five Reno flows behind 100 Mbps fully use their access links",
        test: "S1 gets more than 90 % (ours) of what its access links carry, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: reno_fills_slow_access,
    },
    ClaimCheck {
        id: "ghstcp-reno-fast-gets-more",
        source: "gHSTCP §3.1, case 1",
        says: "the Reno flows behind 1 Gbps get more than those behind 100 Mbps",
        test: "S2 > S1 at every delay",
        studies: DROPTAIL_ONLY,
        predicate: reno_fast_gets_more,
    },
    ClaimCheck {
        id: "ghstcp-reno-leaves-bandwidth",
        source: "gHSTCP §3.1, case 1",
        says: "Reno behind 1 Gbps does not use all that is left of the link",
        test: "S2 gets less than 95 % (ours) of what the link carries less S1, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: reno_leaves_bandwidth,
    },
    ClaimCheck {
        id: "ghstcp-reno-unharmed-by-delay",
        source: "gHSTCP §3.1, case 1",
        says: "with longer delays S2 under Reno still does not affect S1",
        test: "S1 at 50 and 100 ms is within 10 % (ours) of S1 at 25 ms",
        studies: DROPTAIL_ONLY,
        predicate: reno_unharmed_by_delay,
    },
    ClaimCheck {
        id: "ghstcp-highspeed-harms-reno",
        source: "gHSTCP §3.1, cases 2 and 3",
        says: "beside HighSpeed TCP the throughput of the Reno flows is severely degraded",
        test: "S1 gets less than three quarters (ours) of what it gets beside Reno, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: highspeed_harms_reno,
    },
    ClaimCheck {
        id: "ghstcp-highspeed-slight-benefit",
        source: "gHSTCP §3.1, case 2 (without SACK)",
        says: "HighSpeed TCP without SACK brings S2 a slight benefit, and the total falls",
        test: "S2 more, and the total less, than with Reno, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: highspeed_slight_benefit,
    },
    ClaimCheck {
        id: "ghstcp-highspeed-gets-much",
        source: "gHSTCP §3.1, case 3 (with SACK)",
        says: "HighSpeed TCP with SACK achieves a very high throughput",
        test: "S2 more than with Reno, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: highspeed_gets_much,
    },
    ClaimCheck {
        id: "ghstcp-highspeed-harm-grows-with-delay",
        source: "gHSTCP §3.1, cases 2 and 3",
        says: "beside HighSpeed TCP, the longer the delay the less S1 gets",
        test: "S1 at 25 ms > at 50 ms > at 100 ms",
        studies: DROPTAIL_ONLY,
        predicate: highspeed_harm_grows,
    },
    ClaimCheck {
        id: "ghstcp-gentle-improves-both",
        source: "gHSTCP §3.3, case 4 (without SACK)",
        says: "with gHSTCP instead of HighSpeed TCP, throughput is significantly better for Reno and for gHSTCP, and so is fairness",
        test: "S1, S2 and Jain's index more than with HighSpeed TCP, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: gentle_improves_both,
    },
    ClaimCheck {
        id: "ghstcp-gentle-keeps-fast-flows",
        source: "gHSTCP §3.3, case 5 (with SACK)",
        says: "gHSTCP gets the same total for the fast flows as HighSpeed TCP",
        test: "S2 within 10 % (ours) of HighSpeed TCP's, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: gentle_keeps_fast_flows,
    },
    ClaimCheck {
        id: "ghstcp-gentle-improves-reno",
        source: "gHSTCP §3.3, case 5 (with SACK)",
        says: "beside gHSTCP the Reno flows get much more than beside HighSpeed TCP, and fairness is better",
        test: "S1 and Jain's index more than with HighSpeed TCP, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: gentle_improves_reno,
    },
    ClaimCheck {
        id: "ghstcp-gentle-total-and-fairness",
        source: "gHSTCP §1",
        says: "over drop-tail gHSTCP achieves both higher throughput and better fairness than HighSpeed TCP",
        test: "total and Jain's index more than with HighSpeed TCP, at every delay",
        studies: DROPTAIL_ONLY,
        predicate: gentle_total_and_fairness,
    },
    ClaimCheck {
        id: "ghstcp-ared-improves",
        source: "gHSTCP §4.2, case 6 (without SACK)",
        says: "Adaptive RED significantly improves throughput and fairness of HighSpeed TCP over drop-tail",
        test: "total and Jain's index more than over drop-tail, at every delay",
        studies: BOTH,
        predicate: ared_improves,
    },
    ClaimCheck {
        id: "ghstcp-ared-fairer",
        source: "gHSTCP §4.2, case 7 (with SACK)",
        says: "with SACK, Adaptive RED is fairer than drop-tail",
        test: "Jain's index more than over drop-tail, at every delay",
        studies: BOTH,
        predicate: ared_fairer,
    },
    ClaimCheck {
        id: "ghstcp-ared-underuses",
        source: "gHSTCP §4.2, cases 6 and 7",
        says: "with Adaptive RED the bottleneck remains underutilised",
        test: "it sends less than 95 % (ours) of the time, at every delay",
        studies: RED_ONLY,
        predicate: ared_underuses,
    },
    ClaimCheck {
        id: "ghstcp-gared-short-paths",
        source: "gHSTCP §4.4, cases 6 and 8 (without SACK)",
        says: "at 25 and 50 ms gHSTCP with gARED is better than HighSpeed TCP with Adaptive RED in throughput and fairness",
        test: "total and Jain's index more, at 25 and 50 ms",
        studies: RED_ONLY,
        predicate: gared_short_paths,
    },
    ClaimCheck {
        id: "ghstcp-gared-long-path",
        source: "gHSTCP §4.4, cases 6 and 8 (without SACK)",
        says: "at 100 ms gHSTCP and the total get more, Reno slightly less",
        test: "at 100 ms S2 and total more; S1 less, but by no more than a quarter (ours)",
        studies: RED_ONLY,
        predicate: gared_long_path,
    },
    ClaimCheck {
        id: "ghstcp-gared-both-groups",
        source: "gHSTCP §4.4, cases 7 and 9 (with SACK)",
        says: "with gHSTCP and gARED each group gets more than with HighSpeed TCP and Adaptive RED",
        test: "S1 and S2 more, at every delay",
        studies: RED_ONLY,
        predicate: gared_both_groups,
    },
    ClaimCheck {
        id: "ghstcp-gared-fairer",
        source: "gHSTCP §4.4, cases 7 and 9 (with SACK)",
        says: "fairness between gHSTCP and Reno is better, too",
        test: "Jain's index more, at every delay",
        studies: RED_ONLY,
        predicate: gared_fairer,
    },
    ClaimCheck {
        id: "ghstcp-gared-loses-less-with-delay",
        source: "gHSTCP §4.4",
        says: "even when the delay grows, gHSTCP with gARED keeps the loss of throughput small",
        test: "its total falls less from 25 to 100 ms than that of HighSpeed TCP with Adaptive RED",
        studies: RED_ONLY,
        predicate: gared_loses_less,
    },
    ClaimCheck {
        id: "ghstcp-gared-steadier",
        source: "gHSTCP §4.2 and §4.3",
        says: "Adaptive RED's queue swings; gARED is more stable",
        test: "the queue's standard deviation is less with gARED, for the same controller, at every delay",
        studies: RED_ONLY,
        predicate: gared_steadier,
    },
];

/// A measure of one system at one delay and another, or the same, elsewhere.
fn versus(r: &Results, (a, at_a, of_a): Point, (b, at_b, of_b): Point) -> Vec<(f64, f64)> {
    pairs(r, ((a.study, &a.key(at_a)), &of_a), ((b.study, &b.key(at_b)), &of_b))
}

type Point = (System, &'static str, Measure);

fn finding(what: &str, at: &str, pairs: &[(f64, f64)], verdict: Verdict) -> Finding {
    let side = |of: fn(&(f64, f64)) -> f64| shown(pairs.iter().map(of));
    Finding { verdict, numbers: format!("{what} at {at}: {} against {}", side(|p| p.0), side(|p| p.1)) }
}

/// `a` gets more of a measure than `b` at these delays.
fn beats(r: &Results, a: System, b: System, what: &str, of: Measure, delays: &[&'static str]) -> Finding {
    together(delays.iter().map(|delay| {
        let pairs = versus(r, (a, delay, of), (b, delay, of));
        finding(what, delay, &pairs, more(&pairs, margin(&pairs)))
    }))
}

/// A measure of `a` is more than a constant, or less.
fn against(r: &Results, a: System, what: &str, of: Measure, bound: f64, wanted_more: bool) -> Finding {
    together(DELAYS.iter().map(|delay| {
        let values = r.values(a.study, &a.key(delay), of);
        let pairs: Vec<(f64, f64)> = values.iter().map(|v| (*v, bound)).collect();
        // The bound is a threshold, not a measurement: with one seed it decides by itself.
        let turned: Vec<(f64, f64)> = pairs.iter().map(|(v, bound)| (*bound, *v)).collect();
        finding(what, delay, &pairs, more(if wanted_more { &pairs } else { &turned }, 0.0))
    }))
}

fn reno_fills_slow_access(r: &Results) -> Finding {
    against(r, RENO, "S1 in Mbit/s", s1, FULL * S1_LIMIT, true)
}

fn reno_fast_gets_more(r: &Results) -> Finding {
    together(DELAYS.iter().map(|delay| {
        let pairs = versus(r, (RENO, delay, s2), (RENO, delay, s1));
        finding("S2 and S1 in Mbit/s", delay, &pairs, more(&pairs, margin(&pairs)))
    }))
}

/// S2 of what the link leaves it, as a part.
fn of_the_rest(o: &Outcome) -> Option<f64> {
    Some(s2(o)? / (LINK - s1(o)?))
}

fn reno_leaves_bandwidth(r: &Results) -> Finding {
    against(r, RENO, "S2's part of what S1 leaves", of_the_rest, UNDERUSED / 100.0, false)
}

fn reno_unharmed_by_delay(r: &Results) -> Finding {
    together(["50ms", "100ms"].map(|delay| {
        let pairs = versus(r, (RENO, delay, s1), (RENO, "25ms", s1));
        let tolerance = SAME / claims::MARGIN * margin(&pairs);
        finding("S1 in Mbit/s, and at 25ms,", delay, &pairs, same(&pairs, tolerance, 0.0))
    }))
}

fn highspeed_harms_reno(r: &Results) -> Finding {
    together(DELAYS.iter().map(|delay| {
        let pairs = versus(r, (HIGHSPEED, delay, s1), (RENO, delay, s1));
        let judged: Vec<(f64, f64)> = pairs.iter().map(|(harmed, whole)| (SEVERE * whole, *harmed)).collect();
        finding("S1 in Mbit/s, and beside Reno,", delay, &pairs, more(&judged, margin(&judged)))
    }))
}

fn highspeed_slight_benefit(r: &Results) -> Finding {
    together([
        beats(r, HIGHSPEED, RENO, "S2 in Mbit/s", s2, &DELAYS),
        beats(r, RENO, HIGHSPEED, "total of Reno and of HighSpeed TCP", total, &DELAYS),
    ])
}

fn highspeed_gets_much(r: &Results) -> Finding {
    beats(r, HIGHSPEED, RENO, "S2 in Mbit/s", s2, &DELAYS)
}

fn highspeed_harm_grows(r: &Results) -> Finding {
    together([("25ms", "50ms"), ("50ms", "100ms")].map(|(short, long)| {
        let pairs = versus(r, (HIGHSPEED, short, s1), (HIGHSPEED, long, s1));
        finding("S1 in Mbit/s", &format!("{short} and {long}"), &pairs, more(&pairs, margin(&pairs)))
    }))
}

fn gentle_improves_both(r: &Results) -> Finding {
    together([
        beats(r, GENTLE, HIGHSPEED, "S1 in Mbit/s", s1, &DELAYS),
        beats(r, GENTLE, HIGHSPEED, "S2 in Mbit/s", s2, &DELAYS),
        beats(r, GENTLE, HIGHSPEED, "Jain's index", fairness, &DELAYS),
    ])
}

fn gentle_keeps_fast_flows(r: &Results) -> Finding {
    together(DELAYS.iter().map(|delay| {
        let pairs = versus(r, (GENTLE, delay, s2), (HIGHSPEED, delay, s2));
        finding("S2 in Mbit/s", delay, &pairs, same(&pairs, SAME / claims::MARGIN * margin(&pairs), 0.0))
    }))
}

fn gentle_improves_reno(r: &Results) -> Finding {
    together([
        beats(r, GENTLE, HIGHSPEED, "S1 in Mbit/s", s1, &DELAYS),
        beats(r, GENTLE, HIGHSPEED, "Jain's index", fairness, &DELAYS),
    ])
}

fn total_and_fairness(r: &Results, a: System, b: System, delays: &[&'static str]) -> Finding {
    together([beats(r, a, b, "total in Mbit/s", total, delays), beats(r, a, b, "Jain's index", fairness, delays)])
}

fn gentle_total_and_fairness(r: &Results) -> Finding {
    total_and_fairness(r, GENTLE, HIGHSPEED, &DELAYS)
}

fn ared_improves(r: &Results) -> Finding {
    total_and_fairness(r, HIGHSPEED_ARED, HIGHSPEED, &DELAYS)
}

fn ared_fairer(r: &Results) -> Finding {
    beats(r, HIGHSPEED_ARED, HIGHSPEED, "Jain's index", fairness, &DELAYS)
}

fn ared_underuses(r: &Results) -> Finding {
    against(r, HIGHSPEED_ARED, "utilisation in %", utilisation, UNDERUSED, false)
}

fn gared_short_paths(r: &Results) -> Finding {
    total_and_fairness(r, GENTLE_GARED, HIGHSPEED_ARED, &["25ms", "50ms"])
}

fn gared_long_path(r: &Results) -> Finding {
    let long = &["100ms"];
    let pairs = versus(r, (GENTLE_GARED, "100ms", s1), (HIGHSPEED_ARED, "100ms", s1));
    let less: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    let slightly: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*a, (1.0 - 0.25) * b)).collect();
    let verdict = all([more(&less, margin(&less)), no_less(&slightly, 0.0, margin(&slightly))]);
    together([
        beats(r, GENTLE_GARED, HIGHSPEED_ARED, "S2 in Mbit/s", s2, long),
        beats(r, GENTLE_GARED, HIGHSPEED_ARED, "total in Mbit/s", total, long),
        finding("S1 in Mbit/s", "100ms", &pairs, verdict),
    ])
}

fn gared_both_groups(r: &Results) -> Finding {
    together([
        beats(r, GENTLE_GARED, HIGHSPEED_ARED, "S1 in Mbit/s", s1, &DELAYS),
        beats(r, GENTLE_GARED, HIGHSPEED_ARED, "S2 in Mbit/s", s2, &DELAYS),
    ])
}

fn gared_fairer(r: &Results) -> Finding {
    beats(r, GENTLE_GARED, HIGHSPEED_ARED, "Jain's index", fairness, &DELAYS)
}

fn gared_loses_less(r: &Results) -> Finding {
    let fall = |system| versus(r, (system, "25ms", total), (system, "100ms", total));
    let falls = |system| fall(system).into_iter().map(|(short, long)| short - long);
    let pairs: Vec<(f64, f64)> = falls(HIGHSPEED_ARED).zip(falls(GENTLE_GARED)).collect();
    // A difference of differences: with one seed it has to stand out from the totals themselves.
    let off = margin(&fall(HIGHSPEED_ARED));
    finding("fall of the total in Mbit/s", "HighSpeed TCP with ARED and gHSTCP with gARED", &pairs, more(&pairs, off))
}

fn gared_steadier(r: &Results) -> Finding {
    let what = "queue's deviation in packets, ARED and gARED,";
    together([
        beats(r, HIGHSPEED_ARED, HIGHSPEED_GARED, &format!("HighSpeed TCP's {what}"), queue_deviation, &DELAYS),
        beats(r, GENTLE_ARED, GENTLE_GARED, &format!("gHSTCP's {what}"), queue_deviation, &DELAYS),
    ])
}
