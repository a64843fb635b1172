//! Claims of the text about one bottleneck (Sync-TCP §5.1), as predicates.

use std::collections::BTreeMap;

use fathom_experiments::scenario::Outcome;
use fathom_metrics::Distribution;

use super::curves::{AFTER_400, Curve, FIRST, TIMES, collapsed, times};
use super::{
    ARED, LARGEST, ONE, RENO, SYNC, drops, goodput, large_percent, mean, median, queue, size,
};
use crate::claims::{all, more, no_less, same, within};
use crate::results::{BySeed, Measure};
use crate::{ClaimCheck, Finding, Results, Verdict, claim};

/// Values of [`TIMES`] from 300 ms on.
const AFTER_200: &[f64] = TIMES.split_at(2).1;
/// Maximum time in milliseconds at which crossings of curves are searched, in steps of 10 ms.
const LAST_CROSSING: f64 = 3_000.0;
/// Difference by which a fraction may be smaller without being worse. Our choice.
pub(super) const TOLERATED: f64 = 0.005;
/// Seconds up to which figure 9 shows large responses.
pub(super) const LARGE_SECONDS: u32 = 20;
/// Loads at which heavy load is judged; the paper's are in [`super::PAPERS_LOADS`].
const HEAVY: [&str; 2] = ["80", "85"];
/// Seconds by which the largest response is faster, its size, and the factor by which fewer of its
/// packets are lost (Sync-TCP §5.1).
const SOONER: f64 = 200.0;
const LARGEST_BYTES: f64 = 49e6;
const FEWER: f64 = 5.0;

pub(super) const CLAIMS: &[ClaimCheck] = &[
    claim("sync-75-ared-first", "Sync-TCP §5.1, figure 6", &[ONE])
        .says("at 75 % load SACK-ARED-ECN is slightly ahead of Reno for responses within 350 ms")
        .regime(|r| collapsed(r, &[ARED, RENO].map(|system| Curve::one("75", system))))
        .test(
            "the mean of the fractions of responses that complete within 50, 100, ..., 350 ms (the \
             mean fraction) is larger with SACK-ARED-ECN than with Reno",
        )
        .asks(|r| {
            let [ared, reno] = [ARED, RENO].map(|system| Curve::one("75", system));
            fraction_is_more(
                r,
                "SACK-ARED-ECN and Reno, mean fraction",
                &FIRST,
                [&ared, &reno],
            )
        }),
    claim("sync-75-crossover", "Sync-TCP §5.1, figure 6", &[ONE])
        .says(
            "at 75 % load the curves of SACK-ARED-ECN and Reno cross at 400 ms, and Reno is \
             significantly better at longer times",
        )
        .regime(|r| collapsed(r, &[ARED, RENO].map(|system| Curve::one("75", system))))
        .test(
            "the last crossing before 3 s is between 200 and 800 ms (our choice), and the mean \
             fraction within 500 to 1500 ms is larger with Reno than with SACK-ARED-ECN",
        )
        .asks(|r| {
            let [ared, reno] = [ARED, RENO].map(|system| Curve::one("75", system));
            let crossing = crossovers(r, &ared, &reno);
            // Curves that lie close to each other cross anywhere.
            let there =
                within(&crossing, 200.0, 800.0);
            let what = "Reno and SACK-ARED-ECN within 500 to 1500 ms, mean fraction";
            Finding::together([
                Finding::new(there, format!("last crossing at {crossing} ms")),
                fraction_is_more(r, what, AFTER_400, [&reno, &ared]),
            ])
        }),
    claim("sync-75-always-better", "Sync-TCP §5.1, figure 6", &[ONE])
        .says("at 75 % load Sync-TCP always performs better than Reno and SACK-ARED-ECN")
        .test(
            "from 100 to 1500 ms, Sync-TCP's fraction of completed responses is never more than \
             0.5 percentage points (our choice) below Reno's or \
             SACK-ARED-ECN's. Sync-TCP's mean fraction is larger",
        )
        .cause(
            "Sync-TCP is behind only within 100 ms: SACK-ARED-ECN completes 1.5 percentage points \
             more of the responses, because its queue is shorter. From 300 ms on, Sync-TCP is 5 to \
             13 points ahead of SACK-ARED-ECN.",
        )
        .asks(|r| {
            let against = |system| {
                better(
                    r,
                    &Curve::one("75", SYNC),
                    &Curve::one("75", system),
                    &TIMES,
                    &format!("Sync-TCP and {system}"),
                )
            };
            Finding::together([RENO, ARED].map(against))
        }),
    claim("sync-heavy-better-than-reno", "Sync-TCP §5.1, figures 7 and 8", &[ONE])
        .says("at 90 and 95 % load Sync-TCP performs better than Reno")
        .test("the test of sync-75-always-better at 80 and 85 %, against Reno only")
        .asks(|r| {
            when_heavy([(SYNC, RENO)], |what, _, sync, reno| {
                better(r, sync, reno, &TIMES, &format!("{what}, Sync-TCP and Reno"))
            })
        }),
    claim("sync-heavy-better-than-ared", "Sync-TCP §5.1, figures 7 and 8", &[ONE])
        .says("at 90 and 95 % load Sync-TCP performs better than SACK-ARED-ECN after 200 ms")
        .test(
            "the test of sync-75-always-better at 80 and 85 %, against SACK-ARED-ECN only and from \
             300 ms on",
        )
        .asks(|r| {
            when_heavy([(SYNC, ARED)], |what, _, sync, ared| {
                better(r, sync, ared, AFTER_200, &format!("{what}, Sync-TCP and SACK-ARED-ECN"))
            })
        }),
    claim("sync-heavy-ared-first", "Sync-TCP §5.1, figures 7 and 8", &[ONE])
        .says(
            "at 90 and 95 % load slightly more flows complete within 200 ms with SACK-ARED-ECN \
             than with Reno or Sync-TCP",
        )
        .test(
            "at 80 and 85 %, the fraction of responses within 200 ms is larger with SACK-ARED-ECN \
             than with Reno and than with Sync-TCP",
        )
        .asks(|r| {
            when_heavy([(ARED, RENO), (ARED, SYNC)], |what, other, ared, others| {
                let what = format!("{what}, SACK-ARED-ECN and {other}, fraction within 200 ms");
                fraction_is_more(r, &what, &[200.0], [ared, others])
                    .unless(collapsed(r, [ared, others]))
            })
        }),
    claim("sync-heavy-ared-last", "Sync-TCP §5.1, figures 7 and 8", &[ONE])
        .says(
            "at 90 and 95 % load, SACK-ARED-ECN performs worse than Reno and Sync-TCP after 200 ms",
        )
        .test(
            "at 80 and 85 % and from 300 ms on, SACK-ARED-ECN's fraction of completed responses is never more than \
             0.5 percentage points (our choice) above Reno's or \
             Sync-TCP's. SACK-ARED-ECN's mean fraction is smaller",
        )
        .asks(|r| {
            when_heavy([(ARED, RENO), (ARED, SYNC)], |what, other, ared, others| {
                better(r, others, ared, AFTER_200, &format!("{what}, {other} and SACK-ARED-ECN"))
            })
        }),
    claim("sync-table-drops", "Sync-TCP §5.1, table 1", &[ONE])
        .says("SACK-ARED-ECN has the most drops, Sync-TCP the fewest")
        .test("at 80 %, percentage of packets dropped at R0: SACK-ARED-ECN > Reno > Sync-TCP")
        .asks(|r| in_order(r, "drops in %", drops, [ARED, RENO, SYNC])),
    claim("sync-table-queue", "Sync-TCP §5.1, table 1", &[ONE])
        .says("Sync-TCP has smaller queues than Reno, and SACK-ARED-ECN has the smallest")
        .test("at 80 %, mean queue at R0: Reno > Sync-TCP > SACK-ARED-ECN")
        .asks(|r| in_order(r, "packets", queue, [RENO, SYNC, ARED])),
    claim("sync-table-size", "Sync-TCP §5.1, table 1", &[ONE])
        .says(
            "large responses complete most often with Sync-TCP and least often with SACK-ARED-ECN",
        )
        .test("at 80 %, mean size of the completed responses: Sync-TCP > Reno > SACK-ARED-ECN")
        .asks(|r| in_order(r, "bytes", size, [SYNC, RENO, ARED])),
    claim("sync-table-goodput", "Sync-TCP abstract and §5.1, table 1", &[ONE])
        .says("throughput is better with Sync-TCP than with Reno, and worst with SACK-ARED-ECN")
        .test("at 80 %, goodput per response: Sync-TCP > Reno > SACK-ARED-ECN")
        .asks(|r| in_order(r, "kbps", goodput, [SYNC, RENO, ARED])),
    claim("sync-table-median", "Sync-TCP §5.1, table 1", &[ONE])
        .says("the median response time is shortest with Sync-TCP, longest with SACK-ARED-ECN")
        .test("at 80 %, median response time: SACK-ARED-ECN > Reno > Sync-TCP")
        .asks(|r| in_order(r, "median in ms", median, [ARED, RENO, SYNC])),
    claim("sync-table-mean", "Sync-TCP §5.1, table 1", &[ONE])
        .says("the mean response time is shortest with Sync-TCP, longest with SACK-ARED-ECN")
        .test("at 80 %, mean response time: SACK-ARED-ECN > Reno > Sync-TCP")
        .asks(|r| in_order(r, "mean in ms", mean, [ARED, RENO, SYNC])),
    claim("sync-ared-above-target", "Sync-TCP §5.1", &[ONE])
        .says(
            "SACK-ARED-ECN's mean queue is above its target, so the queue drops packets although \
             it could mark them",
        )
        .test(
            "at 80 %, the mean queue at R0 with SACK-ARED-ECN is above 11 packets, and more \
             packets are dropped than with Reno. 11 packets are the upper end of the target for \
             the thresholds 5 and 15",
        )
        .asks(|r| {
            let [ared, reno] = [ARED, RENO].map(|system| Curve::one("80", system));
            let missed = collapsed(r, [&ared, &reno]);
            let queues = ared.by_seed(r, queue).beside(11.0);
            let lost = ared.by_seed(r, drops).pairs(&reno.by_seed(r, drops));
            Finding::together([
                Finding::of_pairs(
                    "mean queue and upper end of the target in packets",
                    &queues,
                    more(&queues),
                ),
                Finding::of_pairs(
                    "drops of SACK-ARED-ECN and Reno in %",
                    &lost,
                    more(&lost),
                ),
            ])
            .unless(missed)
        }),
    claim("sync-few-are-large", "Sync-TCP §5.1", &[ONE])
        .says("only 5 % of the completed responses are larger than 25 kB")
        .test(
            "with Sync-TCP, 4 to 6 % (our choice) of the responses are larger than 25 kB at every \
             load",
        )
        .asks(|r| {
            Finding::together(["75", "80", "85"].map(|load| {
                let curve = Curve::one(load, SYNC);
                let large = curve.by_seed(r, |o| large_percent(o, "forward")).beside(5.0);
                Finding::of_pairs(
                    format!("{load} %, percentage of large responses here and in the paper"),
                    &large,
                    same(&large, 1.0),
                )
                .unless(collapsed(r, [&curve]))
            }))
        }),
    claim("sync-large-no-worse", "Sync-TCP §5.1, figure 9", &[ONE])
        .says("the largest flows perform no worse with Sync-TCP than with Reno")
        .test(
            "at 80 %, the fractions of responses above 25 kB within 1, 2, ..., 20 s are at most \
             one percentage point (our choice) smaller with Sync-TCP than with Reno",
        )
        .regime(|r| collapsed(r, &[SYNC, RENO].map(|system| Curve::one("80", system))))
        .cause(
            "Within 3 and 4 s, Sync-TCP completes 1.5 percentage points fewer of the responses \
             above 25 kB than Reno, because only these are long enough to be slowed down. Within 1 \
             s and from 10 s on, the difference is below half a point or in Sync-TCP's favour.",
        )
        .asks(|r| {
            let at = |seconds: f64| {
                let [sync, reno] =
                    [SYNC, RENO].map(|system| large_within(r, &Curve::one("80", system), seconds));
                sync.pairs(&reno)
            };
            let verdict = all((1..=LARGE_SECONDS).map(|s| no_less(&at(f64::from(s)), 0.01)));
            Finding::together([1.0, 5.0, 20.0].map(|s| {
                Finding::of_pairs(
                    format!("fraction within {s} s, Sync-TCP and Reno"),
                    &at(s),
                    verdict,
                )
            }))
        }),
    claim("sync-largest-faster", "Sync-TCP §5.1, figure 10", &[LARGEST])
        .says(
            "at 85 % load the largest response completes over 200 s earlier with Sync-TCP than \
             with Reno",
        )
        .regime(|r| collapsed(r, &[RENO, SYNC].map(Curve::largest)))
        .test(
            "the largest response completes earlier with Sync-TCP than with Reno, by over 200 s for \
             each 49 MB. The paper's response has 49 MB, those here have 5 to 35 MB",
        )
        .asks(|r| {
            let [reno, sync] = [RENO, SYNC].map(|system| largest(r, system, largest_seconds));
            let bytes = largest(r, RENO, |o| Some(o.groups.get("forward")?.traced as f64));
            let sooner = bytes.map(|bytes| SOONER * bytes / LARGEST_BYTES);
            let judged = reno.pairs(&sync.zip(&sooner, |sync, sooner| Some(sync + sooner)));
            Finding::of_pairs(
                "Reno and Sync-TCP, time in s",
                &reno.pairs(&sync),
                more(&judged),
            )
        }),
    claim("sync-largest-fewer-drops", "Sync-TCP §5.1, figure 10", &[LARGEST])
        .says("the largest response has 5 times fewer packet drops with Sync-TCP than with Reno")
        .regime(|r| collapsed(r, &[RENO, SYNC].map(Curve::largest)))
        .test(
            "the largest response loses at least 5 times the percentage of packets with Reno as \
             with Sync-TCP",
        )
        .cause(
            "With TCP (`validation-sync-tcp-largest`), the percentage is 3, 9, 8, 32 and 12 times \
             as large with Reno in the five seeds. Most dropped QUIC packets belong to handshakes and first windows, which no controller \
             controls.",
        )
        .asks(|r| {
            let [reno, sync] = [RENO, SYNC].map(|system| largest(r, system, largest_lost));
            let judged = reno.pairs(&sync.map(|lost| FEWER * lost));
            let verdict = more(&judged);
            Finding::of_pairs(
                "Reno and Sync-TCP, percentage of packets lost",
                &reno.pairs(&sync),
                verdict,
            )
        }),
    claim("sync-largest-ared-incomplete", "Sync-TCP §5.1, figure 10", &[LARGEST])
        .says("with SACK-ARED-ECN the largest response does not complete before the run ends")
        .regime(|r| collapsed(r, &[RENO, ARED, SYNC].map(Curve::largest)))
        .test(
            "in every seed, the largest response completes with Reno and with Sync-TCP, but not \
             with SACK-ARED-ECN",
        )
        .cause(
            "Half of the requests of a run follow the largest response. With SACK-ARED-ECN, it takes \
             2.5 to 3.5 times as long as with Reno, and completes within this time.",
        )
        .asks(|r| {
            let systems = [RENO, ARED, SYNC];
            let [reno, ared, sync] = systems.map(|system| {
                let key = [("system", system)];
                let runs = || r.outcomes(LARGEST, &key).map(|(_, o)| o);
                (runs().filter_map(largest_seconds).count(), runs().count())
            });
            let verdict = match [reno, ared, sync].iter().any(|(_, runs)| *runs == 0) {
                true => Verdict::Undecided,
                false if reno.0 == reno.1 && sync.0 == sync.1 && ared.0 == 0 => Verdict::Held,
                false => Verdict::NotHeld,
            };
            Finding::together(systems.iter().zip([reno, ared, sync]).map(|(name, (done, runs))| {
                Finding::new(verdict, format!("{name}: complete in {done} of {runs}"))
            }))
        }),
];

/// Tests whether the mean of the fractions within these times is larger in the first curve.
pub(super) fn fraction_is_more(
    r: &Results,
    what: &str,
    at: &[f64],
    [a, b]: [&Curve; 2],
) -> Finding {
    let pairs = a.mean_fraction(r, at).pairs(&b.mean_fraction(r, at));
    Finding::of_pairs(what, &pairs, more(&pairs))
}

/// Tests whether `a` is at none of these times below `b` by more than a tolerance.
pub(super) fn nowhere_below(r: &Results, a: &Curve, b: &Curve, at: &[f64]) -> Verdict {
    let verdict = |ms: &f64| {
        let pairs = a.mean_fraction(r, &[*ms]).pairs(&b.mean_fraction(r, &[*ms]));
        no_less(&pairs, TOLERATED)
    };
    all(at.iter().map(verdict))
}

/// Tests whether `a` is nowhere below `b` at these times and is above `b` on average. Not in regime
/// if either curve has collapsed.
pub(super) fn better(r: &Results, a: &Curve, b: &Curve, at: &[f64], what: &str) -> Finding {
    let mean = fraction_is_more(r, &format!("{what}, mean fraction"), at, [a, b]);
    Finding { verdict: all([nowhere_below(r, a, b, at), mean.verdict]), ..mean }
        .unless(collapsed(r, [a, b]))
}

/// Compares pairs of systems at both heavy loads; `judge` gets the load and the second system as
/// text.
fn when_heavy<const N: usize>(
    systems: [(&'static str, &'static str); N],
    judge: impl Fn(&str, &str, &Curve, &Curve) -> Finding,
) -> Finding {
    let cases = HEAVY.into_iter().flat_map(|load| systems.map(|(a, b)| (load, a, b)));
    Finding::together(cases.map(|(load, a, b)| {
        judge(&format!("{load} %"), b, &Curve::one(load, a), &Curve::one(load, b))
    }))
}

/// Returns the time in milliseconds after which `b` stays at or above `a`.
pub(super) fn crossover(a: &Distribution, b: &Distribution) -> f64 {
    let steps = (1..=(LAST_CROSSING / 10.0) as u32).rev().map(|n| 10.0 * f64::from(n));
    steps.take_while(|ms| a.within_ms(*ms) <= b.within_ms(*ms)).last().unwrap_or(LAST_CROSSING)
}

/// Returns the times at which SACK-ARED-ECN falls behind Reno.
pub(super) fn crossovers(r: &Results, ared: &Curve, reno: &Curve) -> BySeed {
    let others: BTreeMap<u64, &Outcome> = r.outcomes(reno.study, &reno.key).collect();
    let of = |(seed, o): (u64, &Outcome)| {
        Some((seed, crossover(times(o, ared.group)?, times(others.get(&seed)?, reno.group)?)))
    };
    r.outcomes(ared.study, &ared.key).filter_map(of).collect()
}

/// Tests whether a row of table 1 falls from system to system. Not in regime if one of them has
/// collapsed.
fn in_order(r: &Results, what: &str, of: Measure, systems: [&'static str; 3]) -> Finding {
    Finding::together(systems.windows(2).map(|two| {
        let [a, b] = [two[0], two[1]].map(|system| Curve::one("80", system));
        let pairs = a.by_seed(r, of).pairs(&b.by_seed(r, of));
        Finding::of_pairs(format!("{} and {}, {what}", a.name, b.name), &pairs, more(&pairs))
            .unless(collapsed(r, [&a, &b]))
    }))
}

/// Returns the fraction of responses above 25 kB within `seconds`.
pub(super) fn large_within(r: &Results, curve: &Curve, seconds: f64) -> BySeed {
    let of = |o: &Outcome| {
        Some(o.groups.get(curve.group)?.times_large.as_ref()?.within_ms(seconds * 1e3))
    };
    r.by_seed(curve.study, &curve.key, of)
}

/// Returns a number of the largest response.
fn largest(r: &Results, system: &str, of: Measure) -> BySeed {
    r.by_seed(LARGEST, &[("system", system)], of)
}

pub(crate) fn largest_seconds(o: &Outcome) -> Option<f64> {
    Some(o.groups.get("forward")?.traced_end?.seconds)
}

pub(crate) fn largest_lost(o: &Outcome) -> Option<f64> {
    let end = o.groups.get("forward")?.traced_end?;
    Some(100.0 * end.lost as f64 / end.sent.max(1) as f64)
}
