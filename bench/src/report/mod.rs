//! Reports: a table for the terminal, one self-contained HTML file with plots. Both are pure functions of a [`Comparison`], so the
//! same run gives the same bytes.
//!
//! [`paper`] has the reports of papers, [`analysis`] those of `fathom analyze`.
//!
//! [`Comparison`]: crate::experiment::Comparison

pub mod analysis;
mod html;
pub mod paper;
mod plot;
mod table;

use std::borrow::Cow;

pub use html::html;
pub use table::table;

/// A text fit for a terminal, whoever wrote it: what moves its cursor, colours it, rings, or turns the writing direction round is shown as an
/// escape. One line: ends of lines are, too.
pub fn plain(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let acts = |c: char| c.is_control() || turns(c);
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests;
