//! A dot with its interval in each row, which shows the result of a comparison at a glance.

use maud::html;

use crate::curves::fitting_range;
use crate::data::Axis;
use crate::pen::{Pen, behind};
use crate::plot::{line, mark, shortened, text, tick, whisker};
use crate::saved::cell;
use crate::scale::{Scale, number};

const WIDTH: f64 = 520.0;
/// Height of a row in pixels: its name, and the dot below the name.
const ROW: f64 = 50.0;
const LEFT: f64 = 12.0;
const TOP: f64 = 34.0;
/// Maximum number of characters of a row's name.
const NAME: usize = 36;

/// One row.
#[derive(Clone, Debug)]
pub struct Whisker {
    /// Name of the row.
    pub name: String,
    /// Position of the dot; `None` if the row has no dot.
    pub value: Option<f64>,
    /// Both ends of the interval.
    pub interval: Option<(f64, f64)>,
    /// Single values from which the mean was computed.
    pub samples: Vec<f64>,
    /// Text to the right of the name.
    pub note: String,
    /// Visual style.
    pub pen: Pen,
}

/// Rows over a common axis.
#[derive(Clone, Debug)]
pub struct Whiskers {
    /// Axis of all rows.
    pub axis: Axis,
    /// Reference value and its name.
    pub mark: Option<(f64, String)>,
    /// Rows from top to bottom.
    pub rows: Vec<Whisker>,
}

impl Whiskers {
    /// Returns the drawing; `None` if there is nothing to draw.
    pub fn svg(&self) -> Option<String> {
        let ends = |row: &Whisker| {
            let (low, high) = self.interval(row).unzip();
            [row.value, low, high]
                .into_iter()
                .flatten()
                .chain(row.samples.iter().copied())
                .collect::<Vec<f64>>()
        };
        let values = self.rows.iter().flat_map(ends).chain(self.mark.as_ref().map(|mark| mark.0));
        self.rows.iter().find(|row| row.value.is_some())?;
        let scale = Scale::new(fitting_range(&self.axis, values)?, self.axis.log)?;
        let (low, high) = scale.ends();
        let at =
            |v: f64| Some(LEFT + (WIDTH - 2.0 * LEFT) * (scale.place(v)? - low) / (high - low));
        let bottom = TOP + ROW * self.rows.len() as f64 + 6.0;
        let behind = behind();
        let drawing = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (bottom + 44.0) }
                font-family="system-ui,sans-serif" font-size="14" {
                @for value in scale.ticks(7) {
                    @if let Some(x) = at(value) {
                        (line((x, bottom), (x, bottom + 5.0), "currentColor", 1.0))
                        (tick(x, bottom + 20.0, &number(value), WIDTH))
                    }
                }
                (line((LEFT, bottom), (WIDTH - LEFT, bottom), "currentColor", 1.0))
                @if let Some((value, name)) = &self.mark {
                    @if let Some(x) = at(*value) {
                        (text(x.clamp(LEFT, WIDTH - LEFT), TOP - 18.0, anchor(x), &shortened(name, 30)))
                    }
                }
                @for (i, row) in self.rows.iter().enumerate() {
                    @let (top, y) = (TOP + ROW * i as f64 + 8.0, TOP + ROW * i as f64 + 27.0);
                    @let colour = row.pen.colour();
                    // Vertical lines are interrupted at the text of each row.
                    @for x in scale.ticks(7).into_iter().filter_map(at) {
                        (line((x, y - 12.0), (x, y + 12.0), &behind, 1.0))
                    }
                    @if let Some(x) = self.mark.as_ref().and_then(|mark| at(mark.0)) {
                        (line((x, y - 12.0), (x, y + 12.0), "currentColor", 1.5))
                    }
                    g font-weight="600" { (text(LEFT, top, "start", &shortened(&row.name, NAME))) }
                    (text(WIDTH - LEFT, top, "end", &row.note))
                    @for x in row.samples.iter().filter_map(|v| at(*v)) {
                        (line((x, y - 4.0), (x, y + 4.0), &colour, 1.0))
                    }
                    @if let Some((from, to)) = self.interval(row).and_then(|(low, high)| Some((at(low)?, at(high)?))) {
                        (whisker((from, y), (to, y), &colour, 2.0))
                    }
                    @if let Some(x) = row.value.and_then(at) { (mark((x, y), 5.5, &colour, row.pen.mark())) }
                }
                (text(WIDTH - LEFT, bottom + 37.0, "end", &self.axis.label))
            }
        };
        Some(drawing.into_string())
    }

    /// Returns a row's interval as drawn, cut at the bounds of the measure.
    fn interval(&self, row: &Whisker) -> Option<(f64, f64)> {
        let (mean, ends) = (row.value?, row.interval?);
        Some(self.axis.bounds.cut(mean, ends).0)
    }

    /// Returns the numbers as CSV.
    pub fn csv(&self) -> String {
        let mut csv = format!("name,{},interval_low,interval_high\n", cell(&self.axis.label));
        let shown = |v: Option<f64>| v.map(|v| v.to_string()).unwrap_or_default();
        for row in &self.rows {
            let (low, high) = self.interval(row).unzip();
            csv += &format!(
                "{},{},{},{}\n",
                cell(&row.name),
                shown(row.value),
                shown(low),
                shown(high)
            );
        }
        csv
    }
}

/// Returns the text anchor with which a text at this position stays within the drawing.
fn anchor(x: f64) -> &'static str {
    match x / WIDTH {
        part if part < 0.25 => "start",
        part if part > 0.75 => "end",
        _ => "middle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whisker_plot_rows_have_dots_whiskers_and_numbers() {
        let row = |name: &str, value, interval| Whisker {
            name: name.into(),
            value,
            interval,
            samples: vec![1.0],
            note: "12 ms".into(),
            pen: Pen::Of(1),
        };
        let rows = vec![
            row("a,b", Some(-20.0), Some((-25.0, -15.0))),
            row("c", Some(0.0), None),
            row("d", None, None),
        ];
        let plot =
            Whiskers { axis: Axis::linear("change (%)"), mark: Some((0.0, "reno".into())), rows };
        let svg = plot.svg().unwrap();
        assert!(
            svg.contains("reno")
                && svg.contains("12 ms")
                && svg.contains("change (%)")
                && !svg.contains("NaN")
        );
        assert_eq!(
            plot.csv(),
            "name,change (%),interval_low,interval_high\n\"a,b\",-20,-25,-15\nc,0,,\nd,,,\n"
        );
        assert!(Whiskers { rows: Vec::new(), ..plot }.svg().is_none());
    }
}
