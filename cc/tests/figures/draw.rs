//! Drawing of the figures.
#![allow(unreachable_pub, reason = "a test binary")]

use super::*;
use plotters::prelude::*;

const WIDTH: u32 = 900;
/// Heights of the panels.
const QUEUE_HEIGHT: u32 = 170;
const MIDDLE_HEIGHT: u32 = 150;
const WINDOW_HEIGHT: u32 = 290;
const QUEUE: RGBColor = RGBColor(90, 90, 90);
const WINDOW: RGBColor = RGBColor(0, 114, 178);
const MIDDLE: RGBColor = RGBColor(0, 158, 115);
const CUT: RGBColor = RGBColor(213, 94, 0);
const SLOW: RGBColor = RGBColor(250, 225, 195);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// Value of a point that a panel shows.
type Value<'a> = &'a dyn Fn(&Point) -> f64;
type Drawn = Result<(), Box<dyn std::error::Error>>;
type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Returns the figure as SVG.
pub fn svg(figure: &Figure, run: &Run) -> String {
    let middle = if matches!(figure.extra, Extra::Hold | Extra::Size) { MIDDLE_HEIGHT } else { 0 };
    let mut text = String::new();
    {
        let size = (WIDTH, QUEUE_HEIGHT + middle + WINDOW_HEIGHT);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(figure, run, &area).expect("drawing into a string");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn draw(figure: &Figure, run: &Run, area: &Panel<'_>) -> Drawn {
    area.fill(&WHITE)?;
    let (upper, rest) = area.split_vertically(QUEUE_HEIGHT);
    draw_upper(&upper, "queueing delay in ms", 50.0, SCRIPT.iter().copied(), QUEUE)?;
    let hold = |p: &Point| p.hold;
    let size = |p: &Point| p.size as f64;
    let middle: Option<(&str, Value<'_>)> = match figure.extra {
        Extra::Hold => Some(("added delay in ms", &hold)),
        Extra::Size => Some(("datagram in bytes", &size)),
        Extra::Cuts | Extra::Slow | Extra::None => None,
    };
    let lower = match middle {
        None => rest,
        Some((title, value)) => {
            let (middle, lower) = rest.split_vertically(MIDDLE_HEIGHT);
            let top = run.points.iter().map(value).fold(0.0, f64::max) * 1.15;
            let line = samplings().map(|at| (at, value(run.point_at(at))));
            draw_upper(&middle, title, top, line, MIDDLE)?;
            lower
        }
    };
    draw_window(figure, run, &lower)?;
    area.present()?;
    Ok(())
}

/// Draws a panel above the window's panel: one line, without time labels.
fn draw_upper(
    area: &Panel<'_>,
    title: &str,
    top: f64,
    line: impl Iterator<Item = (f64, f64)>,
    colour: RGBColor,
) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(8)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..LENGTH, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .x_labels(13)
        .y_labels(6)
        .x_label_formatter(&|_| String::new())
        .y_label_formatter(&|v| format!("{v:.0}"))
        .y_desc(title)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
    Ok(())
}

fn draw_window(figure: &Figure, run: &Run, area: &Panel<'_>) -> Drawn {
    let packets = |bytes: u64| bytes as f64 / MSS as f64;
    let top = run.points.iter().map(|p| packets(p.window)).fold(0.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..LENGTH, 0.0..top)?;
    if figure.extra == Extra::Slow {
        let slow = slow_times(run);
        let bands =
            slow.iter().map(|(from, to)| Rectangle::new([(*from, 0.0), (*to, top)], SLOW.filled()));
        chart
            .draw_series(bands)?
            .label("one packet per round trip")
            .legend(|(x, y)| Rectangle::new([(x, y - 6), (x + 20, y + 6)], SLOW.filled()));
    }
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_labels(13)
        .y_labels(6)
        .x_label_formatter(&|v| format!("{v:.0}"))
        .y_label_formatter(&|v| format!("{v:.0}"))
        .x_desc("seconds")
        .y_desc("window in packets")
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    let line = samplings().map(|at| (at, packets(run.window_at(at))));
    chart
        .draw_series(LineSeries::new(line, WINDOW.stroke_width(2)))?
        .label(figure.name)
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], WINDOW.stroke_width(2)));
    let (text, marked): (&str, Vec<(f64, u64)>) = match figure.extra {
        Extra::Cuts => ("early cuts", run.cuts().iter().map(|p| (p.at, p.window)).collect()),
        Extra::Hold | Extra::Size => ("marks", run.marks.clone()),
        Extra::Slow | Extra::None => ("", Vec::new()),
    };
    if !text.is_empty() {
        chart
            .draw_series(
                marked.iter().map(|(at, window)| {
                    TriangleMarker::new((*at, packets(*window)), 5, CUT.filled())
                }),
            )?
            .label(format!("{text}: {}", marked.len()))
            .legend(|(x, y)| TriangleMarker::new((x + 10, y), 5, CUT.filled()));
    }
    chart
        .configure_series_labels()
        .position(if figure.extra == Extra::Slow {
            SeriesLabelPosition::LowerMiddle
        } else {
            SeriesLabelPosition::UpperLeft
        })
        .background_style(WHITE)
        .border_style(GRID)
        .label_font(("sans-serif", 14))
        .margin(6)
        .draw()?;
    Ok(())
}

/// Returns the intervals in which the window grows by less than 1.5 packets per round trip.
fn slow_times(run: &Run) -> Vec<(f64, f64)> {
    let mut times: Vec<(f64, f64)> = Vec::new();
    for at in samplings().filter(|at| *at > 2.0 * BASE.as_secs_f64() && growth(run, *at) < 1.5) {
        match times.last_mut() {
            Some((_, to)) if at - *to < 1.5 * SAMPLING => *to = at,
            _ => times.push((at, at)),
        }
    }
    times
}
