//! Common parts of all HTML pages and all lines for a terminal.

use std::borrow::Cow;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::pen::variables;

/// Style of all pages, for light and dark mode.
const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff}body{background:var(--page);font:16px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em}\
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid #8884}th:first-child,td:first-child{text-align:left}\
thead tr:first-child:not(:last-child) th{border-bottom-width:0}th.over{text-align:left}figure{margin:1em 0}\
.wide{overflow-x:auto}.wide td:first-child{min-width:9em;overflow-wrap:anywhere}.wide td:first-child,.wide th:first-child{position:sticky;left:0;background:var(--page)}svg{display:block;width:100%;max-width:720px;height:auto}.note{color:#6b6b6b}\
details{margin:.5em 0}summary{cursor:pointer;color:#6b6b6b}code{font-size:.95em}pre{overflow-x:auto}code,li{overflow-wrap:anywhere}\
.sideways{display:none;margin:.3em 0;font-size:.85em}.answer{font-size:1.15em}.save{margin:.2em 0;font-size:.85em}.save a{margin-right:.8em}\
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(260px,1fr));gap:1em}.panels figure{margin:0}figcaption{font-weight:600;overflow-wrap:anywhere}\
@media(max-width:480px){.under-480{display:block}}@media(max-width:640px){.under-640{display:block}body{margin:1em auto}}\
@media(max-width:800px){.under-800{display:block}}@media(max-width:960px){.under-960{display:block}}\
@media(prefers-color-scheme:dark){:root{--page:#1b1b1f}body{color:#e4e4e7}.note,summary{color:#a2a2aa}a{color:#7cc0f5}}";

/// Returns a self-contained page: no scripts and no external resources. `style` is added to the
/// common style.
pub fn page(title: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) }
                meta name="viewport" content="width=device-width";
                style { (PreEscaped(variables())) (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { h1 { (title) } (body) }
        }
    };
    page.into_string() + "\n"
}

/// Makes any text safe for a terminal. Escapes characters that move the cursor, change colours,
/// ring the bell or reverse the writing direction. Also escapes line ends, so the result is one
/// line.
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
