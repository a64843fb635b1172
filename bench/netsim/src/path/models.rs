//! Traces made by models of wireless links, for who has no recording. A model's trace is a pure function of seed and length.
//!
//! They are models: they have the features that published measurements name (outages, bursts, steps), with the constants stated below; no
//! recording is shipped. Recordings in Mahimahi's format are read as they are.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::trace::{OPPORTUNITY_BYTES, Trace};

/// A model of a link.
#[derive(Clone, Copy)]
pub struct Model {
    /// Its name: `--trace model:NAME`.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Where its features and constants are from.
    pub source: &'static str,
    make: fn(&mut Pcg64Mcg, u32) -> Vec<u32>,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Every model.
pub const MODELS: &[Model] = &[
    Model {
        name: "lte",
        about: "cellular downlink: Poisson deliveries whose rate wanders, with outages",
        source: "after the model by which Sprout infers a link (Winstein, Sivaraman, Balakrishnan, NSDI 2013, section 3.1): deviation of 200 \
                 packets/s per root second, outages of 1 s in the mean, at most 1000 packets/s; ours: the walk is reflected at 50 packets/s, and \
                 outages come every 30 s in the mean, where Sprout's walk stays at zero for as long as most of its time",
        make: lte,
    },
    Model {
        name: "wifi",
        about: "802.11n, two streams on 20 MHz: bursts of aggregated frames between other stations' turns, a rate that adapts",
        source: "IEEE 802.11-2016: MCS 8 to 15 (13 to 130 Mbps), at most 64 frames per A-MPDU, PPDUs of at most 5.484 ms; the number of other \
                 stations (0 to 4, a change every 2 s) and their turns (1 ms in the mean) are ours",
        make: wifi,
    },
    Model {
        name: "leo",
        about: "LEO satellite downlink: a new rate every 15 s, with a short outage at each change",
        source: "reconfiguration every 15 s: Mohan et al., A Multifaceted Look at Starlink Performance (WWW 2024); the rate's distribution \
                 (median 120 Mbps, log-normal with a deviation of .4, from 20 to 300 Mbps), its 10 % of noise per 20 ms and outages of 50 ms \
                 in the mean are ours",
        make: leo,
    },
];

impl Model {
    /// The model of this name.
    ///
    /// # Errors
    /// One line that lists the models.
    pub fn named(name: &str) -> Result<&'static Self, String> {
        MODELS.iter().find(|model| model.name == name).ok_or_else(|| {
            let known: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
            format!(
                "'{}' is no model of a link; write one of {}",
                name.escape_debug(),
                known.join(", ")
            )
        })
    }

    /// A trace of this length, in whole seconds, at least one.
    pub fn trace(&self, seed: u64, length: Duration) -> Trace {
        let seconds = u32::try_from(length.as_secs()).unwrap_or(u32::MAX).clamp(1, 3_600);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut opportunities = (self.make)(&mut rng, seconds * 1_000);
        // The last line is the trace's length.
        opportunities.push(seconds * 1_000);
        Trace::new(opportunities).expect("models make ordered opportunities that end after zero")
    }
}

/// A normal variable, by Box and Muller.
fn normal(rng: &mut Pcg64Mcg) -> f64 {
    let (radius, turn) = (1.0 - rng.random::<f64>(), rng.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

/// An exponential variable of this mean.
fn exponential(rng: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * (1.0 - rng.random::<f64>()).ln()
}

/// Constants of the cellular model.
mod cellular {
    /// Deviation of the rate's random walk, packets/s per root second (Sprout).
    pub(super) const SIGMA: f64 = 200.0;
    /// Largest rate, packets/s (Sprout).
    pub(super) const MOST: f64 = 1_000.0;
    /// Smallest rate, packets/s (ours): 0.6 Mbps.
    pub(super) const LEAST: f64 = 50.0;
    /// Mean length of an outage in seconds: Sprout's rate of escape.
    pub(super) const OUTAGE: f64 = 1.0;
    /// Mean time between outages in seconds (ours).
    pub(super) const BETWEEN: f64 = 30.0;
    /// A step, in milliseconds (Sprout).
    pub(super) const TICK: u32 = 20;
}

fn lte(rng: &mut Pcg64Mcg, length: u32) -> Vec<u32> {
    use cellular::{BETWEEN, LEAST, MOST, OUTAGE, SIGMA, TICK};
    let tick = f64::from(TICK) * 1e-3;
    let mut rate = LEAST + rng.random::<f64>() * (MOST - LEAST);
    let mut outage_until = 0.0;
    let mut next_outage = exponential(rng, BETWEEN);
    let mut opportunities = Vec::new();
    for start in (0..length).step_by(TICK as usize) {
        rate += SIGMA * tick.sqrt() * normal(rng);
        // Reflected at both ends.
        rate = if rate > MOST {
            2.0 * MOST - rate
        } else if rate < LEAST {
            2.0 * LEAST - rate
        } else {
            rate
        };
        let now = f64::from(start) * 1e-3;
        if now >= next_outage {
            outage_until = now + exponential(rng, OUTAGE);
            next_outage = outage_until + exponential(rng, BETWEEN);
        }
        if now < outage_until {
            continue;
        }
        let mut at = exponential(rng, 1_000.0 / rate);
        while at < f64::from(TICK) {
            let ms = start + at as u32;
            if ms < length {
                opportunities.push(ms);
            }
            at += exponential(rng, 1_000.0 / rate);
        }
    }
    opportunities
}

fn wifi(rng: &mut Pcg64Mcg, length: u32) -> Vec<u32> {
    // Mbps of MCS 8 to 15 at 20 MHz and a guard interval of 800 ns.
    const RATES: [f64; 8] = [13.0, 26.0, 39.0, 52.0, 78.0, 104.0, 117.0, 130.0];
    const FRAMES: f64 = 64.0;
    const LONGEST_MS: f64 = 5.484;
    // DIFS, half of the smallest contention window, preamble and block acknowledgement.
    const OVERHEAD_MS: f64 = 0.25;
    let (mut at, mut step, mut others) = (0.0, 5usize, 1u32);
    let (mut next_step, mut next_others) = (100.0, 2_000.0);
    let mut opportunities = Vec::new();
    let frame_bits = f64::from(OPPORTUNITY_BYTES) * 8.0;
    while at < f64::from(length) {
        if at >= next_step {
            next_step += 100.0;
            match rng.random_range(0..4u32) {
                0 => step = step.saturating_sub(1),
                1 => step = (step + 1).min(RATES.len() - 1),
                _ => {}
            }
        }
        if at >= next_others {
            next_others += 2_000.0;
            others = rng.random_range(0..=4u32);
        }
        at += OVERHEAD_MS + (0..others).map(|_| exponential(rng, 1.0)).sum::<f64>();
        let bits_per_ms = RATES[step] * 1_000.0;
        let frames = (bits_per_ms * LONGEST_MS / frame_bits).floor().clamp(1.0, FRAMES);
        at += frames * frame_bits / bits_per_ms;
        // Frames go up the stack in order, when the burst is over.
        let ms = at as u32;
        if ms < length {
            opportunities.extend(std::iter::repeat_n(ms, frames as usize));
        }
    }
    opportunities
}

fn leo(rng: &mut Pcg64Mcg, length: u32) -> Vec<u32> {
    const SLOT: u32 = 15_000;
    const TICK: u32 = 20;
    let mut opportunities = Vec::new();
    let (mut mbps, mut outage_until, mut noise) = (0.0, 0.0, 1.0);
    let mut credit = 0.0;
    for ms in 0..length {
        if ms % SLOT == 0 {
            mbps = (120.0 * (0.4 * normal(rng)).exp()).clamp(20.0, 300.0);
            outage_until = f64::from(ms) + if ms == 0 { 0.0 } else { exponential(rng, 50.0) };
        }
        if ms % TICK == 0 {
            noise = (1.0 + 0.1 * normal(rng)).max(0.2);
        }
        if f64::from(ms) < outage_until {
            continue;
        }
        credit += mbps * noise * 1_000.0 / (f64::from(OPPORTUNITY_BYTES) * 8.0);
        while credit >= 1.0 {
            opportunities.push(ms);
            credit -= 1.0;
        }
    }
    opportunities
}

#[cfg(test)]
mod tests {
    use fathom_units::Rate;

    use super::*;

    #[test]
    fn a_model_s_trace_is_one_of_its_seed() {
        for model in MODELS {
            let trace = |seed| model.trace(seed, Duration::from_secs(30));
            assert!(trace(1) == trace(1) && trace(1) != trace(2), "{model:?}");
            assert_eq!(Trace::read(&trace(1).to_text()).unwrap(), trace(1));
        }
        assert!(Model::named("5g").unwrap_err().contains("lte, wifi, leo"));
    }

    #[test]
    fn mean_rates_are_those_of_the_models() {
        let mean = |name: &str| {
            let all = (0..20).map(|seed| {
                Model::named(name).unwrap().trace(seed, Duration::from_secs(60)).mean_rate()
            });
            all.map(Rate::bits_per_sec).sum::<u64>() as f64 / 20e6
        };
        let (lte, wifi, leo) = (mean("lte"), mean("wifi"), mean("leo"));
        // An even walk between 0.6 and 12 Mbps; MCS 8 to 15 shared with two others in the mean; a median of 120 Mbps.
        assert!((5.0..7.0).contains(&lte), "{lte}");
        assert!((20.0..80.0).contains(&wifi), "{wifi}");
        assert!((105.0..145.0).contains(&leo), "{leo}");
    }

    #[test]
    fn lte_has_outages_and_leo_has_steps() {
        let gaps = |name: &str| {
            let trace = Model::named(name).unwrap().trace(1, Duration::from_secs(120)).to_text();
            let ms: Vec<u32> = trace.lines().map(|line| line.parse().unwrap()).collect();
            ms.windows(2).map(|w| w[1] - w[0]).max().unwrap()
        };
        assert!((300..10_000).contains(&gaps("lte")), "{}", gaps("lte"));
        assert!((10..1_000).contains(&gaps("leo")), "{}", gaps("leo"));
    }
}
