//! Visual styles of curves on pages. Each curve number has its own combination of colour, dashes
//! and mark. Colours are CSS variables, so that pages work in light and dark mode. Standalone
//! drawings use the light colours.

use std::fmt::Write;

/// Colours in light and in dark mode. Colour-blind readers can distinguish neighbouring colours on
/// either background.
const COLOURS: [(&str, &str); 12] = [
    ("#0072b2", "#5ab4e8"),
    ("#d55e00", "#ff8a4c"),
    ("#00805c", "#3cc9a0"),
    ("#b5488c", "#e59ac6"),
    ("#a67c00", "#f0c04a"),
    ("#3a9bd9", "#9fd3f5"),
    ("#7a3b00", "#d0a070"),
    ("#6a3fb5", "#b39df5"),
    ("#c2185b", "#ff7aa2"),
    ("#4d7d0f", "#a9d15a"),
    ("#008b94", "#4fd3dc"),
    ("#334a9e", "#94a8f0"),
];
/// Dash patterns: none, long, dotted, and two mixed patterns.
const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "12 3 2 3 2 3"];
/// Colour of reference curves in the background, in light and dark mode.
const GREY: (&str, &str) = ("#8a8a8a", "#8f8f96");
/// Colour of grid lines behind the curves, in light and dark mode.
const LINES: (&str, &str) = ("#e1e1e1", "#3a3a40");

/// Visual style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pen {
    /// Style of the curve with this number. Sixty numbers have different styles.
    Of(usize),
    /// Style of a reference curve in the background.
    Grey,
    /// Style of a second kind of background curve: a bound, or an ideal that cannot be reached.
    Dotted,
}

impl Pen {
    /// Returns the colour for an SVG attribute.
    pub(crate) fn colour(self) -> String {
        match self {
            Self::Of(i) => {
                format!("var(--c{},{})", i % COLOURS.len(), COLOURS[i % COLOURS.len()].0)
            }
            Self::Grey | Self::Dotted => format!("var(--grey,{})", GREY.0),
        }
    }

    /// Returns the dash pattern, which is empty for a solid line.
    pub(crate) fn dashes(self) -> &'static str {
        match self {
            Self::Of(i) => DASHES[(i + i / COLOURS.len()) % DASHES.len()],
            Self::Grey => "",
            Self::Dotted => DASHES[2],
        }
    }

    /// Returns the shape of the mark, which is one of five shapes.
    pub(crate) fn mark(self) -> usize {
        match self {
            Self::Of(i) => i % 5,
            Self::Grey | Self::Dotted => 0,
        }
    }

    /// Returns whether the curve is in the background.
    pub(crate) fn is_behind(self) -> bool {
        !matches!(self, Self::Of(_))
    }
}

/// Returns the colour of grid lines for an SVG attribute.
pub(crate) fn behind() -> String {
    format!("var(--line,{})", LINES.0)
}

/// Returns the CSS variables for the style of a page.
pub(crate) fn variables() -> String {
    let of = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let mut text = format!("--grey:{};--line:{};", pick(&GREY), pick(&LINES));
        for (i, colour) in COLOURS.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(text, "--c{i}:{};", pick(colour));
        }
        text
    };
    format!(":root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}", of(|c| c.0), of(|c| c.1))
}

/// Converts a drawing to a standalone one. It has a size in pixels, no variables, and dark letters
/// on white.
pub(crate) fn alone(svg: &str) -> String {
    let mut text = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some((before, after)) = rest.split_once("var(--") {
        text += before;
        let (name, after) = after.split_once(')').unwrap_or((after, ""));
        text += name.split_once(',').map_or("#000", |(_, colour)| colour);
        rest = after;
    }
    text += rest;
    let view = text.split_once("viewBox=\"0 0 ").and_then(|(_, rest)| rest.split_once('"'));
    if let Some((width, height)) = view.and_then(|(size, _)| size.split_once(' ')) {
        let size = format!("<svg width=\"{width}\" height=\"{height}\"");
        text = text.replacen("<svg", &size, 1);
    }
    let ground = "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"></rect>";
    let end = text.find('>').map_or(0, |at| at + 1);
    text.insert_str(end, ground);
    text.replace("currentColor", "#222")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_curve_styles_all_differ() {
        let looks: std::collections::BTreeSet<(String, &str)> =
            (0..60).map(|i| (Pen::Of(i).colour(), Pen::Of(i).dashes())).collect();
        assert_eq!(looks.len(), 60);
        let colours: std::collections::BTreeSet<String> =
            (0..12).map(|i| Pen::Of(i).colour()).collect();
        assert_eq!(colours.len(), 12);
    }

    #[test]
    fn standalone_drawing_contains_no_css_variables() {
        let drawing = format!(
            "<svg a=\"b\"><path stroke=\"{}\" fill=\"currentColor\"></path></svg>",
            Pen::Of(1).colour()
        );
        let alone = alone(&drawing);
        assert!(!alone.contains("var(") && !alone.contains("currentColor"), "{alone}");
        assert!(
            alone.starts_with("<svg a=\"b\"><rect") && alone.contains("stroke=\"#d55e00\""),
            "{alone}"
        );
    }
}
