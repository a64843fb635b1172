//! HighSpeed TCP (RFC 3649): Reno with an increase a(w) and a decrease b(w) that depend on the
//! window.
//!
//! Up to a window of 38 datagrams, it is Reno. Above 38 datagrams, a single flow can fill a fast
//! link with a much higher loss rate than Reno.
//!
//! [`increase`] reads a table that is computed at compile time from the formulas below and
//! [`crate::math`], so it has the same bits on every platform. The knots of the table are a
//! sixteenth of an octave apart, with linear interpolation between them. A test checks that the
//! table is within 0.02 % of the formula.
//!
//! Departures:
//! - **Formula, not table**: RFC 3649 §B tabulates integer values of a(w), computed with p(w) = 1
//!   / (12.8 w^1.2). Here a(w) is not rounded, and p(w) = 0.078 / w^1.2 as in RFC 3649 §5, which
//!   is 0.16 % less. The result is within 0.05 of every row of the table.
//! - **Just above 38 datagrams**, the formula gives less than Reno's one datagram (0.955 at 38, 1
//!   at 41). Here, the increase is at least one.
//! - **Beyond 100 000 datagrams**, where the RFC's table ends, a(w) and b(w) stay constant. The
//!   formula for b(w) reaches zero at 567 000.
//! - **Per byte, not per ACK**: [`Aimd::grow_additive`] spreads a(w) over the bytes of a round.
//! - **Fractions**: a(w) and b(w) are in units of 1/65536.

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Page};
use crate::event::AckEvent;
use crate::math::{exp, ln};
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

/// Low_Window in datagrams (RFC 3649 §5).
pub const LOW_WINDOW: f64 = 38.0;
/// High_Window in datagrams (RFC 3649 §5).
pub const HIGH_WINDOW: f64 = 83_000.0;
/// b(Low_Window), which is Reno's decrease (RFC 3649 §7).
pub const LOW_DECREASE: f64 = 0.5;
/// Factor and exponent of the response function p(w) = 0.078 / w^1.2 (RFC 3649 §5).
pub const RESPONSE: (f64, f64) = (0.078, 1.2);
/// High_Decrease: b(High_Window) (RFC 3649 §7).
pub const HIGH_DECREASE: f64 = 0.1;
/// End of the table of RFC 3649 §B, in datagrams.
pub const LAST_WINDOW: f64 = 100_000.0;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "highspeed",
    summary: "HighSpeed TCP: Reno that grows faster and is cut less at larger windows",
    source: "RFC 3649 §5",
    page: PAGE,
    ..Algorithm::of_rule::<HighSpeedConfig>()
};

rule_options! {
    /// The configuration `highspeed`.
    pub struct HighSpeedConfig {}
}

/// Returns p(w) = 0.078 / w^1.2: the loss rate at which the average window is `w` datagrams
/// (RFC 3649 §5).
pub const fn p(w: f64) -> f64 {
    RESPONSE.0 * exp(-RESPONSE.1 * ln(w))
}

/// Returns b(w): the share of the window that a loss takes away. It falls from 0.5 at Low_Window
/// linearly in log w (RFC 3649 §7).
pub const fn b(w: f64) -> f64 {
    decrease(w.clamp(LOW_WINDOW, LAST_WINDOW))
}

/// Returns a(w) = 2 w² b(w) p(w) / (2 - b(w)): growth in datagrams per round trip (RFC 3649 §7).
pub const fn a(w: f64) -> f64 {
    growth(w.clamp(LOW_WINDOW, LAST_WINDOW)).max(1.0)
}

/// Returns b(w), also beyond the ends of its range.
const fn decrease(w: f64) -> f64 {
    (HIGH_DECREASE - LOW_DECREASE) * (ln(w) - ln(LOW_WINDOW)) / (ln(HIGH_WINDOW) - ln(LOW_WINDOW))
        + LOW_DECREASE
}

/// Returns a(w), also beyond the ends of its range.
const fn growth(w: f64) -> f64 {
    2.0 * w * w * decrease(w) * p(w) / (2.0 - decrease(w))
}

/// The number one in the fixed-point fractions of this file.
const UNIT: u32 = 1 << 16;
/// Windows are looked up in units of 1/256 datagram (8 bits).
const FINE: u32 = 8;
/// The table begins at 2^5 datagrams and covers twelve octaves with 2^4 knots each; the last knot
/// is at 2^17.
const FIRST_OCTAVE: u32 = 5;
const OCTAVES: usize = 12;
const KNOT_BITS: u32 = 4;
const KNOTS: usize = 1 << KNOT_BITS;

/// Increases at the knots, in 1/65536 datagram. The knots next to the ends of the formula's range
/// follow the formula beyond the range, so that the interpolation is correct up to the ends.
static INCREASES: [u32; OCTAVES * KNOTS + 1] = increases();

const fn increases() -> [u32; OCTAVES * KNOTS + 1] {
    let mut table = [0; OCTAVES * KNOTS + 1];
    let mut knot = 0;
    while knot < table.len() {
        let w = ((KNOTS + knot % KNOTS) << (knot / KNOTS + FIRST_OCTAVE as usize)) as f64
            / KNOTS as f64;
        table[knot] = (growth(w) * UNIT as f64 + 0.5) as u32;
        knot += 1;
    }
    table
}

/// Returns a(w) from the table for a window in bytes: growth in datagrams per round trip. The
/// result is exactly one up to [`LOW_WINDOW`] and slightly beyond.
pub fn increase(window: u64, datagram: u64) -> Ratio {
    let low = (LOW_WINDOW as u64) * datagram;
    if window <= low {
        return Ratio::ONE;
    }
    let w = ((window << FINE) / datagram)
        .clamp((LOW_WINDOW as u64) << FINE, (LAST_WINDOW as u64) << FINE);
    // The leading bit gives the octave, the next four bits the knot in the octave, and the
    // remaining bits the position between this knot and the next.
    let octave = w.ilog2();
    let width = octave - KNOT_BITS;
    let knot = (octave - FINE - FIRST_OCTAVE) as usize * KNOTS + (w >> width) as usize % KNOTS;
    let (from, to) = (u64::from(INCREASES[knot]), u64::from(INCREASES[knot + 1]));
    let way = ((to - from) * (w & ((1 << width) - 1))) >> width;
    let increase = u32::try_from(from + way).unwrap_or(u32::MAX);
    if increase <= UNIT { Ratio::ONE } else { Ratio::new(increase, UNIT) }
}

/// Returns 1 - b(w) for a window in bytes: the fraction that remains after a loss or a mark. The
/// result is exactly a half up to [`LOW_WINDOW`].
pub fn kept(window: u64, datagram: u64) -> Ratio {
    let w = window as f64 / datagram as f64;
    if w <= LOW_WINDOW {
        Ratio::HALF
    } else {
        Ratio::new(((1.0 - b(w)) * f64::from(UNIT)) as u32, UNIT)
    }
}

impl RuleConfig for HighSpeedConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = HighSpeed;

    fn rule(&self, _window: &Aimd, _now: Time) -> HighSpeed {
        HighSpeed
    }
}

/// The rule of HighSpeed TCP.
#[derive(Clone, Copy, Debug)]
pub struct HighSpeed;

impl WindowRule for HighSpeed {
    fn on_ack(&mut self, window: &mut Aimd, _acks: &AckEvent<'_>, acked: u64) {
        let acked = window.grow_slow_start(acked);
        window.grow_additive(increase(window.window(), window.datagram()), acked);
    }

    fn kept(&self, window: &Aimd) -> Ratio {
        kept(window.window(), window.datagram())
    }
}

const PAGE: Page = Page {
    about: "HighSpeed TCP (RFC 3649) behaves as Reno while the window w has at most 38 datagrams. A larger
window grows by a(w) datagrams per round trip: 1.8 for a window of 100 datagrams, 7.7 for 1 000 and
29 for 10 000. A loss reduces the window by the fraction b(w): a half for 38 datagrams and a tenth
for 83 000.",
    departures: "a(w) is from the RFC's formula and is not rounded to whole numbers as in the
RFC's table. The formula is within 0.05 of each row of the RFC's table. The controller reads a(w)
and b(w) from a table made at compile time, which is within 0.02 % of the formulas and the same on
every platform. Beyond 100 000 datagrams, a(w) and b(w) are constant.",
    figure: "HighSpeed TCP and the scripted queue",
    to_see: "The window starts at 317 packets. The growth is four packets per round trip at first
and ten packets at the end, independently of the delay.",
    weakness: "HighSpeed TCP starves Reno flows on fast paths. The controller `gentle` was made to
avoid this. HighSpeed TCP also fills a queue faster than Reno.",
};

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_200;

    fn value(ratio: Ratio) -> f64 {
        f64::from(ratio.num()) / f64::from(ratio.den())
    }

    /// Rows of RFC 3649 §B. A row has w, a(w) rounded down, and b(w) with two decimals.
    const ROWS: &[(u32, u32, f64)] = &[
        (38, 1, 0.50),
        (118, 2, 0.44),
        (221, 3, 0.41),
        (347, 4, 0.38),
        (495, 5, 0.37),
        (663, 6, 0.35),
        (851, 7, 0.34),
        (1_058, 8, 0.33),
        (1_284, 9, 0.32),
        (1_529, 10, 0.31),
        (1_793, 11, 0.30),
        (2_076, 12, 0.29),
        (5_036, 20, 0.25),
        (10_661, 30, 0.21),
        (19_965, 41, 0.17),
        (30_975, 50, 0.15),
        (51_258, 61, 0.13),
        (79_517, 70, 0.10),
        (84_035, 71, 0.10),
        (89_053, 72, 0.10),
    ];

    #[test]
    fn highspeed_matches_every_row_of_the_rfc_3649_table() {
        for &(w, a_row, b_row) in ROWS {
            let (a_row, window) = (f64::from(a_row), u64::from(w) * MSS);
            assert!((a(f64::from(w)) - a_row).abs() < 0.05, "a({w}) = {}", a(f64::from(w)));
            assert!((value(increase(window, MSS)) - a_row).abs() < 0.06, "increase at {w}");
            assert!((b(f64::from(w)) - b_row).abs() < 0.005, "b({w}) = {}", b(f64::from(w)));
            assert!((1.0 - value(kept(window, MSS)) - b_row).abs() < 0.005, "kept at {w}");
        }
    }

    #[test]
    fn highspeed_formula_gives_known_values_between_rows() {
        for (w, expected) in
            [(100.0, 1.801), (1_000.0, 7.740), (10_000.0, 29.02), (83_000.0, 70.74)]
        {
            assert!((a(w) / expected - 1.0).abs() < 3e-4, "a({w}) = {}", a(w));
        }
        // p is near Low_P and High_P, but not equal, because 0.078 is rounded.
        assert!(
            (p(LOW_WINDOW) / 1e-3 - 1.0).abs() < 0.02 && (p(HIGH_WINDOW) / 1e-7 - 1.0).abs() < 0.03
        );
        assert!((b(HIGH_WINDOW) - HIGH_DECREASE).abs() < 1e-15);
    }

    #[test]
    fn highspeed_table_follows_the_formula() {
        for quarters in 38 * 4..=100_000 * 4_u64 {
            let (table, formula) =
                (value(increase(quarters * MSS / 4, MSS)), a(quarters as f64 / 4.0));
            assert!(
                (table / formula - 1.0).abs() < 2e-4,
                "{table} against {formula} at {}",
                quarters as f64 / 4.0
            );
        }
    }

    #[test]
    fn highspeed_grows_small_windows_exactly_like_reno() {
        for w in 2..=38 {
            assert_eq!(
                (increase(w * MSS, MSS), kept(w * MSS, MSS)),
                (Ratio::ONE, Ratio::HALF),
                "{w}"
            );
        }
        assert_ne!(kept(39 * MSS, MSS), Ratio::HALF);
        assert!(value(increase(42 * MSS, MSS)) > 1.0);
    }

    #[test]
    fn highspeed_values_beyond_the_table_are_constant() {
        for w in [100_000, 131_072, 1_000_000, (1 << 40) / MSS] {
            assert_eq!(increase(w * MSS, MSS), increase(100_000 * MSS, MSS), "{w}");
            assert_eq!(kept(w * MSS, MSS), kept(100_000 * MSS, MSS), "{w}");
        }
        assert_eq!(increase(1 << 40, 1), increase(100_000, 1));
    }
}
