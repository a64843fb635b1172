//! The answer of a study in sentences, for a terminal and for its page.

use fathom_metrics::Estimate;
use fathom_report::{Unit, human};

use super::crossings::{Crossing, Key, PointRanking, Ranking};
use super::swept::Swept;
use crate::measures::{Better, MOST_LEFT_OUT, Measure};
use crate::study::StudyRunResult;
use crate::study::table::by_key;

/// Largest number of sentences about one group. The tables and the JSON document have all points.
const MOST_LINES: usize = 12;
/// Largest number of crossings that are named.
const MOST_CROSSINGS: usize = 6;
/// Largest number of tied systems that are named.
const NAMED: usize = 4;

/// Returns sentences about the system that ranks first at each point, about crossings and about
/// failed requests.
pub(super) fn sentences(ranking: &Ranking<'_>, swept: Option<&Swept<'_>>) -> Vec<String> {
    let with_value: Vec<&PointRanking<'_>> =
        ranking.points.iter().filter(|point| !point.standings.order.is_empty()).collect();
    if with_value.is_empty() {
        let none = format!("{}: no run has a {}.", ranking.of, ranking.measure.name);
        return not_ranked(ranking).map_or_else(|| vec![none], |why| vec![why]);
    }
    let mut lines: Vec<String> = if ranking.systems.len() < 2 {
        trend(ranking, swept, &with_value)
    } else {
        with_value.chunk_by(|a, b| same_line(a, b)).map(|of| segment(ranking, swept, of)).collect()
    };
    let more = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    if more > 0 {
        lines.push(format!("{}: the table shows {more} more points.", ranking.of));
    }
    lines.extend(crossings(ranking, swept));
    lines.extend(not_ranked(ranking));
    lines.extend(failures(ranking));
    lines
}

/// Returns whether two neighbours on the swept axis share a sentence, because they have the same
/// decided first system.
fn same_line(a: &PointRanking<'_>, b: &PointRanking<'_>) -> bool {
    let (of_a, of_b) = (&a.standings, &b.standings);
    let decided = of_a.is_decided() && of_b.is_decided();
    a.beside == b.beside && a.x.is_some() && decided && of_a.first == of_b.first
}

fn segment(ranking: &Ranking<'_>, swept: Option<&Swept<'_>>, of: &[&PointRanking<'_>]) -> String {
    let (first, last) = (of[0], of[of.len() - 1]);
    let measure = ranking.measure;
    let place = place(swept, first, last);
    let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
    let (standings, of_last) = (&first.standings, &last.standings);
    let best = standings.order[0];
    let name = |system: usize| ranking.systems[system].as_str();
    let range = |system: usize| match (standings.estimate(system), of_last.estimate(system)) {
        (Some(a), Some(b)) if of.len() > 1 => {
            format!("{} to {}", human(a.mean, measure.unit), human(b.mean, measure.unit))
        }
        (Some(a), _) => value(&a, measure),
        (None, _) => String::new(),
    };
    let superlative = match measure.better {
        Better::Higher => "highest",
        Better::Lower | Better::Neither => "lowest",
    };
    if standings.is_decided() {
        let next = standings.order.get(1).filter(|_| of.len() == 1).map(|next| {
            let change = standings
                .change(best, *next)
                .map_or_else(String::new, |change| format!(", {}", change.text()));
            format!("; next {}, {}{change}", name(*next), range(*next))
        });
        return format!(
            "{}{at}: {} has the {superlative} {}: {}{}.",
            ranking.of,
            name(best),
            measure.name,
            range(best),
            next.unwrap_or_default()
        );
    }
    let tied: Vec<String> = standings
        .first
        .iter()
        .take(NAMED)
        .map(|system| format!("{} {}", name(*system), range(*system)))
        .collect();
    let more = standings.first.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match (standings.seeds(), standings.first.len()) {
        (0 | 1, _) => format!(
            "{}{at}: undecided, because there is only one seed. In it, the {superlative} {} is \
             that of {}{more}.",
            ranking.of, measure.name, tied[0]
        ),
        (seeds, _) => format!(
            "{}{at}: with {seeds} seeds, it is undecided which of these has the {superlative} {}: \
             {}{more}. The intervals of their differences include zero.",
            ranking.of,
            measure.name,
            tied.join(", ")
        ),
    }
}

/// Returns the values of a single system at both ends of the swept axis. Without a swept axis,
/// returns the values at each point.
fn trend(
    ranking: &Ranking<'_>,
    swept: Option<&Swept<'_>>,
    points: &[&PointRanking<'_>],
) -> Vec<String> {
    let value_at = |point: &PointRanking<'_>| {
        point.standings.estimate(point.standings.order[0]).map(|e| value(&e, ranking.measure))
    };
    let line = |of: &[&PointRanking<'_>]| {
        let (first, last) = (of[0], of[of.len() - 1]);
        let ends = [first, last].map(|point| value_at(point).unwrap_or_default());
        if of.len() > 1 {
            let ends_at = [first, last].map(|point| place(swept, point, point));
            return format!(
                "{}: {} is {} at {} and {} at {}.",
                ranking.of, ranking.measure.name, ends[0], ends_at[0], ends[1], ends_at[1]
            );
        }
        let at = place(swept, first, first);
        let at = if at.is_empty() { at } else { format!(" at {at}") };
        format!("{}: {} is {}{at}.", ranking.of, ranking.measure.name, ends[0])
    };
    points.chunk_by(|a, b| a.beside == b.beside && a.x.is_some()).map(line).collect()
}

/// Returns a range of points in words: `loss 0.0001 to 0.01, queue codel`.
fn place(swept: Option<&Swept<'_>>, first: &PointRanking<'_>, last: &PointRanking<'_>) -> String {
    let x = swept.zip(first.x.zip(last.x)).map(|(swept, (a, b))| match a.0 == b.0 {
        true => format!("{} {}", swept.name, a.0),
        false => format!("{} {} to {}", swept.name, a.0, b.0),
    });
    x.into_iter().chain(beside(&first.beside)).collect::<Vec<_>>().join(", ")
}

fn beside(key: &Key<'_>) -> Option<String> {
    let words: Vec<String> = key.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns a mean with its interval, limited to the bounds of the measure: `86.3 Mbps (60.1 to
/// 112)`.
pub(super) fn value(e: &Estimate, measure: &Measure) -> String {
    let unit = Unit::suiting(measure.unit, e.mean);
    let ends = e.interval_within(&measure.bounds()).filter(|(low, high)| low < high);
    let number = |value: f64| fathom_report::number(fathom_metrics::significant(unit.of(value), 3));
    let interval = ends
        .map_or_else(String::new, |(low, high)| format!(" ({} to {})", number(low), number(high)));
    format!("{}{interval}", unit.text(e.mean))
}

fn crossings(ranking: &Ranking<'_>, swept: Option<&Swept<'_>>) -> Vec<String> {
    let Some(swept) = swept else { return Vec::new() };
    let line = |c: &Crossing<'_>| {
        let (before, after) = (&ranking.systems[c.systems.0], &ranking.systems[c.systems.1]);
        let near = if c.near.is_finite() {
            format!(" near {}", swept.text_at(c.near))
        } else {
            String::new()
        };
        let at = beside(&c.beside).map_or_else(String::new, |beside| format!(" at {beside}"));
        let (from, to) = (format!("{} {}", swept.name, c.between.0), c.between.1);
        if c.is_decided {
            return format!(
                "{}{at}: {before} and {after} cross{near}: {before} is ahead at {from}, and \
                 {after} is ahead at {to}.",
                ranking.of
            );
        }
        format!(
            "{}{at}: the means of {before} and {after} cross{near}. {before} is ahead at {from}, \
             and {after} is ahead at {to}. This is undecided, because an interval of their \
             differences includes zero.",
            ranking.of
        )
    };
    let mut lines: Vec<String> = ranking.crossings.iter().take(MOST_CROSSINGS).map(line).collect();
    let more = ranking.crossings.len().saturating_sub(MOST_CROSSINGS);
    if more > 0 {
        lines.push(format!(
            "{}: {more} more pairs cross or may cross; --json lists them.",
            ranking.of
        ));
    }
    lines
}

/// Returns a sentence that names the systems that are not ranked at some points, because too many
/// of their requests failed there; `None` if there are none.
fn not_ranked(ranking: &Ranking<'_>) -> Option<String> {
    let points = |system: usize| {
        ranking.points.iter().filter(|point| point.standings.misses_failures(system)).count()
    };
    let who: Vec<String> = (ranking.systems.iter().enumerate())
        .filter(|(system, _)| points(*system) > 0)
        .map(|(system, name)| match (name.as_str(), ranking.points.len()) {
            ("", 1) => "the only system".to_owned(),
            (name, 1) => name.to_owned(),
            ("", all) => format!("{} of {all} points", points(system)),
            (name, all) => format!("{name} at {} of {all} points", points(system)),
        })
        .collect();
    (!who.is_empty()).then(|| {
        format!(
            "{}: not ranked, because more than {:.0} % of the requests failed: {}.",
            ranking.of,
            100.0 * MOST_LEFT_OUT,
            who.join(", ")
        )
    })
}

/// Returns a sentence with the number of failed requests of each system if the measure leaves them
/// out.
fn failures(ranking: &Ranking<'_>) -> Option<String> {
    if !ranking.measure.population.leaves_failures_out() {
        return None;
    }
    let failed = |system: &usize| {
        ranking.points.iter().map(|point| point.standings.failed(*system)).sum::<u64>()
    };
    let who: Vec<String> = (0..ranking.systems.len())
        .filter(|system| failed(system) > 0)
        .map(|system| match ranking.systems[system].as_str() {
            "" => format!("{}", failed(&system)),
            name => format!("{name} {}", failed(&system)),
        })
        .collect();
    (!who.is_empty()).then(|| {
        format!(
            "{}: requests failed ({}), and the measure excludes failed requests.",
            ranking.of,
            who.join(", ")
        )
    })
}

/// Returns a warning about the seeds if there is only one seed, or if several seeds gave the same
/// run.
pub(super) fn of_seeds(results: &[StudyRunResult]) -> Option<String> {
    let keys = by_key(results);
    let most = keys.iter().map(|(_, of)| of.len()).max().unwrap_or(0);
    if most < 2 {
        return Some(
            "One seed is not a result: another seed may give a very different value (--seeds 5)."
                .into(),
        );
    }
    let equal = |of: &Vec<&StudyRunResult>| {
        of.len() > 1
            && of.iter().all(|result| result.outcome.trace_hash == of[0].outcome.trace_hash)
    };
    let same = keys.iter().filter(|(_, of)| equal(of)).count();
    match (same, keys.len()) {
        (0, _) => None,
        (same, all) if same == all => Some(
            "All seeds gave the same runs, because nothing in them is random. The intervals have \
             no meaning."
                .into(),
        ),
        (same, all) => Some(format!(
            "In {same} of {all} combinations, all seeds gave the same run, because nothing in the \
             run is random. The intervals of these combinations have no meaning."
        )),
    }
}
