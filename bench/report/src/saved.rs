//! Downloads embedded in a page: each plot as SVG, with its numbers as CSV. Also figures of several
//! panels.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use crate::curves::scales;
use crate::data::{Figure, Series};
use crate::pen::{Pen, alone};
use crate::plot::{PANEL, draw, plot_with};

/// Maximum number of curves in one plot. If a figure has more curves, each curve gets its own
/// panel.
pub const MOST_CURVES: usize = 5;

/// Formats a cell of CSV (RFC 4180).
pub(crate) fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Formats the curves of a figure as CSV, one row per point.
pub fn csv(figure: &Figure) -> String {
    let mut csv =
        format!("series,{},{},half_width_95\n", cell(&figure.x.label), cell(&figure.y.label));
    for series in &figure.series {
        let half =
            |i: usize| series.spread.as_ref().and_then(|spread| spread.get(i)).map(f64::to_string);
        for (i, (x, y)) in series.points.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(csv, "{},{x},{y},{}", cell(&series.name), half(i).unwrap_or_default());
        }
    }
    csv
}

/// Encodes a text as a data URI.
fn data_uri(kind: &str, text: &str) -> String {
    let mut uri = format!("data:{kind};charset=utf-8,");
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => uri.push(byte as char),
            b'-' | b'_' | b'.' | b'~' | b',' | b'/' | b':' | b';' | b'=' | b'(' | b')' => {
                uri.push(byte as char)
            }
            // Writing to a string cannot fail.
            byte => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

/// Converts a name to a valid file name.
fn file(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().take(60).map(kept).collect();
    name.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// Returns a drawing with its name for screen readers, and with links that save the drawing and its
/// numbers.
pub fn shown(title: &str, drawing: &str, csv: &str) -> Markup {
    html! {
        figure {
            div role="img" aria-label=(title) { (PreEscaped(drawing)) }
            (links(title, Some(drawing), Some(csv)))
        }
    }
}

fn links(title: &str, drawing: Option<&str>, csv: Option<&str>) -> Markup {
    let name = file(title);
    html! {
        p.save {
            @if let Some(drawing) = drawing {
                a href=(data_uri("image/svg+xml", &alone(drawing))) download={ (name) ".svg" } { "SVG" }
                " "
            }
            @if let Some(csv) = csv { a href=(data_uri("text/csv", csv)) download={ (name) ".csv" } { "CSV" } }
        }
    }
}

/// Returns a figure for a page. The text is empty if there is nothing to draw. Up to
/// [`MOST_CURVES`] curves share one plot. More curves get a panel each, with the first curve in
/// grey for reference. Curves keep their pens in either form.
pub fn figure(title: &str, figure: &Figure) -> Markup {
    let pens: Vec<Pen> = (0..figure.series.len()).map(Pen::Of).collect();
    figure_with(title, figure, &pens)
}

/// Returns a figure like [`figure`], with a given pen for each curve. Background curves appear in
/// every panel.
pub fn figure_with(title: &str, figure: &Figure, pens: &[Pen]) -> Markup {
    let drawn = figure.series.iter().filter(|s| !s.points.is_empty()).count();
    if drawn > MOST_CURVES {
        return panels(title, figure, pens);
    }
    match plot_with(figure, pens) {
        Some(drawing) => shown(title, &drawing, &csv(figure)),
        None => html! {},
    }
}

fn panels(title: &str, figure: &Figure, pens: &[Pen]) -> Markup {
    let Some(common) = scales(figure) else { return html! {} };
    let drawn = |i: &usize| !figure.series[*i].points.is_empty();
    let all = || (0..figure.series.len()).filter(drawn);
    let base = all().find(|i| !pens[*i].is_behind());
    let behind: Vec<(Series, Pen)> = all()
        .filter(|i| Some(*i) == base || pens[*i].is_behind())
        .map(|i| (figure.series[i].clone(), if pens[i].is_behind() { pens[i] } else { Pen::Grey }))
        .collect();
    let panel = |i: usize| {
        let series = &figure.series[i];
        let others = behind.iter().filter(|(other, _)| other.name != series.name).cloned();
        let (curves, looks) =
            others.chain([(series.clone(), pens[i])]).unzip::<_, _, Vec<_>, Vec<_>>();
        let of_panel = Figure { series: curves, ..figure.clone() };
        let drawing = draw(&of_panel, &looks, PANEL, common, false)?;
        Some((series.name.clone(), drawing))
    };
    let all: Vec<(String, String)> =
        all().filter(|i| !pens[*i].is_behind()).filter_map(panel).collect();
    let said = |(series, pen): &(Series, Pen)| match pen {
        Pen::Dotted => format!("dotted: {}", series.name),
        _ => format!("in grey: {}", series.name),
    };
    let said: Vec<String> = behind.iter().map(said).collect();
    html! {
        p.note { "In every panel, " (said.join("; ")) "." }
        div.panels {
            @for (name, drawing) in all {
                figure {
                    figcaption { (name) }
                    div role="img" aria-label={ (title) ", " (name) } { (PreEscaped(&drawing)) }
                    (links(&format!("{title} {name}"), Some(&drawing), None))
                }
            }
        }
        (links(title, None, Some(&csv(figure))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Axis;

    fn many(curves: usize) -> Figure {
        let line = |i: usize| Series::line(format!("c{i}"), vec![(0.0, i as f64), (1.0, 2.5)]);
        Figure {
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: (0..curves).map(line).collect(),
        }
    }

    #[test]
    fn few_curves_share_one_plot_and_many_get_panels() {
        let few = figure("a title", &many(5)).into_string();
        assert_eq!(
            (few.matches("<svg").count(), few.matches("download=\"a-title.svg\"").count()),
            (1, 1)
        );
        let panels = figure("a title", &many(12)).into_string();
        assert_eq!(panels.matches("<svg").count(), 12);
        assert!(
            panels.contains("In every panel, in grey: c0.")
                && panels.contains("download=\"a-title-c11.svg\"")
        );
    }

    #[test]
    fn saved_page_contains_numbers_and_drawings() {
        assert_eq!(csv(&many(1)), "series,x,y,half_width_95\nc0,0,0,\nc0,1,2.5,\n");
        let page = figure("t", &many(2)).into_string();
        assert!(
            page.contains("data:text/csv;charset=utf-8,series,x,y")
                && page.contains("data:image/svg+xml")
        );
        assert_eq!(data_uri("a/b", "#%é"), "data:a/b;charset=utf-8,%23%25%C3%A9");
        assert_eq!(
            (file("Queue over time (s)"), cell("a\"b")),
            ("queue-over-time-s".into(), "\"a\"\"b\"".into())
        );
    }
}
