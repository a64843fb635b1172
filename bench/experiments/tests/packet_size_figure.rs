//! Shows the effect of `packet-size` on datagrams and fairness over time, for two hundred flows on
//! 25 Mbps with quiche at both ends. The topology is that of Packet size §4.3.1, with a drop-tail
//! queue of 125 packets.
//!
//! The drawing is `docs/figures/packet-size-quiche.svg`. The test compares it; to draw it anew, run
//! `FATHOM_DRAW=1 cargo test -p fathom-experiments --features quiche --test experiments-tests
//! packet_size_figure::`.
#![cfg(feature = "quiche")]

use std::path::Path;
use std::sync::OnceLock;

use fathom_experiments::compare::{ComparedRun, Comparison, Plan, compare};
use fathom_experiments::scenario::SharesOverTime;
use fathom_experiments::stack::Stack;
use plotters::prelude::*;

const FLOWS: usize = 200;
const CONTROLLERS: [&str; 2] = ["reno", "packet-size"];
/// UDP payload of a full packet in bytes.
const FULL: f64 = 1392.0;

/// Returns the comparison, which runs once for all tests.
fn comparison() -> &'static Comparison {
    static RUN: OnceLock<Comparison> = OnceLock::new();
    RUN.get_or_init(|| {
        let plan = Plan {
            controllers: CONTROLLERS.map(str::to_owned).to_vec(),
            stacks: vec![Stack::Quiche],
            link: "25Mbps".to_owned(),
            queue: "droptail:125p".to_owned(),
            workload: format!("bulk:{FLOWS}x750kB@20ms"),
            max_window: "none".to_owned(),
            seeds: 1,
            ..Plan::default()
        };
        compare(&plan, &|_| {}).expect("a comparison")
    })
}

fn run(controller: &str) -> &'static ComparedRun {
    comparison().runs.iter().find(|r| r.controller == controller).expect("every controller ran")
}

fn shares(controller: &str) -> &'static SharesOverTime {
    run(controller).forward().shares.as_ref().expect("a run of few flows keeps its shares")
}

/// Returns the seconds in which at least nine tenths of the flows were active.
fn crowded(controller: &str) -> impl Iterator<Item = usize> {
    shares(controller)
        .flows
        .iter()
        .enumerate()
        .filter(|(_, n)| **n >= FLOWS * 9 / 10)
        .map(|(second, _)| second)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0), |(sum, n), v| (sum + v, n + 1));
    assert!(n > 10, "only {n} seconds with nearly all flows");
    sum / f64::from(n)
}

#[test]
fn every_transfer_of_the_packet_size_figure_completes() {
    for run in &comparison().runs {
        assert_eq!((run.group().responses, run.group().failed), (FLOWS as u64, 0), "{}", run.label);
        // Utilisation over the whole run. At its end, the last flows are in long probe timeouts and
        // leave the link idle.
        assert!(
            run.forward().utilisation_percent > 60.0,
            "{}: {} %",
            run.label,
            run.forward().utilisation_percent
        );
    }
}

#[test]
fn packets_shrink_under_load_and_grow_back_afterwards() {
    let reno = shares("reno");
    assert!(
        crowded("reno").all(|second| reno.size_median[second] >= FULL - 8.0),
        "Reno never changes its packets"
    );
    let adapting = shares("packet-size");
    let under_load = mean(crowded("packet-size").map(|second| adapting.size_median[second]));
    assert!(under_load < 0.8 * FULL, "the median byte travelled in {under_load:.0} bytes");
    let smallest =
        adapting.size_p10.iter().filter(|v| **v > 0.0).fold(f64::INFINITY, |a, b| a.min(*b));
    assert!(smallest >= 240.0, "{smallest} bytes: below the controller's smallest size");
}

#[test]
fn committed_packet_size_figure_matches_the_drawing() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures/packet-size-quiche.svg");
    let drawn = svg();
    if std::env::var_os("FATHOM_DRAW").is_some() {
        std::fs::write(&path, &drawn).expect("a figure");
    }
    // A checkout may have changed the line endings.
    let committed = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    let hint = "FATHOM_DRAW=1 cargo test -p fathom-experiments --features quiche --test experiments-tests packet_size_figure::";
    assert!(
        committed == drawn,
        "not as drawn: {}; look what changed, then draw anew: {hint}",
        path.display()
    );
}

// ---- the drawing ----

const SIZE: (u32, u32) = (900, 840);
const GRID: RGBColor = RGBColor(225, 225, 225);
const COLOURS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0)];

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;
type Points = Vec<(f64, f64)>;

fn svg() -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&area).expect("drawing into a string");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn draw(area: &Panel<'_>) -> Drawn {
    area.fill(&WHITE)?;
    let panels = area.split_evenly((3, 1));
    let at = |second: usize| second as f64 + 0.5;
    let end = CONTROLLERS.iter().map(|c| run(c).outcome.seconds).fold(0.0, f64::max).ceil();
    let sizes = |of: fn(&SharesOverTime) -> &Vec<f64>, c: &str| -> Points {
        of(shares(c))
            .iter()
            .enumerate()
            .filter(|(_, v)| **v > 0.0)
            .map(|(s, v)| (at(s), *v))
            .collect()
    };
    let some = |values: &[Option<f64>]| -> Points {
        values.iter().enumerate().filter_map(|(s, v)| Some((at(s), (*v)?))).collect()
    };
    let mut chart = axes(&panels[0], end, 1_500.0, "UDP payload (bytes)")?;
    for (controller, colour) in CONTROLLERS.into_iter().zip(COLOURS) {
        let (low, high) = (sizes(|s| &s.size_p10, controller), sizes(|s| &s.size_p90, controller));
        let band = low.into_iter().chain(high.into_iter().rev()).collect::<Vec<_>>();
        chart.draw_series(std::iter::once(Polygon::new(band, colour.mix(0.2).filled())))?;
        let name = format!(
            "{controller}: the median byte's packet; band: a tenth to nine tenths of the bytes"
        );
        line(&mut chart, sizes(|s| &s.size_median, controller), colour, name)?;
    }
    legend(&mut chart, SeriesLabelPosition::MiddleRight)?;
    let mut chart = axes(&panels[1], end, 1.0, "Jain's index, 1 s")?;
    for (controller, colour) in CONTROLLERS.into_iter().zip(COLOURS) {
        line(&mut chart, some(&shares(controller).jain), colour, controller.to_owned())?;
    }
    legend(&mut chart, SeriesLabelPosition::LowerRight)?;
    let mut chart = axes(&panels[2], end, 100.0, "starving flows (%)")?;
    for (controller, colour) in CONTROLLERS.into_iter().zip(COLOURS) {
        line(
            &mut chart,
            some(&shares(controller).starved_percent),
            colour,
            format!("{controller}: below 5 % of the fair rate"),
        )?;
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)?;
    area.present()?;
    Ok(())
}

type Chart<'a, 'b> = ChartContext<
    'b,
    SVGBackend<'a>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn axes<'a, 'b>(
    panel: &'b Panel<'a>,
    end: f64,
    top: f64,
    name: &str,
) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(panel)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    let digits = if top <= 1.0 { 1 } else { 0 };
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .x_labels(12)
        .y_labels(6)
        .x_label_formatter(&|v| format!("{v:.0}"))
        .y_label_formatter(&|v| format!("{v:.digits$}"))
        .x_desc("seconds")
        .y_desc(name)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    Ok(chart)
}

fn line(chart: &mut Chart<'_, '_>, points: Points, colour: RGBColor, name: String) -> Drawn {
    let style = colour.stroke_width(2);
    chart
        .draw_series(LineSeries::new(points, style))?
        .label(name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    Ok(())
}

fn legend<'a: 'b, 'b>(chart: &mut Chart<'a, 'b>, position: SeriesLabelPosition) -> Drawn {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .label_font(("sans-serif", 13))
        .margin(6)
        .draw()?;
    Ok(())
}
