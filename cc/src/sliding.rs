//! The smallest and largest values of the recent past, in constant memory.

use std::time::Duration;

use crate::units::Time;

/// Extremes of the values of a sliding window of time.
///
/// The window consists of `N` intervals of equal length. Values leave it one interval at a time, so
/// the oldest values are up to one interval too old or too young.
#[derive(Clone, Copy, Debug)]
pub struct Sliding<T, const N: usize> {
    /// Smallest and largest value of each interval, newest first.
    intervals: [Option<(T, T)>; N],
    /// Start of the newest interval.
    start: Option<Time>,
    /// Smallest and largest value of all intervals.
    extremes: Option<(T, T)>,
}

impl<T: Copy + Ord, const N: usize> Default for Sliding<T, N> {
    fn default() -> Self {
        Self { intervals: [None; N], start: None, extremes: None }
    }
}

impl<T: Copy + Ord, const N: usize> Sliding<T, N> {
    /// Records a value. `interval` is the current length of an interval.
    pub fn record(&mut self, now: Time, interval: Duration, value: T) {
        if let (Some(start), Some(newest), Some(all)) =
            (self.start, &mut self.intervals[0], &mut self.extremes)
            && now.since(start) < interval
        {
            // The usual case, which needs no division and no search.
            for (least, most) in [newest, all] {
                (*least, *most) = ((*least).min(value), (*most).max(value));
            }
            return;
        }
        let passed = self.start.map_or(0, |start| {
            now.since(start).as_nanos().checked_div(interval.as_nanos()).unwrap_or(0)
        });
        let passed = usize::try_from(passed).unwrap_or(N).min(N);
        // After a long silence, or after a change of the interval, a new interval begins now.
        self.start = match (self.start, u32::try_from(passed)) {
            (Some(start), Ok(n)) if passed < N => Some(start + interval.saturating_mul(n)),
            _ => Some(now),
        };
        self.intervals.rotate_right(passed % N.max(1));
        self.intervals[..passed].fill(None);
        let (least, most) = self.intervals[0].unwrap_or((value, value));
        self.intervals[0] = Some((least.min(value), most.max(value)));
        self.extremes =
            self.intervals.iter().flatten().copied().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }

    /// Returns the smallest value; `None` before the first one.
    pub fn min(&self) -> Option<T> {
        self.extremes.map(|(least, _)| least)
    }

    /// Returns the largest value; `None` before the first one.
    pub fn max(&self) -> Option<T> {
        self.extremes.map(|(_, most)| most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_leave_the_window_after_its_length() {
        let mut window = Sliding::<u32, 4>::default();
        let ms = Duration::from_millis;
        let mut at = |now, value| {
            window.record(Time::from_millis(now), ms(10), value);
            (window.min(), window.max())
        };
        assert_eq!(at(0, 5), (Some(5), Some(5)));
        assert_eq!(at(9, 9), (Some(5), Some(9)));
        assert_eq!(at(10, 7), (Some(5), Some(9)));
        assert_eq!(at(20, 7), (Some(5), Some(9)));
        assert_eq!(at(30, 8), (Some(5), Some(9)));
        assert_eq!(at(40, 8), (Some(7), Some(8)), "the first interval is over");
        assert_eq!(at(1_000, 6), (Some(6), Some(6)), "a long silence");
        assert_eq!(at(1_035, 2), (Some(2), Some(6)));
        // Intervals end at multiples of 10 ms, whenever the values come.
        let mut window = Sliding::<u64, 4>::default();
        for now in (0..=57).step_by(19) {
            window.record(Time::from_millis(now), ms(10), now);
        }
        assert_eq!(window.min(), Some(38), "values of 20 to 57 ms");
    }

    #[test]
    fn extremes_are_those_of_a_search() {
        let mut window = Sliding::<u64, 4>::default();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            // Knuth, MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut now = 100_u64;
        for _ in 0..10_000 {
            // Time may step back, and intervals change or are zero.
            now = (now + random(9)).saturating_sub(2);
            window.record(Time::from_millis(now), Duration::from_millis(random(8)), random(1_000));
            let values = || window.intervals.iter().flatten();
            assert_eq!(window.min(), values().map(|(least, _)| *least).min(), "at {now} ms");
            assert_eq!(window.max(), values().map(|(_, most)| *most).max(), "at {now} ms");
        }
    }
}
