//! A figure as SVG, readable from a width of 360 pixels on. The legend is below the plot, so it
//! covers nothing; colours, dashes and marks distinguish the curves.

use plotters::coord::Shift;
use plotters::element::DynElement;
use plotters::prelude::*;

use crate::clip::{Rect, pieces};
use crate::curves::scales;
use crate::data::{Axis, Figure, Series};
use crate::scale::Scale;

/// Drawing size in pixels without the legend; pages scale it. Letters of 16 pixels are 9 pixels
/// high on a telephone that is 360 pixels wide.
const WIDTH: u32 = 640;
const HEIGHT: u32 = 400;
/// Curves with at most this many points have a mark and an interval bar at each point; other curves
/// have a band.
const MARKED: usize = 40;
/// Maximum number of points drawn per cloud; more could not be distinguished.
const CLOUD: usize = 3_000;
/// Height of a legend line and width of a character in the legend, in pixels.
const LEGEND_LINE: i32 = 24;
const CHARACTER: f64 = 8.2;
/// Maximum number of characters of a name in the legend.
const NAME: usize = 100;

/// Colours that colour-blind readers can distinguish (Okabe and Ito's set).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Fault<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;
type Point = (f64, f64);
type Pixels = (i32, i32);

/// Draws a figure; returns `None` if there is nothing to draw.
pub fn svg(figure: &Figure) -> Option<String> {
    if figure.series.iter().all(|s| s.points.is_empty()) {
        return None;
    }
    let (x, y) = scales(figure)?;
    let legend = Legend::of(figure);
    let mut text = String::new();
    let area =
        SVGBackend::with_string(&mut text, (WIDTH, HEIGHT + legend.height())).into_drawing_area();
    let drawn = draw(figure, &legend, &area, x, y);
    drop(area);
    // Drawing into a string fails only because of a bug in the drawing library; the page then lacks
    // this plot.
    drawn.ok().map(|()| text)
}

/// Returns the colour of curve number `i`. There are 21 combinations of colour and dashes, and 35
/// of colour and mark.
fn colour(i: usize) -> RGBColor {
    COLOURS[i % COLOURS.len()]
}

const fn dash(i: usize) -> i32 {
    [0, 9, 3][i % 3]
}

fn draw<'b>(
    figure: &Figure,
    legend: &Legend,
    area: &Area<'b>,
    x: Scale,
    y: Scale,
) -> Result<(), Fault<'b>> {
    area.fill(&WHITE)?;
    let (plot, below) = area.split_vertically(HEIGHT);
    let mut chart = ChartBuilder::on(&plot)
        .margin(14)
        .margin_right(36)
        .x_label_area_size(48)
        .y_label_area_size(76)
        .build_cartesian_2d(x, y)?;
    let fitting = |label: &str, room: f64| {
        (room / (0.55 * label.chars().count().max(1) as f64)).clamp(9.0, 17.0)
    };
    let of_x = fitting(&figure.x.label, 510.0);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(7)
        .y_labels(8)
        .x_desc(&figure.x.label)
        .y_desc(&figure.y.label)
        .label_style(("sans-serif", 16))
        .axis_desc_style(("sans-serif", of_x.min(fitting(&figure.y.label, 330.0))))
        .draw()?;
    let sight = Rect { x: x.ends(), y: y.ends() };
    for (i, series) in figure.series.iter().enumerate() {
        curve(&mut chart, &figure.y, &sight, i, series)?;
    }
    legend.draw(figure, &below)?;
    area.present()
}

fn curve<'b>(
    chart: &mut Chart<'_, 'b>,
    axis: &Axis,
    sight: &Rect,
    i: usize,
    series: &Series,
) -> Result<(), Fault<'b>> {
    let (x, y) = (*chart.as_coord_spec().x_spec(), *chart.as_coord_spec().y_spec());
    let points: Vec<Point> =
        series.points.iter().filter_map(|p| Some((x.place(p.0)?, y.place(p.1)?))).collect();
    let marked = points.len() <= MARKED;
    if let Some(spread) = &series.spread {
        // If the axis has no place for the lower end, the interval extends to the axis.
        let ends: Vec<(f64, f64, f64)> = (series.points.iter().zip(spread))
            .filter(|((_, mean), half)| half.is_finite() && y.place(*mean).is_some())
            .filter_map(|(p, half)| {
                let (low, high) = axis.ends(p.1, *half);
                let low = y.place(low).unwrap_or(sight.y.0);
                Some((x.place(p.0)?, low, y.place(high)?))
            })
            .collect();
        if marked { bars(chart, sight, i, &ends)? } else { band(chart, sight, i, &ends)? }
    }
    if !series.scatter {
        let style = colour(i).stroke_width(2);
        for piece in pieces(&points, sight) {
            match dash(i) {
                0 => chart.draw_series(LineSeries::new(piece, style))?,
                dash => {
                    chart.draw_series(DashedLineSeries::new(piece, dash, dash / 2 + 2, style))?
                }
            };
        }
    }
    if series.scatter || marked {
        let size = if marked { 4 } else { 2 };
        let seen: Vec<Point> = points.into_iter().filter(|p| sight.has(*p)).collect();
        let every = seen.len().div_ceil(CLOUD).max(1);
        chart.draw_series(
            seen.into_iter().step_by(every).map(|at| EmptyElement::at(at) + mark(i, (0, 0), size)),
        )?;
    }
    Ok(())
}

/// Returns the mark of curve number `i`.
fn mark<'b>(i: usize, (x, y): Pixels, size: i32) -> DynElement<'static, SVGBackend<'b>, Pixels> {
    let style = colour(i).filled();
    match i % 5 {
        0 => Circle::new((x, y), size, style).into_dyn(),
        1 => Rectangle::new([(x - size, y - size), (x + size, y + size)], style).into_dyn(),
        2 => TriangleMarker::new((x, y), size + 2, style).into_dyn(),
        3 => Polygon::new(
            vec![(x - size - 1, y), (x, y - size - 1), (x + size + 1, y), (x, y + size + 1)],
            style,
        )
        .into_dyn(),
        _ => Cross::new((x, y), size, colour(i).stroke_width(2)).into_dyn(),
    }
}

/// Draws an interval with caps at each point.
fn bars<'b>(
    chart: &mut Chart<'_, 'b>,
    sight: &Rect,
    i: usize,
    ends: &[(f64, f64, f64)],
) -> Result<(), Fault<'b>> {
    let style = colour(i).stroke_width(1);
    for &(x, low, high) in ends {
        let inside = sight.x.0 <= x && x <= sight.x.1 && low <= sight.y.1 && high >= sight.y.0;
        if !inside {
            continue;
        }
        let shown = [(x, low.max(sight.y.0)), (x, high.min(sight.y.1))];
        chart.draw_series([PathElement::new(shown, style)])?;
        let caps = [low, high].into_iter().filter(|&y| sight.has((x, y)));
        chart.draw_series(
            caps.map(|y| EmptyElement::at((x, y)) + PathElement::new([(-4, 0), (4, 0)], style)),
        )?;
    }
    Ok(())
}

/// Draws the intervals of a curve with many points as a band.
fn band<'b>(
    chart: &mut Chart<'_, 'b>,
    sight: &Rect,
    i: usize,
    ends: &[(f64, f64, f64)],
) -> Result<(), Fault<'b>> {
    let seen = || ends.iter().filter(|(x, _, _)| sight.x.0 <= *x && *x <= sight.x.1);
    let inside = |y: f64| y.clamp(sight.y.0, sight.y.1);
    let upper = seen().map(|&(x, _, high)| (x, inside(high)));
    let lower = seen().rev().map(|&(x, low, _)| (x, inside(low)));
    chart
        .draw_series([Polygon::new(upper.chain(lower).collect::<Vec<_>>(), colour(i).mix(0.15))])?;
    Ok(())
}

/// Names of the curves in columns, each with the number of its curve. A curve without points has no
/// name here but keeps its colour, so that neighbouring figures agree.
struct Legend {
    names: Vec<(usize, String)>,
    columns: usize,
}

impl Legend {
    fn of(figure: &Figure) -> Self {
        let short = |name: &String| name.chars().take(NAME).collect::<String>();
        let drawn = figure.series.iter().enumerate().filter(|(_, s)| !s.points.is_empty());
        let names: Vec<(usize, String)> = drawn.map(|(i, s)| (i, short(&s.name))).collect();
        let widest = names.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
        let each = 60.0 + CHARACTER * widest as f64;
        let columns = ((f64::from(WIDTH) - 80.0) / each).floor().max(1.0) as usize;
        Self { columns: columns.min(names.len().max(1)), names }
    }

    fn lines(&self) -> usize {
        self.names.len().div_ceil(self.columns)
    }

    fn height(&self) -> u32 {
        self.lines() as u32 * LEGEND_LINE as u32 + 12
    }

    /// Draws the names down the columns, in the order of the curves.
    fn draw<'b>(&self, figure: &Figure, area: &Area<'b>) -> Result<(), Fault<'b>> {
        let lines = self.lines().max(1);
        let each = (WIDTH as i32 - 80) / self.columns as i32;
        let text = TextStyle::from(("sans-serif", 16)).pos(plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Left,
            plotters::style::text_anchor::VPos::Center,
        ));
        for (place, (i, name)) in self.names.iter().enumerate() {
            let (i, series) = (*i, &figure.series[*i]);
            let (x, y) =
                (80 + (place / lines) as i32 * each, 8 + (place % lines) as i32 * LEGEND_LINE);
            if !series.scatter {
                let style = colour(i).stroke_width(2);
                let mut from = 0;
                let (on, off) = if dash(i) == 0 { (36, 0) } else { (dash(i), dash(i) / 2 + 2) };
                while from < 36 {
                    let to = (from + on).min(36);
                    area.draw(&PathElement::new([(x + from, y), (x + to, y)], style))?;
                    from = to + off;
                }
            }
            if series.scatter || series.points.len() <= MARKED {
                area.draw(&(EmptyElement::at((x + 18, y)) + mark(i, (0, 0), 4)))?;
            }
            area.draw(&Text::new(name.as_str(), (x + 44, y), text.clone()))?;
        }
        Ok(())
    }
}
