//! Selection of tables and figures from user input: names, lists and ranges.

use fathom_cc::Invalid;

use super::{ArtefactSpec, Paper};

/// Returns the paper with this name.
///
/// # Errors
/// Returns an error with the names of all papers if there is no such paper.
pub fn find<'p>(papers: &'p [Paper], name: &str) -> Result<&'p Paper, Invalid> {
    papers.iter().find(|paper| paper.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<&str> = papers.iter().map(|paper| paper.name).collect();
        let known =
            if known.is_empty() { "none of this build".to_owned() } else { known.join(", ") };
        Invalid::because(format!("no paper '{name}' is reproduced here; write one of {known}"))
    })
}

/// Returns the requested tables and figures in the paper's order; without figures and tables, all
/// of them. Each text is a name (`4`, `3-4`), a range (`4-6`) or a list of these (`4,5,7-9`); names
/// take precedence over ranges. A number within a name that is a range (`4.5` of `4.4-4.7`) selects
/// that name.
///
/// # Errors
/// Returns an error with the available names if the paper has no such table or figure.
pub fn select<'p>(
    paper: &'p Paper,
    figures: &[String],
    tables: &[String],
) -> Result<Vec<&'p ArtefactSpec>, Invalid> {
    if figures.is_empty() && tables.is_empty() {
        return Ok(paper.artefacts.iter().collect());
    }
    let mut chosen = Vec::new();
    for (kind, texts) in [("figure", figures), ("table", tables)] {
        for piece in texts.iter().flat_map(|text| text.split(',')).map(str::trim) {
            let found = of_piece(paper, kind, piece);
            if found.is_empty() {
                return Err(unknown(paper, kind, piece));
            }
            chosen.extend(found);
        }
    }
    Ok(paper.artefacts.iter().filter(|wanted| chosen.contains(&wanted.id)).collect())
}

fn unknown(paper: &Paper, kind: &str, piece: &str) -> Invalid {
    let ids: Vec<&str> = paper.artefacts.iter().map(|wanted| wanted.id).collect();
    let ids = if ids.is_empty() { "nothing".to_owned() } else { ids.join(", ") };
    Invalid::because(format!(
        "no {kind} '{piece}' of {} is reproduced here; there are {ids}",
        paper.name
    ))
}

/// Returns the name without the kind. Our own tables, which the paper does not have, are called by
/// their whole name.
fn name_as(id: &'static str, kind: &str) -> Option<&'static str> {
    let of = |kind: &str| id.strip_prefix(kind)?.strip_prefix(' ');
    let ours = || (kind == "table" && of("figure").is_none()).then_some(id);
    of(kind).or_else(ours)
}

/// Returns the ids of the artefacts that an item of a list selects.
fn of_piece(paper: &Paper, kind: &str, piece: &str) -> Vec<&'static str> {
    let named = |wanted: &ArtefactSpec| Some((wanted.id, name_as(wanted.id, kind)?));
    let all = || paper.artefacts.iter().filter_map(named);
    if let Some((id, _)) = all().find(|(_, name)| name.eq_ignore_ascii_case(piece)) {
        return vec![id];
    }
    let Some((low, high)) = span(piece) else { return Vec::new() };
    let meets = |name: &str| span(name).is_some_and(|(from, to)| low <= to && from <= high);
    all().filter(|(_, name)| meets(name)).map(|(id, _)| id).collect()
}

/// Parses `4.4-4.7` into its first and last number; a single number is both. Dots separate the
/// parts of a number.
fn span(text: &str) -> Option<(Vec<u32>, Vec<u32>)> {
    let number = |text: &str| {
        text.trim().split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::PAPERS;

    fn ids(figures: &[&str], tables: &[&str]) -> Result<Vec<&'static str>, Invalid> {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let chosen = select(&PAPERS[0], &owned(figures), &owned(tables))?;
        Ok(chosen.into_iter().map(|wanted| wanted.id).collect())
    }

    #[test]
    fn figures_and_tables_are_selected_by_name_list_or_range() {
        // table 1, figure 3-4, figure 5, figure 4.4-4.7, figure 10, figure A
        assert_eq!(ids(&[], &[]).unwrap().len(), 6);
        assert_eq!(ids(&["5"], &["1"]).unwrap(), ["table 1", "figure 5"]);
        assert_eq!(ids(&["10", "5"], &[]).unwrap(), ["figure 5", "figure 10"]);
        assert_eq!(ids(&["10, 5,5"], &[]).unwrap(), ["figure 5", "figure 10"]);
        assert_eq!(ids(&["3-4"], &[]).unwrap(), ["figure 3-4"]);
        assert_eq!(ids(&["4.4-4.7"], &[]).unwrap(), ["figure 4.4-4.7"]);
        assert_eq!(ids(&["4.5"], &[]).unwrap(), ["figure 4.4-4.7"]);
        assert_eq!(ids(&["4"], &[]).unwrap(), ["figure 3-4"]);
        assert_eq!(ids(&["5-10"], &[]).unwrap(), ["figure 5", "figure 10"]);
        assert_eq!(ids(&["a"], &[]).unwrap(), ["figure A"]);
    }

    #[test]
    fn error_for_an_unknown_figure_lists_the_known_figures() {
        for (figures, tables, wrong) in [
            (&["6"][..], &[][..], "figure '6'"),
            (&["5,"], &[], "figure ''"),
            (&[], &["2"], "table '2'"),
        ] {
            let error = ids(figures, tables).unwrap_err().to_string();
            for said in [wrong, "table 1, figure 3-4, figure 5, figure 4.4-4.7, figure 10"] {
                assert!(error.contains(said), "'{said}' is not in: {error}");
            }
        }
        assert!(
            ids(&["10-5"], &[]).is_err()
                && ids(&["99999999999"], &[]).is_err()
                && ids(&["1"], &[]).is_err()
        );
    }

    #[test]
    fn papers_are_found_by_name() {
        assert_eq!(find(PAPERS, "Made-Up").unwrap().name, "made-up");
        assert!(find(PAPERS, "other").unwrap_err().to_string().contains("made-up"));
        assert!(find(&[], "other").is_err());
    }
}
