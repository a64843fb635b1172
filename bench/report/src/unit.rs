//! Units that suit the size of a number: `100 Mbps` rather than 1e8 bps, `5 min` rather than 300000
//! ms.

use fathom_metrics::{Estimate, significant};

use crate::scale::number;

/// A unit and its conversion factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Name of the unit.
    pub name: &'static str,
    /// Factor that converts numbers from the measure's own unit to this unit.
    pub factor: f64,
}

/// Units, each with the smallest size in the measure's own unit for which it is used. Times are in
/// minutes only from 10 min on, because 282 s is easier to compare with 30 s than 4.7 min is.
const RATES: [(f64, Unit); 3] = [
    (1e9, Unit { name: "Gbps", factor: 1e-9 }),
    (1e6, Unit { name: "Mbps", factor: 1e-6 }),
    (1e3, Unit { name: "kbps", factor: 1e-3 }),
];
const TIMES: [(f64, Unit); 3] = [
    (36_000_000.0, Unit { name: "h", factor: 1.0 / 3_600_000.0 }),
    (600_000.0, Unit { name: "min", factor: 1.0 / 60_000.0 }),
    (10_000.0, Unit { name: "s", factor: 1e-3 }),
];
const SIZES: [(f64, Unit); 3] = [
    (1e10, Unit { name: "GB", factor: 1e-9 }),
    (1e7, Unit { name: "MB", factor: 1e-6 }),
    (1e4, Unit { name: "kB", factor: 1e-3 }),
];

impl Unit {
    /// Returns the most readable unit for numbers up to `largest` of a measure in `own` (`bps`,
    /// `kbps`, `ms`, `B`, or any other).
    pub fn suiting(own: &'static str, largest: f64) -> Self {
        let (per, units): (f64, &[(f64, Self)]) = match own {
            "bps" => (1.0, &RATES),
            "kbps" => (1e3, &RATES),
            "ms" => (1.0, &TIMES),
            "B" => (1.0, &SIZES),
            _ => (1.0, &[]),
        };
        let found = units.iter().find(|(from, _)| (largest * per).abs() >= *from);
        found.map_or(Self { name: own, factor: 1.0 }, |(_, unit)| Self {
            factor: unit.factor * per,
            ..*unit
        })
    }

    /// Converts a number from the measure's own unit to this unit.
    pub fn of(&self, value: f64) -> f64 {
        value * self.factor
    }

    /// Converts an estimate to this unit.
    pub fn of_estimate(&self, e: &Estimate) -> Estimate {
        let of = |value: f64| value * self.factor;
        Estimate {
            n: e.n,
            mean: of(e.mean),
            deviation: e.deviation.map(of),
            half_width: e.half_width.map(of),
        }
    }

    /// Formats a number in this unit to three digits, with the unit's name.
    pub fn text(&self, value: f64) -> String {
        let text = number(significant(self.of(value), 3));
        if self.name.is_empty() { text } else { format!("{text} {}", self.name) }
    }
}

/// Formats a number in the unit that suits it: `86.3 Mbps`, `282 s`.
pub fn human(value: f64, own: &'static str) -> String {
    Unit::suiting(own, value).text(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_unit_depends_on_the_magnitude() {
        for (value, own, text) in [
            (1e8, "bps", "100 Mbps"),
            (1_520_000.0, "bps", "1.52 Mbps"),
            (2.5e9, "bps", "2.5 Gbps"),
            (900.0, "bps", "900 bps"),
            (14_300.0, "kbps", "14.3 Mbps"),
            (9_999.0, "ms", "10000 ms"),
            (282_312.0, "ms", "282 s"),
            (1_800_000.0, "ms", "30 min"),
            (0.7152, "ms", "0.715 ms"),
            (25_000.0, "B", "25 kB"),
            (3.25, "%", "3.25 %"),
            (12.0, "", "12"),
        ] {
            assert_eq!(human(value, own), text);
        }
    }
}
