//! Plots as inline SVG. Every plot is drawn from lists of points; what cannot be drawn (no points, no range) is left out.

use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

/// Colours that the colour-blind can tell apart (Okabe and Ito's set), in the order of the columns.
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
/// Drawing size; pages scale it.
const SIZE: (u32, u32) = (900, 380);
/// Points drawn per line: more than the plot is wide would not show.
const POINTS: usize = 1_200;

/// A line of a plot.
pub(super) struct Line {
    pub(super) name: String,
    /// Index of its colour; the same controller has the same colour in every plot.
    pub(super) colour: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// Axes and what to draw in them.
pub(super) struct Plot<'a> {
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    pub(super) x_range: (f64, f64),
    pub(super) y_range: (f64, f64),
    pub(super) log_x: bool,
    /// A horizontal line with its name, such as a queue's limit.
    pub(super) mark: Option<(f64, &'a str)>,
    /// The legend goes to the lower right (else the upper right).
    pub(super) legend_low: bool,
    pub(super) lines: &'a [Line],
}

/// Draws a plot; `None` when there is nothing to draw.
pub(super) fn svg(plot: &Plot<'_>) -> Option<String> {
    let finite = [plot.x_range.0, plot.x_range.1, plot.y_range.0, plot.y_range.1].iter().all(|v| v.is_finite());
    let drawable = finite
        && plot.x_range.0 < plot.x_range.1
        && plot.y_range.0 < plot.y_range.1
        && (!plot.log_x || plot.x_range.0 > 0.0)
        && plot.lines.iter().any(|l| l.points.len() > 1);
    if !drawable {
        return None;
    }
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    let (x, y) = (plot.x_range, plot.y_range);
    let drawn = if plot.log_x {
        draw(plot, &area, (x.0..x.1).log_scale(), y)
    } else {
        draw(plot, &area, plotters::coord::types::RangedCoordf64::from(x.0..x.1), y)
    };
    drop(area);
    // Drawing into a string fails only on a fault of the drawing library: the page then goes without this plot.
    drawn.ok().map(|()| text)
}

fn draw<'a, X>(
    plot: &Plot<'_>,
    area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    x: impl plotters::coord::ranged1d::AsRangedCoord<CoordDescType = X, Value = f64>,
    y: (f64, f64),
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y.0..y.1)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc(plot.x)
        .y_desc(plot.y)
        .x_label_formatter(&|v| number(*v))
        .y_label_formatter(&|v| number(*v))
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 16))
        .draw()?;
    if let Some((at, name)) = plot.mark {
        let ends = vec![(plot.x_range.0, at), (plot.x_range.1, at)];
        chart
            .draw_series(DashedLineSeries::new(ends, 5, 5, BLACK.mix(0.6).stroke_width(1)))?
            .label(name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 22, y)], BLACK.mix(0.6)));
    }
    for line in plot.lines.iter().filter(|l| !l.points.is_empty()) {
        let colour = COLOURS[line.colour % COLOURS.len()];
        let style = colour.stroke_width(2);
        let points = thinned(&line.points, plot.x_range);
        // Dashes as well as colours: a page may be printed in grey.
        let dash = [0, 9, 3][line.colour % 3];
        let anno = if dash == 0 {
            chart.draw_series(LineSeries::new(points, style))?
        } else {
            chart.draw_series(DashedLineSeries::new(points, dash, dash / 2 + 2, style))?
        };
        anno.label(&line.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
    }
    chart
        .configure_series_labels()
        .position(if plot.legend_low { SeriesLabelPosition::LowerRight } else { SeriesLabelPosition::UpperRight })
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 15))
        .margin(8)
        .draw()?;
    area.present()
}

/// The points inside the range (and one beyond each end), at most [`POINTS`].
fn thinned(points: &[(f64, f64)], (low, high): (f64, f64)) -> Vec<(f64, f64)> {
    let from = points.partition_point(|p| p.0 < low).saturating_sub(1);
    let to = (points.partition_point(|p| p.0 <= high) + 1).min(points.len());
    let inside = &points[from.min(to)..to];
    let every = inside.len().div_ceil(POINTS).max(1);
    inside.iter().step_by(every).map(|&(x, y)| (x.clamp(low, high), y)).collect()
}

/// A tick's number without needless digits.
fn number(v: f64) -> String {
    if v != 0.0 && v.abs() < 1.0 {
        let text = format!("{v:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else if v.abs() >= 1e6 {
        format!("{v:.0e}")
    } else {
        format!("{}", (v * 10.0).round() / 10.0)
    }
}
