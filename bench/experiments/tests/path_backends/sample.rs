//! Results of the probes on one path, and the comparison of two samples.

use std::fmt::Write as _;

use fathom_metrics::{homogeneity, kolmogorov_smirnov, two_proportions};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::feature::{Feature, Measure, PAYLOAD};

/// Longest sequence of consecutive losses with a count of its own. Longer sequences are counted as
/// this long.
const LONGEST: usize = 30;

/// Returns the contents of a probe: its number, repeated.
pub(crate) fn contents(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(PAYLOAD / 4)
}

/// Returns the number of a probe, and whether the contents are unchanged. The number is right even
/// if one bit is changed.
fn number_of(contents: &[u8]) -> (u32, bool) {
    let word = |place: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| contents[4 * place + i]));
    let number = if word(0) == word(1) { word(0) } else { word(2) };
    (number, contents.chunks(4).all(|chunk| chunk == number.to_le_bytes()))
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    number: u32,
    at: u64,
    unharmed: bool,
}

/// Times at which probes were sent, and arrivals, both in order. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    sent: Vec<u64>,
    came: Vec<Arrival>,
}

impl Sample {
    /// Records that the next probe is sent, and returns its contents.
    pub(crate) fn on_sent(&mut self, now: u64) -> Vec<u8> {
        self.sent.push(now);
        contents(self.sent.len() as u32 - 1)
    }

    /// Records the arrival of a probe.
    pub(crate) fn on_arrival(&mut self, now: u64, contents: &[u8]) {
        let (number, unharmed) = number_of(contents);
        self.came.push(Arrival { number, at: now, unharmed });
    }

    /// Returns the delay of each probe until its first arrival; `None` if the probe was lost.
    fn delays(&self) -> Vec<Option<u64>> {
        let mut delays = vec![None; self.sent.len()];
        for Arrival { number, at, .. } in &self.came {
            let delay = &mut delays[*number as usize];
            *delay = delay.or_else(|| at.checked_sub(self.sent[*number as usize]));
        }
        delays
    }

    /// Returns, in ascending order, the delays of this sample of the plain path above the smallest
    /// delay of `plain`.
    pub(crate) fn noise(&self, plain: &Self) -> Vec<i64> {
        let base = plain.delays().into_iter().flatten().min().unwrap_or(0) as i64;
        let mut noise: Vec<i64> =
            self.delays().into_iter().flatten().map(|delay| delay as i64 - base).collect();
        noise.sort_unstable();
        noise
    }

    fn lost(&self) -> Vec<bool> {
        self.delays().iter().map(Option::is_none).collect()
    }

    /// Returns the number of sequences of consecutive losses, by length.
    fn bursts(&self) -> Vec<u64> {
        let mut counts = vec![0; LONGEST];
        for row in self.lost().split(|lost| !lost).filter(|row| !row.is_empty()) {
            counts[row.len().min(LONGEST) - 1] += 1;
        }
        counts
    }

    /// Returns the number of probes that arrived after a probe sent later. For duplicated probes
    /// the first arrival counts.
    pub(crate) fn overtaken(&self) -> usize {
        let (mut seen, mut last, mut overtaken) = (vec![false; self.sent.len()], 0, 0);
        for Arrival { number, .. } in &self.came {
            if !std::mem::replace(&mut seen[*number as usize], true) {
                overtaken += usize::from(*number < last);
                last = last.max(*number);
            }
        }
        overtaken
    }

    fn duplicated(&self) -> usize {
        let mut times = vec![0; self.sent.len()];
        self.came.iter().for_each(|arrival| times[arrival.number as usize] += 1);
        times.iter().filter(|times| **times > 1).count()
    }

    fn corrupted(&self) -> usize {
        let mut unharmed = vec![false; self.sent.len()];
        self.came.iter().for_each(|arrival| unharmed[arrival.number as usize] |= arrival.unharmed);
        unharmed.iter().filter(|unharmed| !**unharmed).count()
    }

    /// Writes the sample as two lines, for [`Sample::read`].
    pub(crate) fn write(&self, text: &mut String) {
        for sent in &self.sent {
            write!(text, "{sent} ").unwrap();
        }
        text.push('\n');
        for Arrival { number, at, unharmed } in &self.came {
            write!(text, "{number} {at} {} ", u8::from(*unharmed)).unwrap();
        }
        text.push('\n');
    }

    pub(crate) fn read<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Self {
        let mut numbers = || -> Vec<u64> {
            lines.next().unwrap().split_whitespace().map(|number| number.parse().unwrap()).collect()
        };
        let sent = numbers();
        let came = numbers();
        let arrival = |n: &[u64]| Arrival { number: n[0] as u32, at: n[1], unharmed: n[2] == 1 };
        Self { sent, came: came.chunks(3).map(arrival).collect() }
    }
}

/// Comparison of two samples.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// Value of the second sample.
    pub(crate) value: String,
    pub(crate) p_value: f64,
}

/// Returns a measure of a sample as text.
pub(crate) fn value(feature: &Feature, measure: Measure, sample: &Sample) -> String {
    match measure {
        Measure::Delay => {
            let mut delays: Vec<u64> = sample.delays().into_iter().flatten().collect();
            delays.sort_unstable();
            let ms = |q: f64| delays[((delays.len() - 1) as f64 * q) as usize] as f64 / 1e6;
            format!("{:.1}, {:.1} ms", ms(0.5), ms(0.95))
        }
        Measure::Bursts => {
            let counts = sample.bursts();
            let rows: u64 = counts.iter().sum();
            let lost: u64 = counts.iter().zip(1..).map(|(count, length)| count * length).sum();
            format!("{rows} of {:.2} each", lost as f64 / rows.max(1) as f64)
        }
        _ => format!("{:.2} %", 100.0 * hits(measure, sample) / f64::from(feature.probes)),
    }
}

fn hits(measure: Measure, sample: &Sample) -> f64 {
    let count = match measure {
        Measure::Lost => sample.lost().into_iter().filter(|lost| *lost).count(),
        Measure::Overtaken => sample.overtaken(),
        Measure::Duplicated => sample.duplicated(),
        Measure::Corrupted => sample.corrupted(),
        Measure::Delay | Measure::Bursts => unreachable!("no proportion"),
    };
    count as f64
}

/// Compares a sample of virtual time with another sample, in which the machine added one value of
/// `noise` to each delay.
pub(crate) fn compare(
    feature: &Feature,
    measure: Measure,
    samples: [&Sample; 2],
    noise: &[i64],
) -> Comparison {
    let test = match measure {
        Measure::Delay => {
            let mut rng = Pcg64Mcg::seed_from_u64(1);
            let thinned = |sample: &Sample| -> Vec<f64> {
                sample
                    .delays()
                    .into_iter()
                    .step_by(feature.delays_depend)
                    .flatten()
                    .map(|delay| delay as f64)
                    .collect()
            };
            let mut expected = thinned(samples[0]);
            expected
                .iter_mut()
                .for_each(|delay| *delay += noise[rng.random_range(0..noise.len())] as f64);
            kolmogorov_smirnov(
                &expected,
                &thinned(samples[1]),
                feature.resolution.as_nanos() as f64,
            )
        }
        Measure::Bursts => homogeneity(&samples[0].bursts(), &samples[1].bursts()),
        Measure::Lost | Measure::Overtaken | Measure::Duplicated | Measure::Corrupted => {
            let depend = match measure {
                Measure::Lost => feature.losses_depend,
                Measure::Overtaken => feature.places_depend as f64,
                _ => 1.0,
            };
            let of = samples.map(|sample| sample.sent.len() as f64 / depend);
            two_proportions(samples.map(|sample| hits(measure, sample) / depend), of)
        }
    };
    let test = test.unwrap_or_else(|| panic!("{}: too few probes for {measure:?}", feature.name));
    Comparison { value: value(feature, measure, samples[1]), p_value: test.p_value }
}
