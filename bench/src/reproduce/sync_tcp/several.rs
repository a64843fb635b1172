//! What the text says of several bottlenecks, of drifting clocks and of mixes (Sync-TCP §5.2 to §5.4), as predicates.

use super::super::claims::{ClaimCheck, FRACTION_MARGIN, Finding, all, more, no_less, same, shown, together};
use super::claims::{TIMES, better, crossovers, finding, fractions, large_within, levels};
use super::*;

const SEVERAL_ONLY: &[&str] = &[SEVERAL];
const WITH_ONE: &[&str] = &[ONE, SEVERAL];
const DRIFTING: &[&str] = &[ONE, DRIFT];
const MIXED: &[&str] = &[ONE, MIX];
/// Difference of fractions up to which curves are "comparable" or differ by nothing "large". Ours.
const COMPARABLE: f64 = 0.02;

pub(super) const CLAIMS: &[ClaimCheck] = &[
    ClaimCheck {
        id: "sync-several-better",
        source: "Sync-TCP §5.2, figures 11 and 12",
        says: "at 75 % load over 2 and 3 bottlenecks Sync-TCP still performs better than the other two",
        test: "within 100 to 1500 ms: nowhere half a percent (ours) below either, and more in the mean",
        studies: SEVERAL_ONLY,
        predicate: several_better,
    },
    ClaimCheck {
        id: "sync-several-crossover",
        source: "Sync-TCP §5.2, figures 6, 11 and 12",
        says: "the crossing of Reno and SACK-ARED-ECN shifts: the more bottlenecks, the better SACK-ARED-ECN beside Reno",
        test: "at 75 % it falls behind Reno later with 2 bottlenecks than with 1, and with 3 than with 2",
        studies: WITH_ONE,
        predicate: several_crossover,
    },
    ClaimCheck {
        id: "sync-several-reno-degrades",
        source: "Sync-TCP §5.2",
        says: "with Reno, performance degrades as congested links are added",
        test: "its mean fraction within 100 to 1500 ms falls from 1 to 2 and from 2 to 3 bottlenecks, at 75 and 90 %",
        studies: WITH_ONE,
        predicate: reno_degrades,
    },
    ClaimCheck {
        id: "sync-several-ared-improves",
        source: "Sync-TCP §5.2",
        says: "SACK-ARED-ECN performs better with 3 bottlenecks than with 1 or 2",
        test: "its mean fraction is more with 3 than with 1 and than with 2, at 75 and 90 %",
        studies: WITH_ONE,
        predicate: ared_improves,
    },
    ClaimCheck {
        id: "sync-several-degrades-little",
        source: "Sync-TCP §5.2",
        says: "Sync-TCP degrades only slightly as bottlenecks are added",
        test: "from 1 to 3 bottlenecks its mean fraction falls by no more than 5 % of all (ours), at 75 and 90 %",
        studies: WITH_ONE,
        predicate: sync_degrades_little,
    },
    ClaimCheck {
        id: "sync-several-as-reno-alone",
        source: "Sync-TCP §5.2",
        says: "Sync-TCP over 3 bottlenecks is comparable to Reno over 1",
        test: "its mean fraction is within 2 % of all (ours) of it, at 75 and 90 %",
        studies: WITH_ONE,
        predicate: as_reno_alone,
    },
    ClaimCheck {
        id: "sync-drift-harmless",
        source: "Sync-TCP §5.3, figure 15",
        says: "there is no large difference between runs with and without clock drift",
        test: "within 100 to 1500 ms the fractions differ by no more than 2 % of all (ours), at 75, 90 and 95 %",
        studies: DRIFTING,
        predicate: drift_harmless,
    },
    ClaimCheck {
        id: "sync-drift-few-long",
        source: "Sync-TCP §5.3",
        says: "at 95 % load 97 % of the responses above 25 kB finish in under 28 s",
        test: "within 2 % of all (ours) of it",
        studies: ONE_ONLY,
        predicate: few_long,
    },
    ClaimCheck {
        id: "sync-mix-by-parts",
        source: "Sync-TCP §5.4, figure 16",
        says: "the more Reno, the closer the response times to those of Reno alone",
        test: "from Sync-TCP alone over 20, 40, 60, 80 % Reno to Reno alone the mean fraction never rises by half a percent (ours), and falls \
               from end to end",
        studies: MIXED,
        predicate: mix_by_parts,
    },
    ClaimCheck {
        id: "sync-mix-little-helps",
        source: "Sync-TCP §5.4, figure 16",
        says: "20 % Sync-TCP already improve the overall performance",
        test: "mean fraction of all connections more than with Reno alone",
        studies: MIXED,
        predicate: little_helps,
    },
    ClaimCheck {
        id: "sync-mix-reno-unharmed",
        source: "Sync-TCP §5.4, figure 17",
        says: "Sync-TCP has no detrimental effect on Reno connections beside it",
        test: "in every mix, within 100 to 1500 ms, they are nowhere half a percent (ours) below Reno alone",
        studies: MIXED,
        predicate: reno_unharmed,
    },
    ClaimCheck {
        id: "sync-mix-reno-improves",
        source: "Sync-TCP §5.4, figure 17",
        says: "adding Sync-TCP improves the performance of the Reno connections",
        test: "in every mix their mean fraction is more than Reno's alone",
        studies: MIXED,
        predicate: reno_improves,
    },
    ClaimCheck {
        id: "sync-mix-sync-grows",
        source: "Sync-TCP §5.4, figure 18",
        says: "the performance of the Sync-TCP connections increases with their part",
        test: "from 80 % Reno to Sync-TCP alone their mean fraction never falls by half a percent (ours), and rises from end to end",
        studies: MIXED,
        predicate: sync_grows,
    },
    ClaimCheck {
        id: "sync-mix-sync-gains",
        source: "Sync-TCP §5.4, figure 18",
        says: "with 20 % Sync-TCP its connections do better than if they had used Reno",
        test: "their mean fraction is more than that of Reno alone",
        studies: MIXED,
        predicate: sync_gains,
    },
    ClaimCheck {
        id: "sync-mix-few-detect",
        source: "Sync-TCP §5.4",
        says: "with 20 % Sync-TCP only 1 % of all connections use early detection, those of responses above 25 kB",
        test: "within three tenths of a percent (ours) of it",
        studies: &[MIX],
        predicate: few_detect,
    },
];

const ONE_ONLY: &[&str] = &[ONE];
/// One, two and three bottlenecks at both loads of §5.2.
const ADDED: [(&str, [&str; 2]); 2] =
    [("75", ["75 %, 2 bottlenecks", "75 %, 3 bottlenecks"]), ("90", ["90 %, 2 bottlenecks", "90 %, 3 bottlenecks"])];

/// A system's curves over one, two and three bottlenecks.
fn added(load: &'static str, [two, three]: [&'static str; 2], system: &'static str) -> [Curve; 3] {
    [Curve::one(load, system), Curve::several(two, system), Curve::several(three, system)]
}

/// The mean fraction of `a` is more than that of `b`.
fn higher(r: &Results, a: &Curve, b: &Curve, what: &str) -> Finding {
    let pairs = levels(r, a, b);
    finding(&format!("{what}, mean fraction"), &pairs, more(&pairs, FRACTION_MARGIN))
}

fn several_better(r: &Results) -> Finding {
    let cases = ADDED[0].1.into_iter().flat_map(|case| [RENO, ARED].map(|other| (case, other)));
    together(cases.map(|(case, other)| {
        let what = format!("{case}, Sync-TCP and {other}");
        better(r, &Curve::several(case, SYNC), &Curve::several(case, other), 0.0, &what)
    }))
}

fn several_crossover(r: &Results) -> Finding {
    let (load, cases) = ADDED[0];
    let (ared, reno) = (added(load, cases, ARED), added(load, cases, RENO));
    let [one, two, three] = [0, 1, 2].map(|i| crossovers(r, &ared[i], &reno[i]));
    // Steps of 10 ms: with one seed, later is more than a step.
    let later = |a: &[f64], b: &[f64]| more(&a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>(), 10.0);
    let numbers = [&one, &two, &three].map(|ms| shown(ms.iter().copied()));
    Finding {
        verdict: all([later(&two, &one), later(&three, &two)]),
        numbers: format!("falls behind at {} ms with 1, 2 and 3 bottlenecks", numbers.join(", ")),
    }
}

fn reno_degrades(r: &Results) -> Finding {
    together(ADDED.into_iter().flat_map(|(load, cases)| {
        let [one, two, three] = added(load, cases, RENO);
        let step = |a, b, what| higher(r, a, b, &format!("{load} %, {what} bottlenecks"));
        [step(&one, &two, "1 and 2"), step(&two, &three, "2 and 3")]
    }))
}

fn ared_improves(r: &Results) -> Finding {
    together(ADDED.into_iter().flat_map(|(load, cases)| {
        let [one, two, three] = added(load, cases, ARED);
        let step = |a, b, what| higher(r, a, b, &format!("{load} %, {what} bottlenecks"));
        [step(&three, &one, "3 and 1"), step(&three, &two, "3 and 2")]
    }))
}

fn sync_degrades_little(r: &Results) -> Finding {
    together(ADDED.map(|(load, cases)| {
        let [one, _, three] = added(load, cases, SYNC);
        let pairs = levels(r, &three, &one);
        finding(
            &format!("{load} %, 3 and 1 bottlenecks, mean fraction"),
            &pairs,
            no_less(&pairs, 0.05, FRACTION_MARGIN),
        )
    }))
}

fn as_reno_alone(r: &Results) -> Finding {
    together(ADDED.map(|(load, cases)| {
        let pairs = levels(r, &Curve::several(cases[1], SYNC), &Curve::one(load, RENO));
        let what = format!("{load} %, Sync-TCP over 3 and Reno over 1, mean fraction");
        finding(&what, &pairs, same(&pairs, COMPARABLE, FRACTION_MARGIN))
    }))
}

fn drift_harmless(r: &Results) -> Finding {
    together(["75", "90", "95"].map(|load| {
        let (drifting, steady) = (Curve::drift(load), Curve::one(load, SYNC));
        let verdicts = TIMES.map(|ms| same(&fractions(r, &drifting, &steady, ms), COMPARABLE, 0.0));
        finding(&format!("{load} %, with and without, mean fraction"), &levels(r, &drifting, &steady), all(verdicts))
    }))
}

fn few_long(r: &Results) -> Finding {
    let curve = Curve::one("95", SYNC);
    let within = r.values(curve.study, &curve.key, |o| large_within(o, "forward", 28.0));
    let pairs: Vec<(f64, f64)> = within.into_iter().map(|f| (f, 0.97)).collect();
    finding("fraction within 28 s", &pairs, same(&pairs, COMPARABLE, 0.0))
}

/// Levels along a row of curves never fall, and rise from the first to the last.
fn rising(r: &Results, row: &[Curve]) -> Finding {
    let steps = row.windows(2).map(|two| no_less(&levels(r, &two[1], &two[0]), FRACTION_MARGIN, 0.0));
    let (Some(first), Some(last)) = (row.first(), row.last()) else { return together([]) };
    let verdict = all(steps.chain([more(&levels(r, last, first), FRACTION_MARGIN)]));
    let numbers = row.iter().map(|c| {
        let own = r.values(c.study, &c.key, super::claims::level(c));
        format!("{} {}", c.name, shown(own))
    });
    Finding { verdict, numbers: format!("mean fractions: {}", numbers.collect::<Vec<_>>().join(", ")) }
}

fn mix_by_parts(r: &Results) -> Finding {
    let mixes = MIXES.iter().rev().map(|mix| Curve::mix(mix, "forward"));
    let row: Vec<Curve> = [Curve::one("95", RENO)].into_iter().chain(mixes).chain([Curve::one("95", SYNC)]).collect();
    rising(r, &row)
}

fn little_helps(r: &Results) -> Finding {
    higher(r, &Curve::mix("80% Reno", "forward"), &Curve::one("95", RENO), "80 % Reno and Reno alone")
}

fn reno_unharmed(r: &Results) -> Finding {
    let alone = Curve::one("95", RENO);
    together(MIXES.map(|mix| {
        let beside = Curve::mix(mix, "forward/reno");
        let verdicts = TIMES.map(|ms| no_less(&fractions(r, &beside, &alone, ms), FRACTION_MARGIN, 0.0));
        finding(&format!("{mix}, Reno and Reno alone, mean fraction"), &levels(r, &beside, &alone), all(verdicts))
    }))
}

fn reno_improves(r: &Results) -> Finding {
    let alone = Curve::one("95", RENO);
    together(
        MIXES.map(|mix| higher(r, &Curve::mix(mix, "forward/reno"), &alone, &format!("{mix}, Reno and Reno alone"))),
    )
}

fn sync_grows(r: &Results) -> Finding {
    let mixes = MIXES.iter().rev().map(|mix| Curve::mix(mix, MIXED_SYNC));
    rising(r, &mixes.chain([Curve::one("95", SYNC)]).collect::<Vec<_>>())
}

fn sync_gains(r: &Results) -> Finding {
    let sync = Curve::mix("80% Reno", MIXED_SYNC);
    higher(r, &sync, &Curve::one("95", RENO), "Sync-TCP beside 80 % Reno, and Reno alone")
}

fn few_detect(r: &Results) -> Finding {
    let part = |o: &Outcome| {
        let large = o.groups.get(MIXED_SYNC)?.times_large.as_ref().map_or(0, |t| t.count);
        Some(100.0 * large as f64 / o.groups.get("forward")?.responses as f64)
    };
    let values = r.values(MIX, &[("mix", "80% Reno")], part);
    let pairs: Vec<(f64, f64)> = values.into_iter().map(|v| (v, 1.0)).collect();
    finding("percent of all responses", &pairs, same(&pairs, 0.3, 0.0))
}
