//! Lines clipped to the range of the axes, without points that are too close together to be
//! distinguished.

/// Visible range of each axis, from lower to upper end.
pub(crate) struct Rect {
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
}

/// About twice the width and height of a plot in pixels. Points cannot be distinguished if their
/// distance is less than the plot's size divided by this number.
const FINE: f64 = 1_600.0;

impl Rect {
    /// Returns whether the point is visible.
    pub(crate) fn has(&self, (x, y): (f64, f64)) -> bool {
        (self.x.0..=self.x.1).contains(&x) && (self.y.0..=self.y.1).contains(&y)
    }

    /// Returns the visible part of a segment: the parameters, from 0 to 1, between both edges on
    /// both axes.
    fn cut(&self, a: (f64, f64), b: (f64, f64)) -> Option<[(f64, f64); 2]> {
        let (mut from, mut to) = (0.0f64, 1.0f64);
        for (start, end, (low, high)) in [(a.0, b.0, self.x), (a.1, b.1, self.y)] {
            let way = end - start;
            if way == 0.0 {
                if start < low || start > high {
                    return None;
                }
                continue;
            }
            let (enters, leaves) = ((low - start) / way, (high - start) / way);
            from = from.max(enters.min(leaves));
            to = to.min(enters.max(leaves));
        }
        let at = |t: f64| match t {
            0.0 => a,
            1.0 => b,
            t => (a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1)),
        };
        (from <= to).then(|| [at(from), at(to)])
    }

    fn near(&self, a: (f64, f64), b: (f64, f64)) -> bool {
        (a.0 - b.0).abs() * FINE < self.x.1 - self.x.0
            && (a.1 - b.1).abs() * FINE < self.y.1 - self.y.0
    }
}

/// Returns the visible parts of the line through the points. A new part begins each time the line
/// enters the visible range.
pub(crate) fn pieces(points: &[(f64, f64)], sight: &Rect) -> Vec<Vec<(f64, f64)>> {
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    // End of the last clipped segment. It may not have been kept as a point.
    let mut end = None;
    for pair in points.windows(2) {
        let Some([from, to]) = sight.cut(pair[0], pair[1]) else {
            end = None;
            continue;
        };
        match pieces.last_mut() {
            Some(piece) if end == Some(from) => {
                // Skip a point that cannot be distinguished from the last point of the part.
                if piece.len() < 2 || !piece.last().is_some_and(|last| sight.near(*last, to)) {
                    piece.push(to);
                }
            }
            _ => pieces.push(vec![from, to]),
        }
        end = Some(to);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGHT: Rect = Rect { x: (0.0, 10.0), y: (0.0, 1.0) };

    #[test]
    fn plot_lines_inside_the_axes_are_unchanged() {
        let points = [(0.0, 0.0), (5.0, 1.0), (10.0, 0.5)];
        assert_eq!(pieces(&points, &SIGHT), [points.to_vec()]);
    }

    #[test]
    fn plot_lines_are_cut_at_the_edges_and_resume_inside() {
        let points = [(-5.0, 0.5), (5.0, 0.5), (5.0, 1.5), (7.0, 1.5), (7.0, 0.5), (20.0, 0.5)];
        let expected =
            [vec![(0.0, 0.5), (5.0, 0.5), (5.0, 1.0)], vec![(7.0, 1.0), (7.0, 0.5), (10.0, 0.5)]];
        assert_eq!(pieces(&points, &SIGHT), expected);
        // This line passes a corner outside the rectangle.
        assert!(pieces(&[(9.0, 2.0), (12.0, 0.5)], &SIGHT).is_empty());
        assert!(pieces(&[(1.0, 0.5)], &SIGHT).is_empty());
    }

    #[test]
    fn points_that_coincide_in_the_plot_are_drawn_once() {
        let many: Vec<(f64, f64)> =
            (0..=100_000).map(|i| f64::from(i) / 10_000.0).map(|x| (x, x / 10.0)).collect();
        let drawn = pieces(&many, &SIGHT);
        assert_eq!(drawn.len(), 1);
        assert!((1_000..=1_700).contains(&drawn[0].len()), "{}", drawn[0].len());
        let (x, _) = *drawn[0].last().unwrap();
        assert!(x > 10.0 - 0.01, "the end is where the line ends");
    }
}
