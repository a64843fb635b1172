//! Outliers: values that are far from the other values of a small sample.

/// Modified z-score above which a value is an outlier: B. Iglewicz and D. Hoaglin, "How to Detect
/// and Handle Outliers" (1993), as quoted in NIST's handbook of statistical methods (§1.3.5.17).
const SCORE: f64 = 3.5;
/// Median absolute deviation of a normal distribution with a standard deviation of 1: the 75th
/// percentile of the unit normal (same source).
const NORMAL: f64 = 0.6745;
/// Minimum number of values. With only four values, one outlier would determine their spread.
const ENOUGH: usize = 5;
/// Minimum difference from the median, as a fraction of the median. If the seeds hardly spread, any
/// value may be 3.5 deviations off without being meaningful.
const WORTH_NAMING: f64 = 0.1;

/// Returns the median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(lower + (upper - lower) / 2.0)
}

/// Returns the indices of the outliers in order. A value is an outlier if its modified z-score,
/// `0.6745 |x - median| / MAD`, exceeds 3.5 and the value differs from the median by more than a
/// tenth of the median. The result is empty for fewer than five values.
///
/// Source: Iglewicz and Hoaglin 1993; NIST/SEMATECH e-Handbook of Statistical Methods, §1.3.5.17.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some(middle) = median(values).filter(|_| values.len() >= ENOUGH) else { return Vec::new() };
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let spread = median(&distances).unwrap_or_default();
    let is_outlier = |distance: f64| {
        NORMAL * distance > SCORE * spread && distance > WORTH_NAMING * middle.abs()
    };
    (0..)
        .zip(distances)
        .filter(|(_, distance)| is_outlier(*distance))
        .map(|(place, _)| place)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_a_sample_is_its_middle_value() {
        assert_eq!((median(&[]), median(&[3.0])), (None, Some(3.0)));
        assert_eq!(
            (median(&[9.0, 1.0, 2.0]), median(&[4.0, 1.0, 9.0, 2.0])),
            (Some(2.0), Some(3.0))
        );
    }

    #[test]
    fn values_far_from_the_median_are_outliers() {
        let mut values: Vec<f64> = (0..40).map(|i| 17.0 + f64::from(i % 15) * 0.1).collect();
        assert_eq!(outliers(&values), [0; 0]);
        for (place, value) in [(6, 27.0), (25, 30.0), (35, 2.0)] {
            values[place] = value;
        }
        assert_eq!(outliers(&values), [6, 25, 35]);
        // The median is 3 and the MAD is 1, so the bound is 3.5 / 0.6745 = 5.19 from the median.
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 8.1]), [0; 0]);
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 8.3]), [4]);
    }

    #[test]
    fn few_or_similar_values_have_no_outliers() {
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 99.0]), [0; 0], "four values");
        assert_eq!(outliers(&[10.0, 10.0, 10.0, 10.0, 10.9]), [0; 0], "less than a tenth off");
        assert_eq!(outliers(&[10.0, 10.0, 10.0, 10.0, 12.0]), [4], "all others are equal");
    }
}
