//! Mathematical functions that give the same bits on every platform. They use only `+ - * /` and
//! bit patterns, and no maths library.
//!
//! Standard libraries differ in the last bit of `cbrt`, `ln` and `exp`, but a run must be
//! repeatable anywhere.

use std::f64::consts::{LN_2, SQRT_2};

/// Returns the cube root of a positive finite number. Returns zero for any other number.
pub const fn cube_root(x: f64) -> f64 {
    if !(x > 0.0 && x < f64::INFINITY) {
        return 0.0;
    }
    // Dividing the exponent by three gives the root of a normal number within a few per cent. Each
    // step of Halley's iteration then triples the number of correct digits.
    let mut root = f64::from_bits(x.to_bits() / 3 + 0x2A9F_7893_0000_0000);
    let mut step = 0;
    while step < 4 {
        let cube = root * root * root;
        root *= (cube + 2.0 * x) / (2.0 * cube + x);
        step += 1;
    }
    root
}

/// Returns the natural logarithm of a normal positive number.
pub const fn ln(x: f64) -> f64 {
    assert!(x >= f64::MIN_POSITIVE && x < f64::INFINITY, "a normal positive number");
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 0x3FF0_0000_0000_0000);
    if m > SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh z with z = (m - 1) / (m + 1) and |z| < 0.172. Twelve terms are exact to the
    // last bit.
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    let mut odd = 23;
    while odd >= 1 {
        sum = sum * square + 1.0 / odd as f64;
        odd -= 2;
    }
    exponent as f64 * LN_2 + 2.0 * z * sum
}

/// Returns e to the power of a number between -700 and 700.
pub const fn exp(x: f64) -> f64 {
    assert!(x > -700.0 && x < 700.0, "the result must be a normal number");
    let shifted = x / LN_2 + 0.5;
    let mut whole = shifted as i64;
    if (whole as f64) > shifted {
        whole -= 1;
    }
    // |rest| <= ln 2 / 2. Eighteen terms of the series are exact to the last bit.
    let rest = x - whole as f64 * LN_2;
    let mut sum = 1.0;
    let mut n = 18;
    while n >= 1 {
        sum = 1.0 + sum * rest / n as f64;
        n -= 1;
    }
    sum * f64::from_bits(((whole + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers over twenty decades.
    fn numbers() -> impl Iterator<Item = f64> {
        (-1_000..1_000).map(|n| 10_f64.powf(f64::from(n) / 100.0))
    }

    fn near(ours: f64, theirs: f64) -> bool {
        (ours - theirs).abs() <= 4e-16 * theirs.abs().max(1.0)
    }

    #[test]
    fn cube_roots_of_cubes_are_exact() {
        for n in [1_u32, 2, 3, 5, 10, 47, 1_000, 65_535] {
            let n = f64::from(n);
            assert!((cube_root(n * n * n) - n).abs() <= n * 2.3e-16, "{n}");
        }
        for x in numbers() {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 2e-15, "{x}");
        }
        assert!((cube_root(1e-300) / 1e-100 - 1.0).abs() < 1e-15);
        assert!((cube_root(1e300) / 1e100 - 1.0).abs() < 1e-15);
        for x in [0.0, -0.0, -8.0, f64::NAN, f64::INFINITY] {
            assert_eq!(cube_root(x), 0.0);
        }
    }

    #[test]
    fn logarithms_and_exponentials_match_known_values() {
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        for x in numbers() {
            assert!(near(ln(x), x.ln()), "ln {x}: {} {}", ln(x), x.ln());
        }
        for n in -2_000..2_000 {
            let x = f64::from(n) / 100.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-14, "exp {x}");
        }
    }
}
