//! What the text says of one bottleneck (Sync-TCP §5.1), as predicates.

use fathom_metrics::Distribution;

use super::super::Verdict;
use super::super::claims::{
    self, ClaimCheck, FRACTION_MARGIN, Finding, Of, all, margin, more, no_less, pairs, same, shown, together,
};
use super::curves::times;
use super::*;

/// Times at which curves are compared, in milliseconds. Ours.
pub(super) const TIMES: [f64; 15] = [
    100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1_000.0, 1_100.0, 1_200.0, 1_300.0, 1_400.0, 1_500.0,
];
/// Curves are looked at for where they cross up to this time, in steps of 10 ms.
const LAST_CROSSING: f64 = 3_000.0;
/// Mean sizes come from the same requests in all systems: with one seed they differ from this part on. Ours.
const SIZE_MARGIN: f64 = 0.01;
/// Seconds up to which figure 9 shows large responses.
const LARGE_SECONDS: u32 = 20;
const ONE_ONLY: &[&str] = &[ONE];
const HEAVY: [&str; 2] = ["90", "95"];

pub(super) const CLAIMS: &[ClaimCheck] = &[
    ClaimCheck {
        id: "sync-75-ared-first",
        source: "Sync-TCP §5.1, figure 6",
        says: "at 75 % load SACK-ARED-ECN is slightly ahead of Reno for responses within 350 ms",
        test: "its mean fraction within 50, 100, to 350 ms is more",
        studies: ONE_ONLY,
        predicate: ared_first,
    },
    ClaimCheck {
        id: "sync-75-crossover",
        source: "Sync-TCP §5.1, figure 6",
        says: "at 75 % load the curves of SACK-ARED-ECN and Reno cross at 400 ms; after it Reno is significantly better",
        test: "the last crossing up to 3 s lies between 200 and 800 ms (ours), and Reno's mean fraction within 500 to 1500 ms is more",
        studies: ONE_ONLY,
        predicate: crossover_at_75,
    },
    ClaimCheck {
        id: "sync-75-always-better",
        source: "Sync-TCP §5.1, figure 6",
        says: "at 75 % load Sync-TCP always performs better than Reno and SACK-ARED-ECN",
        test: "within 100 to 1500 ms: nowhere half a percent (ours) below either, and more in the mean",
        studies: ONE_ONLY,
        predicate: always_better_at_75,
    },
    ClaimCheck {
        id: "sync-heavy-better-than-reno",
        source: "Sync-TCP §5.1, figures 7 and 8",
        says: "at 90 and 95 % load Sync-TCP performs better than Reno",
        test: "as at 75 %",
        studies: ONE_ONLY,
        predicate: better_than_reno,
    },
    ClaimCheck {
        id: "sync-heavy-better-than-ared",
        source: "Sync-TCP §5.1, figures 7 and 8",
        says: "at 90 and 95 % load Sync-TCP performs better than SACK-ARED-ECN after 200 ms",
        test: "as at 75 %, from 300 ms on",
        studies: ONE_ONLY,
        predicate: better_than_ared,
    },
    ClaimCheck {
        id: "sync-heavy-ared-first",
        source: "Sync-TCP §5.1, figures 7 and 8",
        says: "at 90 and 95 % load slightly more flows complete within 200 ms with SACK-ARED-ECN than with the others",
        test: "its fraction within 200 ms is more than either's",
        studies: ONE_ONLY,
        predicate: ared_first_when_heavy,
    },
    ClaimCheck {
        id: "sync-heavy-ared-last",
        source: "Sync-TCP §5.1, figures 7 and 8",
        says: "at 90 and 95 % load, after 200 ms, SACK-ARED-ECN performs the worst of the three",
        test: "from 300 ms on nowhere half a percent (ours) above either, and less in the mean",
        studies: ONE_ONLY,
        predicate: ared_last_when_heavy,
    },
    ClaimCheck {
        id: "sync-table-drops",
        source: "Sync-TCP §5.1, table 1",
        says: "SACK-ARED-ECN drops most, Sync-TCP least",
        test: "percent of drops at R0: SACK-ARED-ECN > Reno > Sync-TCP",
        studies: ONE_ONLY,
        predicate: |r| in_order(r, "drops in %", drops, [ARED, RENO, SYNC], claims::MARGIN),
    },
    ClaimCheck {
        id: "sync-table-queue",
        source: "Sync-TCP §5.1, table 1",
        says: "Sync-TCP keeps smaller queues than Reno, SACK-ARED-ECN the smallest",
        test: "mean queue at R0: Reno > Sync-TCP > SACK-ARED-ECN",
        studies: ONE_ONLY,
        predicate: |r| in_order(r, "packets", queue, [RENO, SYNC, ARED], claims::MARGIN),
    },
    ClaimCheck {
        id: "sync-table-size",
        source: "Sync-TCP §5.1, table 1",
        says: "large responses complete most with Sync-TCP, least with SACK-ARED-ECN",
        test: "mean completed response: Sync-TCP > Reno > SACK-ARED-ECN; with one seed by 1 % (ours)",
        studies: ONE_ONLY,
        predicate: |r| in_order(r, "bytes", size, [SYNC, RENO, ARED], SIZE_MARGIN),
    },
    ClaimCheck {
        id: "sync-table-goodput",
        source: "Sync-TCP abstract and §5.1, table 1",
        says: "throughput is better with Sync-TCP than with Reno, and worst with SACK-ARED-ECN",
        test: "goodput per response: Sync-TCP > Reno > SACK-ARED-ECN",
        studies: ONE_ONLY,
        predicate: |r| in_order(r, "kbps", goodput, [SYNC, RENO, ARED], claims::MARGIN),
    },
    ClaimCheck {
        id: "sync-table-median",
        source: "Sync-TCP §5.1, table 1",
        says: "the median response time is shortest with Sync-TCP, longest with SACK-ARED-ECN",
        test: "median: SACK-ARED-ECN > Reno > Sync-TCP",
        studies: ONE_ONLY,
        predicate: |r| in_order(r, "ms", median, [ARED, RENO, SYNC], claims::MARGIN),
    },
    ClaimCheck {
        id: "sync-table-mean",
        source: "Sync-TCP §5.1, table 1",
        says: "the mean response time is shortest with Sync-TCP, longest with SACK-ARED-ECN",
        test: "mean: SACK-ARED-ECN > Reno > Sync-TCP",
        studies: ONE_ONLY,
        predicate: |r| in_order(r, "ms", mean, [ARED, RENO, SYNC], claims::MARGIN),
    },
    ClaimCheck {
        id: "sync-ared-above-target",
        source: "Sync-TCP §5.1",
        says: "SACK-ARED-ECN's mean queue is above its target, so that it drops even though packets could be marked",
        test: "mean queue at R0 above 11 packets, the top of the target of thresholds 5 and 15, and drops more than Reno's, at 90 %",
        studies: ONE_ONLY,
        predicate: ared_above_target,
    },
    ClaimCheck {
        id: "sync-few-are-large",
        source: "Sync-TCP §5.1",
        says: "only 5 % of the completed responses are larger than 25 kB",
        test: "within one percent of all (ours) of it, with Sync-TCP at every load",
        studies: ONE_ONLY,
        predicate: few_are_large,
    },
    ClaimCheck {
        id: "sync-large-no-worse",
        source: "Sync-TCP §5.1, figure 9",
        says: "the largest Sync-TCP flows perform no worse than those of Reno",
        test: "at 90 %, of responses above 25 kB, within 1, 2, to 20 s: nowhere one percent (ours) below Reno",
        studies: ONE_ONLY,
        predicate: large_no_worse,
    },
    ClaimCheck {
        id: "sync-largest-faster",
        source: "Sync-TCP §5.1, figure 10",
        says: "at 85 % load the largest response completes over 200 s before Reno's",
        test: "it completes sooner; the response is another, so the seconds are only reported",
        studies: &[LARGEST],
        predicate: largest_faster,
    },
    ClaimCheck {
        id: "sync-largest-fewer-drops",
        source: "Sync-TCP §5.1, figure 10",
        says: "the largest response sees 5 times fewer packet drops than with Reno",
        test: "Reno's part of lost packets is more than 3 times (ours) Sync-TCP's",
        studies: &[LARGEST],
        predicate: largest_fewer_drops,
    },
    ClaimCheck {
        id: "sync-largest-ared-incomplete",
        source: "Sync-TCP §5.1, figure 10",
        says: "with SACK-ARED-ECN that response does not complete before the end",
        test: "it completes with Reno and Sync-TCP, not with SACK-ARED-ECN, in every seed",
        studies: &[LARGEST],
        predicate: largest_ared_incomplete,
    },
];

/// The fraction of a curve's responses within a time.
fn fraction(curve: &Curve, ms: f64) -> impl Fn(&Outcome) -> Option<f64> {
    let group = curve.group;
    move |o| Some(times(o, group)?.within_ms(ms))
}

fn mean_fraction(curve: &Curve, at: impl Iterator<Item = f64>) -> impl Fn(&Outcome) -> Option<f64> {
    let (group, at): (_, Vec<f64>) = (curve.group, at.collect());
    move |o| {
        let d = times(o, group)?;
        Some(at.iter().map(|ms| d.within_ms(*ms)).sum::<f64>() / at.len() as f64)
    }
}

/// The mean of a curve over [`TIMES`]: how far up and left it lies.
pub(super) fn level(curve: &Curve) -> impl Fn(&Outcome) -> Option<f64> {
    mean_fraction(curve, TIMES.into_iter())
}

/// A number of one curve's runs and one of another's, seed by seed.
pub(super) fn of_both(r: &Results, a: (&Curve, Of<'_>), b: (&Curve, Of<'_>)) -> Vec<(f64, f64)> {
    pairs(r, ((a.0.study, &a.0.key), a.1), ((b.0.study, &b.0.key), b.1))
}

pub(super) fn fractions(r: &Results, a: &Curve, b: &Curve, ms: f64) -> Vec<(f64, f64)> {
    of_both(r, (a, &fraction(a, ms)), (b, &fraction(b, ms)))
}

pub(super) fn levels(r: &Results, a: &Curve, b: &Curve) -> Vec<(f64, f64)> {
    of_both(r, (a, &level(a)), (b, &level(b)))
}

pub(super) fn finding(what: &str, pairs: &[(f64, f64)], verdict: Verdict) -> Finding {
    let side = |of: fn(&(f64, f64)) -> f64| shown(pairs.iter().map(of));
    Finding { verdict, numbers: format!("{what}: {} against {}", side(|p| p.0), side(|p| p.1)) }
}

/// `a` is nowhere below `b` from a time on, and above in the mean.
pub(super) fn better(r: &Results, a: &Curve, b: &Curve, from: f64, what: &str) -> Finding {
    let at = || TIMES.into_iter().filter(move |ms| *ms >= from);
    let mean = of_both(r, (a, &mean_fraction(a, at())), (b, &mean_fraction(b, at())));
    let nowhere_below = at().map(|ms| no_less(&fractions(r, a, b, ms), FRACTION_MARGIN, 0.0));
    let verdict = all(nowhere_below.chain([more(&mean, FRACTION_MARGIN)]));
    finding(&format!("{what}, mean fraction"), &mean, verdict)
}

fn first_times(curve: &Curve) -> impl Fn(&Outcome) -> Option<f64> {
    mean_fraction(curve, (1..=7).map(|n| 50.0 * f64::from(n)))
}

fn ared_first(r: &Results) -> Finding {
    let (a, b) = (Curve::one("75", ARED), Curve::one("75", RENO));
    let pairs = of_both(r, (&a, &first_times(&a)), (&b, &first_times(&b)));
    finding("SACK-ARED-ECN and Reno, mean fraction", &pairs, more(&pairs, FRACTION_MARGIN))
}

/// The time in milliseconds from which on `b` stays at or above `a`.
pub(super) fn crossover(a: &Distribution, b: &Distribution) -> f64 {
    let steps = (1..=(LAST_CROSSING / 10.0) as u32).rev().map(|n| 10.0 * f64::from(n));
    let mut after = LAST_CROSSING;
    for ms in steps {
        if a.within_ms(ms) > b.within_ms(ms) {
            break;
        }
        after = ms;
    }
    after
}

/// Where SACK-ARED-ECN falls behind Reno, per seed.
pub(super) fn crossovers(r: &Results, ared: &Curve, reno: &Curve) -> Vec<f64> {
    let others: std::collections::BTreeMap<u64, &Outcome> = r.outcomes(reno.study, &reno.key).collect();
    let of =
        |(seed, o): (u64, &Outcome)| Some(crossover(times(o, ared.group)?, times(others.get(&seed)?, reno.group)?));
    r.outcomes(ared.study, &ared.key).filter_map(of).collect()
}

fn crossover_at_75(r: &Results) -> Finding {
    let (ared, reno) = (Curve::one("75", ARED), Curve::one("75", RENO));
    let kernel_hops = crossovers(r, &ared, &reno);
    let against = |bound: f64| kernel_hops.iter().map(|ms| (*ms, bound)).collect::<Vec<_>>();
    let turned = |bound: f64| kernel_hops.iter().map(|ms| (bound, *ms)).collect::<Vec<_>>();
    let between = all([more(&against(200.0), 0.0), more(&turned(800.0), 0.0)]);
    let later = || TIMES.into_iter().filter(|ms| *ms >= 500.0);
    let after = of_both(r, (&reno, &mean_fraction(&reno, later())), (&ared, &mean_fraction(&ared, later())));
    together([
        Finding { verdict: between, numbers: format!("they cross last at {} ms", shown(kernel_hops.iter().copied())) },
        finding("Reno and SACK-ARED-ECN after it, mean fraction", &after, more(&after, FRACTION_MARGIN)),
    ])
}

fn always_better_at_75(r: &Results) -> Finding {
    let sync = Curve::one("75", SYNC);
    let against = |system| better(r, &sync, &Curve::one("75", system), 0.0, &format!("Sync-TCP and {system}"));
    together([RENO, ARED].map(against))
}

fn better_than_reno(r: &Results) -> Finding {
    let at = |load| better(r, &Curve::one(load, SYNC), &Curve::one(load, RENO), 0.0, &format!("{load} %"));
    together(HEAVY.map(at))
}

fn better_than_ared(r: &Results) -> Finding {
    let at = |load| better(r, &Curve::one(load, SYNC), &Curve::one(load, ARED), 300.0, &format!("{load} %"));
    together(HEAVY.map(at))
}

/// At both heavy loads, SACK-ARED-ECN against the other two.
fn ared_and_others(judge: impl Fn(&Curve, &Curve, &str) -> Finding) -> Finding {
    together(
        HEAVY.into_iter().flat_map(|load| [RENO, SYNC].map(|other| (load, other))).map(|(load, other)| {
            judge(&Curve::one(load, ARED), &Curve::one(load, other), &format!("{load} %, {other}"))
        }),
    )
}

fn ared_first_when_heavy(r: &Results) -> Finding {
    ared_and_others(|ared, other, what| {
        let pairs = fractions(r, ared, other, 200.0);
        finding(&format!("{what}, fraction of SACK-ARED-ECN"), &pairs, more(&pairs, FRACTION_MARGIN))
    })
}

fn ared_last_when_heavy(r: &Results) -> Finding {
    ared_and_others(|ared, other, what| better(r, other, ared, 300.0, what))
}

/// A row of table 1 falls from system to system.
fn in_order(r: &Results, what: &str, of: Measure, systems: [&'static str; 3], part: f64) -> Finding {
    together([(systems[0], systems[1]), (systems[1], systems[2])].map(|(a, b)| {
        let (first, second) = (Curve::one("90", a), Curve::one("90", b));
        let pairs = of_both(r, (&first, &of), (&second, &of));
        let off = part / claims::MARGIN * margin(&pairs);
        finding(&format!("{a} and {b}, {what}"), &pairs, more(&pairs, off))
    }))
}

fn ared_above_target(r: &Results) -> Finding {
    let (ared, reno) = (Curve::one("90", ARED), Curve::one("90", RENO));
    let queues: Vec<(f64, f64)> = r.values(ared.study, &ared.key, queue).into_iter().map(|q| (q, 11.0)).collect();
    let lost = of_both(r, (&ared, &drops), (&reno, &drops));
    together([
        finding("mean queue and the target's top in packets", &queues, more(&queues, 0.0)),
        finding("drops of SACK-ARED-ECN and Reno in %", &lost, more(&lost, margin(&lost))),
    ])
}

fn few_are_large(r: &Results) -> Finding {
    let part = |o: &Outcome| {
        let group = o.groups.get("forward")?;
        Some(100.0 * group.times_large.as_ref().map_or(0, |t| t.count) as f64 / group.responses as f64)
    };
    together(["75", "90", "95"].map(|load| {
        let curve = Curve::one(load, SYNC);
        let values: Vec<(f64, f64)> = r.values(curve.study, &curve.key, part).into_iter().map(|v| (v, 5.0)).collect();
        finding(&format!("{load} %, percent of the responses"), &values, same(&values, 1.0, 0.0))
    }))
}

/// The fraction of responses above 25 kB within so many seconds.
pub(super) fn large_within(o: &Outcome, group: &str, seconds: f64) -> Option<f64> {
    Some(o.groups.get(group)?.times_large.as_ref()?.within_ms(seconds * 1e3))
}

fn large_no_worse(r: &Results) -> Finding {
    let (sync, reno) = (Curve::one("90", SYNC), Curve::one("90", RENO));
    let at = |seconds: f64| {
        let of = |o: &Outcome| large_within(o, "forward", seconds);
        of_both(r, (&sync, &of), (&reno, &of))
    };
    let verdicts = (1..=LARGE_SECONDS).map(|s| no_less(&at(f64::from(s)), 0.01, 0.0));
    let verdict = all(verdicts);
    together([1.0, 5.0, 20.0].map(|s| finding(&format!("fraction within {s} s, Sync-TCP and Reno"), &at(s), verdict)))
}

/// The largest response's seconds, or lost part, of two systems.
fn of_largest(r: &Results, a: &str, b: &str, of: Measure) -> Vec<(f64, f64)> {
    pairs(r, ((LARGEST, &[("system", a)]), &of), ((LARGEST, &[("system", b)]), &of))
}

fn largest_seconds(o: &Outcome) -> Option<f64> {
    Some(o.groups.get("forward")?.traced_end?.seconds)
}

fn largest_lost(o: &Outcome) -> Option<f64> {
    let end = o.groups.get("forward")?.traced_end?;
    Some(100.0 * end.lost as f64 / end.sent.max(1) as f64)
}

fn largest_faster(r: &Results) -> Finding {
    let pairs = of_largest(r, RENO, SYNC, largest_seconds);
    finding("Reno and Sync-TCP in s", &pairs, more(&pairs, margin(&pairs)))
}

fn largest_fewer_drops(r: &Results) -> Finding {
    let pairs = of_largest(r, RENO, SYNC, largest_lost);
    let judged: Vec<(f64, f64)> = pairs.iter().map(|(reno, sync)| (*reno, 3.0 * sync)).collect();
    finding("Reno and Sync-TCP, percent lost", &pairs, more(&judged, margin(&judged)))
}

fn largest_ared_incomplete(r: &Results) -> Finding {
    let completed = |system: &str| {
        let runs: Vec<bool> =
            r.outcomes(LARGEST, &[("system", system)]).map(|(_, o)| largest_seconds(o).is_some()).collect();
        (runs.iter().filter(|done| **done).count(), runs.len())
    };
    let [reno, ared, sync] = [RENO, ARED, SYNC].map(completed);
    let verdict = if [reno, ared, sync].iter().any(|(_, runs)| *runs == 0) {
        Verdict::Undecided
    } else if reno.0 == reno.1 && sync.0 == sync.1 && ared.0 == 0 {
        Verdict::Held
    } else {
        Verdict::NotHeld
    };
    let completed = |name, (done, runs): (usize, usize)| format!("{name}: complete in {done} of {runs}");
    Finding { verdict, numbers: [completed(RENO, reno), completed(ARED, ared), completed(SYNC, sync)].join("; ") }
}
