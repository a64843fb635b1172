//! A figure as SVG. Inside a page, it follows the page's colours in light and dark mode. As a file,
//! it has dark letters on white.

use std::fmt::Write;

use maud::{Markup, html};

use crate::clip::{Rect, pieces};
use crate::curves::scales;
use crate::data::{Axis, Figure, Series};
use crate::pen::{Pen, alone, behind};
use crate::scale::{Scale, number};

/// Maximum number of points for which a curve has a mark and an interval bar at each point. Other
/// curves have a band.
const MARKED: usize = 40;
/// Maximum number of points drawn per cloud. More points could not be distinguished.
const CLOUD: usize = 2_000;
/// Font size in pixels. A character is about half as wide.
const LETTER: f64 = 14.0;
/// Height of a legend line in pixels.
const LEGEND_LINE: f64 = 22.0;

/// Size of a drawing in pixels. Pages scale the drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Maximum number of round values on the x axis and on the y axis.
    pub(crate) ticks: (usize, usize),
}

/// Size of a standalone plot.
const WHOLE: Size = Size { width: 560.0, height: 340.0, ticks: (7, 6) };
/// Size of one of several panels.
pub(crate) const PANEL: Size = Size { width: 320.0, height: 210.0, ticks: (5, 4) };

/// Draws a standalone figure. If the figure has several curves, a legend is below it. Returns
/// `None` if there is nothing to draw.
pub fn plot(figure: &Figure) -> Option<String> {
    let pens: Vec<Pen> = (0..figure.series.len()).map(Pen::Of).collect();
    plot_with(figure, &pens)
}

/// Draws a figure like [`plot`], as the contents of an SVG file. Each element has its own line.
pub fn standalone(figure: &Figure) -> Option<String> {
    plot(figure).map(|drawing| alone(&drawing).replace("><", ">\n<") + "\n")
}

/// Draws a figure like [`plot`], with a given pen for each curve.
pub fn plot_with(figure: &Figure, pens: &[Pen]) -> Option<String> {
    draw(figure, pens, WHOLE, scales(figure)?, true)
}

/// Area of a drawing inside the axes.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

impl Frame {
    /// Converts scale coordinates to pixels.
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let part = |v: f64, (low, high): (f64, f64)| (v - low) / (high - low);
        let x = self.left + (self.right - self.left) * part(x, self.x.ends());
        (x, self.bottom - (self.bottom - self.top) * part(y, self.y.ends()))
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let mut d = String::new();
        for (i, point) in points.iter().enumerate() {
            let (x, y) = self.at(*point);
            // Writing to a string cannot fail.
            let _ = write!(d, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
        }
        d
    }
}

pub(crate) fn draw(
    figure: &Figure,
    pens: &[Pen],
    size: Size,
    (x, y): (Scale, Scale),
    legend: bool,
) -> Option<String> {
    if figure.series.iter().all(|s| s.points.is_empty()) {
        return None;
    }
    let y_ticks = y.ticks(size.ticks.1);
    let widest = y_ticks.iter().map(|v| number(*v).chars().count()).max().unwrap_or(1);
    let frame = Frame {
        left: 10.0 + DIGIT * LETTER * widest as f64,
        right: size.width - 16.0,
        top: 30.0,
        bottom: size.height - 42.0,
        x,
        y,
    };
    let names = if legend { Legend::of(figure, size.width) } else { Legend::default() };
    let height = size.height + names.height();
    let sight = Rect { x: x.ends(), y: y.ends() };
    let drawing = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (size.width) " " (height) }
            font-family="system-ui,sans-serif" font-size=(LETTER) {
            (axes(&frame, &figure.x, &figure.y, size, &y_ticks))
            @for (series, pen) in figure.series.iter().zip(pens) { (curve(&frame, &figure.y, &sight, series, *pen)) }
            (names.draw(figure, pens, size.height))
        }
    };
    Some(drawing.into_string())
}

/// Draws a text with an anchor: `start`, `middle` or `end`.
pub(crate) fn text(x: f64, y: f64, anchor: &str, words: &str) -> Markup {
    html! { text x=(format!("{x:.1}")) y=(format!("{y:.1}")) text-anchor=(anchor) fill="currentColor" { (words) } }
}

/// Width of a digit relative to the font size. Digits of common system fonts are 0.55 to 0.64 wide.
const DIGIT: f64 = 0.64;

/// Draws a number below its position on an axis. Shifts the number if necessary, so that it stays
/// within a drawing of width `width`.
pub(crate) fn tick(x: f64, y: f64, words: &str, width: f64) -> Markup {
    let half = 0.5 * DIGIT * LETTER * words.chars().count() as f64;
    text(x.clamp(half.min(0.5 * width), (width - half).max(0.5 * width)), y, "middle", words)
}

/// Draws a straight line.
pub(crate) fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) -> Markup {
    let d = format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}");
    html! { path d=(d) stroke=(colour) stroke-width=(width) fill="none" {} }
}

/// Draws a label in the available room. If there is too little room, the letters become narrower,
/// down to two thirds.
fn label(x: f64, y: f64, anchor: &str, words: &str, room: f64) -> Markup {
    let needs = 0.53 * LETTER * words.chars().count() as f64;
    let size = (LETTER * (room / needs).clamp(0.66, 1.0) * 10.0).round() / 10.0;
    html! { g font-size=(size) { (text(x, y, anchor, words)) } }
}

/// Draws round values, grid lines and axis labels. The label of the vertical axis is above the
/// plot, where it is easy to read.
fn axes(frame: &Frame, of_x: &Axis, of_y: &Axis, size: Size, y_ticks: &[f64]) -> Markup {
    let colour = behind();
    let (low, high) = (frame.x.ends().0, frame.y.ends().0);
    html! {
        @for value in y_ticks {
            @if let Some(place) = frame.y.place(*value) {
                @let (_, at) = frame.at((low, place));
                (line((frame.left, at), (frame.right, at), &colour, 1.0))
                (text(frame.left - 7.0, at + 0.35 * LETTER, "end", &number(*value)))
            }
        }
        @for value in frame.x.ticks(size.ticks.0) {
            @if let Some(place) = frame.x.place(value) {
                @let (at, _) = frame.at((place, high));
                (line((at, frame.bottom), (at, frame.bottom + 5.0), "currentColor", 1.0))
                (tick(at, frame.bottom + 19.0, &number(value), size.width))
            }
        }
        (line((frame.left, frame.bottom), (frame.right, frame.bottom), "currentColor", 1.0))
        (label(4.0, 16.0, "start", &of_y.label, size.width - 8.0))
        (label(frame.right, size.height - 5.0, "end", &of_x.label, size.width - 16.0))
    }
}

fn curve(frame: &Frame, axis: &Axis, sight: &Rect, series: &Series, pen: Pen) -> Markup {
    let (colour, dashes) = (pen.colour(), pen.dashes());
    let place = |p: &(f64, f64)| Some((frame.x.place(p.0)?, frame.y.place(p.1)?));
    let points: Vec<(f64, f64)> = series.points.iter().filter_map(place).collect();
    let marked = points.len() <= MARKED;
    let lines: Vec<String> = if series.scatter {
        Vec::new()
    } else {
        pieces(&points, sight).iter().map(|piece| frame.path(piece)).collect()
    };
    let seen: Vec<(f64, f64)> = if series.scatter || (marked && !pen.is_behind()) {
        points.into_iter().filter(|p| sight.has(*p)).collect()
    } else {
        Vec::new()
    };
    let every = seen.len().div_ceil(CLOUD).max(1);
    html! {
        @if let Some(spread) = &series.spread { (intervals(frame, axis, sight, (series, spread), &colour, marked)) }
        @for d in lines {
            path d=(d) stroke=(colour) stroke-width="2" stroke-linejoin="round" fill="none"
                stroke-dasharray=[Some(dashes).filter(|d| !d.is_empty())] {}
        }
        @for point in seen.iter().step_by(every) {
            (mark(frame.at(*point), if marked { 4.0 } else { 2.0 }, &colour, pen.mark()))
        }
    }
}

/// Draws a mark in one of five shapes.
pub(crate) fn mark((x, y): (f64, f64), r: f64, colour: &str, shape: usize) -> Markup {
    let polygon = |corners: &[(f64, f64)]| {
        let all: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx * r, y + dy * r)).collect();
        format!("M{}Z", all.join("L"))
    };
    let d = match shape {
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.3), (1.2, 0.9), (-1.2, 0.9)]),
        3 => polygon(&[(-1.3, 0.0), (0.0, -1.3), (1.3, 0.0), (0.0, 1.3)]),
        4 => polygon(&[(0.0, 1.3), (1.2, -0.9), (-1.2, -0.9)]),
        _ => {
            return html! { circle cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r=(r) fill=(colour) {} };
        }
    };
    html! { path d=(d) fill=(colour) {} }
}

/// Draws the intervals of a curve: a bar at each point if there are few points, and a band
/// otherwise.
fn intervals(
    frame: &Frame,
    axis: &Axis,
    sight: &Rect,
    of: (&Series, &[f64]),
    colour: &str,
    marked: bool,
) -> Markup {
    let (series, spread) = of;
    let inside = |y: f64| y.clamp(sight.y.0, sight.y.1);
    // If the axis has no position for the lower end, the interval extends to the axis.
    let ends: Vec<(f64, f64, f64)> = (series.points.iter().zip(spread))
        .filter(|((_, mean), half)| half.is_finite() && frame.y.place(*mean).is_some())
        .filter_map(|(p, half)| {
            let (low, high) = axis.ends(p.1, *half);
            let low = frame.y.place(low).unwrap_or(sight.y.0);
            Some((frame.x.place(p.0)?, inside(low), inside(frame.y.place(high)?)))
        })
        .filter(|(x, _, _)| sight.x.0 <= *x && *x <= sight.x.1)
        .collect();
    if marked {
        return html! { @for (x, low, high) in ends { (whisker(frame.at((x, low)), frame.at((x, high)), colour, 1.0)) } };
    }
    let upper = ends.iter().map(|(x, _, high)| (*x, *high));
    let lower = ends.iter().rev().map(|(x, low, _)| (*x, *low));
    let d = frame.path(&upper.chain(lower).collect::<Vec<_>>());
    html! { path d=(d + "Z") fill=(colour) fill-opacity="0.15" {} }
}

/// Draws a bar with caps at both ends.
pub(crate) fn whisker(from: (f64, f64), to: (f64, f64), colour: &str, width: f64) -> Markup {
    let upright = from.0 == to.0;
    let cap = |(x, y): (f64, f64)| {
        let (dx, dy) = if upright { (4.0, 0.0) } else { (0.0, 5.0) };
        line((x - dx, y - dy), (x + dx, y + dy), colour, width)
    };
    html! { (line(from, to, colour, width)) (cap(from)) (cap(to)) }
}

/// Names of the curves below the plot, in columns.
#[derive(Default)]
struct Legend {
    names: Vec<(usize, String)>,
    columns: usize,
    each: f64,
}

impl Legend {
    fn of(figure: &Figure, width: f64) -> Self {
        let most = ((width - 64.0) / (0.55 * LETTER)) as usize;
        let drawn = figure.series.iter().enumerate().filter(|(_, s)| !s.points.is_empty());
        let names: Vec<(usize, String)> =
            drawn.map(|(i, s)| (i, shortened(&s.name, most))).collect();
        if names.len() < 2 {
            return Self::default();
        }
        let widest = names.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
        let each = 60.0 + 0.55 * LETTER * widest as f64;
        let columns = (((width - 14.0) / each).floor().max(1.0) as usize).min(names.len());
        Self { names, columns, each }
    }

    fn lines(&self) -> usize {
        if self.columns == 0 { 0 } else { self.names.len().div_ceil(self.columns) }
    }

    fn height(&self) -> f64 {
        if self.names.is_empty() { 0.0 } else { self.lines() as f64 * LEGEND_LINE + 8.0 }
    }

    fn draw(&self, figure: &Figure, pens: &[Pen], top: f64) -> Markup {
        let lines = self.lines().max(1);
        let place = |i: usize| {
            (14.0 + (i / lines) as f64 * self.each, top + 12.0 + (i % lines) as f64 * LEGEND_LINE)
        };
        html! {
            @for (place, (i, name)) in self.names.iter().enumerate().map(|(i, name)| (place(i), name)) {
                @let (series, pen) = (&figure.series[*i], pens[*i]);
                @let dashes = Some(pen.dashes()).filter(|d| !d.is_empty());
                @if !series.scatter {
                    path d={ "M" (place.0) " " (place.1) "h34" } stroke=(pen.colour()) stroke-width="2.5"
                        stroke-dasharray=[dashes] fill="none" {}
                }
                @if series.scatter || (series.points.len() <= MARKED && !pen.is_behind()) {
                    (mark((place.0 + 17.0, place.1), 4.0, &pen.colour(), pen.mark()))
                }
                (text(place.0 + 42.0, place.1 + 0.35 * LETTER, "start", name))
            }
        }
    }
}

/// Shortens a name to at most `most` characters. A shortened name ends with an ellipsis.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(curves: usize) -> Figure {
        let line = |i: usize| {
            Series::line(
                format!("curve <{i}>"),
                (0..100).map(|x| (f64::from(x), (x + i as i32).into())).collect(),
            )
        };
        Figure {
            x: Axis::linear("time (s)"),
            y: Axis::linear("queue"),
            series: (0..curves).map(line).collect(),
        }
    }

    #[test]
    fn drawings_use_the_colours_of_the_page_and_escape_names() {
        let drawing = plot(&figure(3)).unwrap();
        assert!(
            !drawing.contains("#fff")
                && drawing.contains("currentColor")
                && drawing.contains("var(--c2,")
        );
        assert!(
            drawing.contains("curve &lt;0&gt;")
                && !drawing.contains("curve <0>")
                && !drawing.contains("NaN")
        );
        assert_eq!(
            drawing.matches("stroke-dasharray").count(),
            4,
            "two dashed curves, and they in the legend"
        );
    }

    #[test]
    fn plot_of_one_curve_has_no_legend() {
        assert!(!plot(&figure(1)).unwrap().contains("curve"));
        assert!(plot(&figure(0)).is_none());
        let empty = Figure { series: vec![Series::line("a", Vec::new())], ..figure(0) };
        assert!(plot(&empty).is_none());
    }

    #[test]
    fn intervals_are_drawn_as_bars_or_bands() {
        let mut few = figure(1);
        few.series[0].points.truncate(5);
        few.series[0].spread = Some(vec![1.0; 5]);
        let drawing = plot(&few).unwrap();
        assert!(drawing.contains("<circle") && !drawing.contains("fill-opacity"));
        let mut many = figure(1);
        many.series[0].spread = Some(vec![1.0; 100]);
        assert!(plot(&many).unwrap().contains("fill-opacity"));
    }

    #[test]
    fn long_curve_names_are_shortened() {
        assert_eq!((shortened("abcdef", 4), shortened("abc", 4)), ("abc…".into(), "abc".into()));
    }
}
