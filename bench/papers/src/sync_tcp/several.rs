//! Claims of the text about several bottlenecks, drifting clocks and mixes (Sync-TCP §5.2 to §5.4),
//! as predicates.

use super::claims::{
    LARGE_SECONDS, TOLERATED, better, crossovers, fraction_is_more, large_within, nowhere_below,
};
use fathom_experiments::scenario::Outcome;

use super::curves::{Curve, TIMES, collapsed};
use super::{
    ARED, DRIFT, MIX, MIXED_SYNC, MIXES, ONE, RENO, SEVERAL, SYNC, THREE_AT_75, THREE_AT_80,
    TWO_AT_75, TWO_AT_80, large_percent,
};
use crate::claims::{all, more, no_less, same};
use crate::{ClaimCheck, Finding, Reason, Results, claim};

/// Largest difference of fractions at which curves are "comparable", or have no "large" difference.
/// Our choice.
const COMPARABLE: f64 = 0.02;

pub(super) const CLAIMS: &[ClaimCheck] = &[
    claim("sync-several-better", "Sync-TCP §5.2, figures 11 and 12", &[SEVERAL])
        .says("at 75 % load over 2 and 3 bottlenecks Sync-TCP still performs better than Reno and \
               SACK-ARED-ECN")
        .test("from 100 to 1500 ms, Sync-TCP's fraction of completed responses is never more than \
               0.5 percentage points (our choice) below Reno's \
               or SACK-ARED-ECN's. Sync-TCP's mean fraction is larger")
        .asks(|r| {
            let cases = ADDED[0].1.into_iter().flat_map(|case| [RENO, ARED].map(|other| (case, other)));
            Finding::together(cases.map(|(case, other)| {
                let what = format!("{case}, Sync-TCP and {other}");
                better(r, &Curve::several(case, SYNC), &Curve::several(case, other), &TIMES, &what)
            }))
        }),
    claim("sync-several-crossover", "Sync-TCP §5.2, figures 6, 11 and 12", &[ONE, SEVERAL])
        .says("with more bottlenecks the curves of Reno and SACK-ARED-ECN cross later, so \
               SACK-ARED-ECN improves relative to Reno")
        .test("at 75 %, SACK-ARED-ECN falls behind Reno later with 2 bottlenecks than with 1, and \
               later with 3 than with 2")
        .asks(|r| {
            let (ared, reno) = (added(ADDED[0], ARED), added(ADDED[0], RENO));
            let missed = collapsed(r, ared.iter().chain(&reno));
            let [one, two, three] = [0, 1, 2].map(|i| crossovers(r, &ared[i], &reno[i]));
            let verdict = all([more(&two.pairs(&one)), more(&three.pairs(&two))]);
            Finding::new(verdict, format!("SACK-ARED-ECN falls behind at {one}, {two}, {three} ms with 1, 2 and 3 bottlenecks"))
                .unless(missed)
        }),
    claim("sync-several-reno-degrades", "Sync-TCP §5.2", &[ONE, SEVERAL])
        .says("with Reno, performance degrades as congested links are added")
        .test("at 75 and 80 %, Reno's mean fraction within 100 to 1500 ms is smaller with 2 \
               bottlenecks than with 1, and smaller with 3 than with 2")
        .cause("Reno's performance degrades from 1 to 2 bottlenecks, but not from 2 to 3. With 3 \
                bottlenecks, cross traffic is only a sixth of the load here. The paper does not say \
                how it divides the load.")
        .asks(|r| by_bottlenecks(r, RENO, [(1, 2), (2, 3)])),
    claim("sync-several-ared-improves", "Sync-TCP §5.2", &[ONE, SEVERAL])
        .says("SACK-ARED-ECN performs better with 3 bottlenecks than with 1 or 2")
        .test("at 75 and 80 %, SACK-ARED-ECN's mean fraction is larger with 3 bottlenecks than \
               with 1 and than with 2")
        .asks(|r| by_bottlenecks(r, ARED, [(3, 1), (3, 2)])),
    claim("sync-several-degrades-little", "Sync-TCP §5.2", &[ONE, SEVERAL])
        .says("Sync-TCP's performance degrades only slightly as bottlenecks are added")
        .test("at 75 and 80 %, Sync-TCP's mean fraction is at most 5 percentage points (our \
               choice) smaller with 3 bottlenecks than with 1")
        .asks(|r| {
            Finding::together(ADDED.map(|load| {
                let [one, _, three] = added(load, SYNC);
                let pairs = three.level(r).pairs(&one.level(r));
                let what = format!("{} %, 3 and 1 bottlenecks, mean fraction", load.0);
                Finding::of_pairs(what, &pairs, no_less(&pairs, 0.05))
                    .unless(collapsed(r, [&one, &three]))
            }))
        }),
    claim("sync-several-as-reno-alone", "Sync-TCP §5.2", &[ONE, SEVERAL])
        .says("Sync-TCP over 3 bottlenecks is comparable to Reno over 1")
        .test("at 75 and 80 %, the mean fractions of Sync-TCP over 3 bottlenecks and of Reno over \
               1 differ by at most 2 percentage points (our choice)")
        .asks(|r| {
            Finding::together(ADDED.map(|(load, [_, three])| {
                let (sync, reno) = (Curve::several(three, SYNC), Curve::one(load, RENO));
                let pairs = sync.level(r).pairs(&reno.level(r));
                let what = format!(
                    "{load} %, Sync-TCP over 3 bottlenecks and Reno over 1, mean fraction"
                );
                Finding::of_pairs(what, &pairs, same(&pairs, COMPARABLE))
                    .unless(collapsed(r, [&sync, &reno]))
            }))
        }),
    claim("sync-drift-harmless", "Sync-TCP §5.3, figure 15", &[ONE, DRIFT])
        .says("there is no large difference between runs with and without clock drift")
        .test(
            "at 75, 80 and 85 %, the fractions of responses above 25 kB within 1, 2, ..., 20 s \
             differ by at most 2 percentage points (our choice) between runs with and without \
             drift. Smaller responses end before a clock has drifted and before Sync-TCP can \
             react. The test applies only if at least half (our choice) of the window reductions \
             are early, which means before any loss",
        )
        .asks(|r| {
            Finding::together(["75", "80", "85"].map(|load| {
                let (drifting, steady) = (Curve::drift(load), Curve::one(load, SYNC));
                let fractions = |s: f64| large_within(r, &drifting, s).pairs(&large_within(r, &steady, s));
                let verdict =
                    all((1..=LARGE_SECONDS).map(|s| same(&fractions(f64::from(s)), COMPARABLE)));
                let curves = [&drifting, &steady];
                let shown = [1.0, 5.0, 20.0].map(|s| {
                    let what = format!("{load} %, fraction within {s} s, with and without drift");
                    Finding::of_pairs(what, &fractions(s), verdict)
                });
                let missed = collapsed(r, curves).into_iter().chain(curves.into_iter().filter_map(|c| rarely_early(r, c)));
                Finding::together(shown).unless(missed.collect())
            }))
        }),
    claim("sync-drift-few-long", "Sync-TCP §5.3", &[ONE])
        .says("at 95 % load, 97 % of the responses above 25 kB finish in under 28 s")
        .test("at 85 % load, 95 to 99 % (our choice) of the responses above 25 kB finish within 28 \
               s")
        .cause("With QUIC at 85 %, large responses complete sooner than in the paper: 99.6 % of \
                them within 28 s.")
        .asks(|r| {
            let curve = Curve::one("85", SYNC);
            let within = large_within(r, &curve, 28.0).beside(0.97);
            Finding::of_pairs("fraction within 28 s here and in the paper", &within, same(&within, COMPARABLE)).unless(collapsed(r, [&curve]))
        }),
    claim("sync-mix-by-parts", "Sync-TCP §5.4, figure 16", &[ONE, MIX])
        .says("the more connections use Reno, the closer the response times are to those of Reno \
               alone")
        .test(
            "as the share of Reno grows from 0 % to 20, 40, 60, 80 and 100 %, the mean fraction \
             never rises by more than 0.5 percentage points (our choice). The mean fraction is \
             smaller with Reno alone than with Sync-TCP alone",
        )
        .asks(|r| {
            let mixes = MIXES.iter().rev().map(|mix| Curve::mix(mix, "forward"));
            rising(r, [Curve::one("85", RENO)].into_iter().chain(mixes).chain([Curve::one("85", SYNC)]))
        }),
    claim("sync-mix-little-helps", "Sync-TCP §5.4, figure 16", &[ONE, MIX])
        .says("a share of 20 % Sync-TCP connections already improves the overall performance")
        .test("the mean fraction of all connections is larger with 20 % Sync-TCP than with Reno \
               alone")
        .asks(|r| higher(r, &Curve::mix("80% Reno", "forward"), &Curve::one("85", RENO), "80 % Reno and Reno alone")),
    claim("sync-mix-reno-unharmed", "Sync-TCP §5.4, figure 17", &[ONE, MIX])
        .says("Sync-TCP has no detrimental effect on Reno connections that share the link")
        .test("in every mix and from 100 to 1500 ms, the Reno connections' fraction of completed \
               responses is never more than 0.5 percentage points (our choice) below the fraction of Reno alone")
        .asks(|r| {
            beside_in_mixes(|what, beside, alone| {
                Finding { verdict: nowhere_below(r, beside, alone, &TIMES), ..higher(r, beside, alone, what) }
                    .unless(collapsed(r, [beside, alone]))
            })
        }),
    claim("sync-mix-reno-improves", "Sync-TCP §5.4, figure 17", &[ONE, MIX])
        .says("adding Sync-TCP improves the performance of the Reno connections")
        .test("in every mix, the mean fraction of the Reno connections is larger than that of Reno \
               alone")
        .asks(|r| beside_in_mixes(|what, beside, alone| higher(r, beside, alone, what))),
    claim("sync-mix-sync-grows", "Sync-TCP §5.4, figure 18", &[ONE, MIX])
        .says("the more connections use Sync-TCP, the better the Sync-TCP connections perform")
        .test(
            "as the share of Reno falls from 80 % to 60, 40, 20 and 0 %, the Sync-TCP connections' \
             mean fraction never falls by more than 0.5 percentage points (our choice). Their mean \
             fraction is larger with Sync-TCP alone than with 80 % Reno",
        )
        .asks(|r| {
            let mixes = MIXES.iter().rev().map(|mix| Curve::mix(mix, MIXED_SYNC));
            rising(r, mixes.chain([Curve::one("85", SYNC)]))
        }),
    claim("sync-mix-sync-gains", "Sync-TCP §5.4, figure 18", &[ONE, MIX])
        .says("with 20 % Sync-TCP, the Sync-TCP connections perform better than if they had used \
               Reno")
        .test("with 20 % Sync-TCP, the mean fraction of the Sync-TCP connections is larger than \
               that of Reno alone")
        .asks(|r| {
            let sync = Curve::mix("80% Reno", MIXED_SYNC);
            higher(r, &sync, &Curve::one("85", RENO), "Sync-TCP beside 80 % Reno, and Reno alone")
        }),
    claim("sync-mix-few-detect", "Sync-TCP §5.4", &[MIX])
        .says("with 20 % Sync-TCP, only 1 % of all connections use early detection: the Sync-TCP \
               connections whose responses are above 25 kB")
        .test("with 20 % Sync-TCP, 0.7 to 1.3 % (our choice) of all responses are above 25 kB and \
               on Sync-TCP connections")
        .asks(|r| {
            let curve = Curve::mix("80% Reno", MIXED_SYNC);
            let part = curve.by_seed(r, |o| large_percent(o, MIXED_SYNC)).beside(1.0);
            Finding::of_pairs("percentage of all responses here and in the paper", &part, same(&part, 0.3)).unless(collapsed(r, [&curve]))
        }),
];

/// Minimum fraction of early window reductions for a claim about early detection. Our choice.
const EARLY: f64 = 0.5;

/// Returns a reason if most of a curve's window reductions answer losses, because a disturbance of
/// early detection would then hardly show.
fn rarely_early(r: &Results, curve: &Curve) -> Option<Reason> {
    let early = |o: &Outcome| {
        let group = o.groups.get(curve.group)?;
        let all = group.early_reductions + group.loss_reductions;
        (all > 0).then(|| group.early_reductions as f64 / all as f64)
    };
    let part = r.by_seed(curve.study, &curve.key, early).estimate()?.mean;
    let drifts = if curve.study == DRIFT { "with drift" } else { "without drift" };
    let load = curve.key.first().map_or("", |(_, load)| load);
    let run = format!("{load} % load {drifts} ({:.0} %)", 100.0 * part);
    (part < EARLY).then(|| Reason::of(run, "fewer than half of the window reductions are early"))
}

/// A load of §5.2, with its cases of two and three bottlenecks.
type Added = (&'static str, [&'static str; 2]);

const ADDED: [Added; 2] = [("75", [TWO_AT_75, THREE_AT_75]), ("80", [TWO_AT_80, THREE_AT_80])];

/// Returns a system's curves over one, two and three bottlenecks.
fn added((load, [two, three]): Added, system: &'static str) -> [Curve; 3] {
    [Curve::one(load, system), Curve::several(two, system), Curve::several(three, system)]
}

/// Tests whether the mean fraction of `a` is larger than that of `b`.
fn higher(r: &Results, a: &Curve, b: &Curve, what: &str) -> Finding {
    fraction_is_more(r, &format!("{what}, mean fraction"), &TIMES, [a, b])
        .unless(collapsed(r, [a, b]))
}

/// Tests at both loads whether the system's mean fraction is larger over the first number of
/// bottlenecks than over the second.
fn by_bottlenecks(r: &Results, system: &'static str, steps: [(usize, usize); 2]) -> Finding {
    let cases = ADDED.into_iter().flat_map(|load| steps.map(|step| (load, step)));
    Finding::together(cases.map(|(load, (a, b))| {
        let curves = added(load, system);
        higher(r, &curves[a - 1], &curves[b - 1], &format!("{} %, {a} and {b} bottlenecks", load.0))
    }))
}

/// Compares Reno's connections with those of Reno alone, in every mix.
fn beside_in_mixes(judge: impl Fn(&str, &Curve, &Curve) -> Finding) -> Finding {
    Finding::together(MIXES.map(|mix| {
        judge(
            &format!("Reno in the mix '{mix}' and Reno alone"),
            &Curve::mix(mix, "forward/reno"),
            &Curve::one("85", RENO),
        )
    }))
}

/// Tests whether levels along a row of curves never fall, and rise from the first to the last.
fn rising(r: &Results, row: impl Iterator<Item = Curve>) -> Finding {
    let row: Vec<Curve> = row.collect();
    let missed = collapsed(r, &row);
    let row: Vec<_> = row.into_iter().map(|curve| (curve.level(r), curve.name)).collect();
    let (Some((first, _)), Some((last, _))) = (row.first(), row.last()) else {
        return Finding::together([]);
    };
    let steps = row.windows(2).map(|two| no_less(&two[1].0.pairs(&two[0].0), TOLERATED));
    let verdict = all(steps.chain([more(&last.pairs(first))]));
    let levels: Vec<String> = row.iter().map(|(level, name)| format!("{name} {level}")).collect();
    Finding::new(verdict, format!("mean fractions: {}", levels.join(", "))).unless(missed)
}
