//! Recognises trace formats other than Mahimahi's, and explains how to convert each of them.

/// Number of lines examined to recognise a format.
const LOOKED_AT: usize = 50;
/// Rate of a trace with a single column, in bits per second, above which its times must be seconds
/// instead of milliseconds.
const NO_LINK: f64 = 1e10;

/// Cells of a trace's lines, and whether commas separate them.
struct Columns<'a> {
    lines: Vec<Vec<&'a str>>,
    comma: bool,
}

/// Explains the format of a trace that does not have one whole number per line, and how to convert
/// the trace. The text follows the offending line in an error message.
pub(super) fn explain(text: &str) -> String {
    let plain = "a trace in Mahimahi's format has one whole number of milliseconds per line";
    let begins = text.trim_start_matches('\u{feff}').trim_start();
    if begins.starts_with(['{', '[']) {
        return format!("the file is JSON; {plain}");
    }
    if begins.starts_with(['#', '%']) || begins.starts_with("//") {
        return format!(
            "{plain} and no comments; remove the comments with: grep '^[0-9]' TRACE > NEW"
        );
    }
    let columns = Columns::of(begins);
    match columns.head() {
        Some(head) => format!(
            "the file is a table with the columns {}; {plain}. If the first column is in seconds \
             and the second in Mbps, convert the table with: {}",
            head.join(", "),
            convert("awk -F, 'NR>1 {", "NR==2")
        ),
        None => columns.explain(plain),
    }
}

/// Returns the command that converts lines of seconds and Mbps. Each rate lasts until the time of
/// its line, as in Pensieve.
fn convert(awk: &str, first: &str) -> String {
    format!(
        "{awk} if ({first}) o=$1; for (; t<($1-o)*1000; t++) {{ b+=$2*125; while (b>=1500) {{ b-=1500; print t+1 }} }} }}' TRACE > NEW"
    )
}

impl<'a> Columns<'a> {
    fn of(text: &'a str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LOOKED_AT);
        let comma = lines.clone().next().is_some_and(|line| line.contains(','));
        let cells = |line: &'a str| -> Vec<&'a str> {
            if comma {
                line.split(',').map(str::trim).collect()
            } else {
                line.split_whitespace().collect()
            }
        };
        Self { lines: lines.map(cells).collect(), comma }
    }

    /// Returns the names of the columns; `None` if the first line has no names.
    fn head(&self) -> Option<Vec<String>> {
        let head = self
            .lines
            .first()
            .filter(|head| self.comma && head.iter().any(|cell| number(cell).is_none()))?;
        Some(
            head.iter()
                .take(8)
                .map(|cell| cell.chars().take(20).collect::<String>().escape_debug().to_string())
                .collect(),
        )
    }

    fn explain(&self, plain: &str) -> String {
        let numbers: Option<Vec<Vec<f64>>> =
            self.lines.iter().map(|line| line.iter().map(|cell| number(cell)).collect()).collect();
        let Some(numbers) = numbers else { return plain.to_owned() };
        let width = numbers.first().map_or(0, Vec::len);
        let rises = numbers.windows(2).all(|pair| pair[0].first() <= pair[1].first());
        if numbers.iter().any(|line| line.len() != width) || !rises {
            return plain.to_owned();
        }
        match (width, self.comma) {
            (1, _) => {
                let last = numbers.last().and_then(|line| line.first()).copied().unwrap_or(0.0);
                let is_seconds = numbers.len() as f64 * 12e3 / (last / 1e3).max(1e-9) > NO_LINK;
                let (unit, factor) =
                    if is_seconds { ("seconds", "*1000") } else { ("milliseconds", "") };
                format!(
                    "the times of the file are {unit} with decimals; {plain}. Convert the file \
                     with: awk '{{ printf \"%.0f\\n\", $1{factor} }}' TRACE > NEW"
                )
            }
            (2, false) => {
                format!(
                    "the file is a trace in Pensieve's format (seconds and Mbps); {plain}. Convert \
                     the trace with: {}",
                    convert("awk '{", "NR==1")
                )
            }
            (2, true) => format!(
                "the file has two numbers per line; {plain}. If the numbers are seconds and Mbps, \
                 convert the file with: {}",
                convert("awk -F, '{", "NR==1")
            ),
            (width, _) => format!("the file has {width} numbers per line; {plain}"),
        }
    }
}

fn number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|n: &f64| n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_trace_formats_are_named_with_their_conversion() {
        for (text, says) in [
            ("0.0 4.03\n1.0 2.11\n", "Pensieve's format"),
            ("0,4.03\n1,2.11\n", "two numbers per line"),
            ("time,throughput\n0,4\n1,5\n", "columns time, throughput"),
            ("0.5\n12.25\n30.75\n", "milliseconds with decimals"),
            ("0.0001\n0.0002\n0.0003\n0.0004\n", "seconds with decimals"),
            ("# a comment\n1\n", "no comments"),
            ("{\"a\":1}", "JSON"),
            ("1 2 3\n2 3 4\n", "3 numbers per line"),
            ("up down\n", "one whole number"),
        ] {
            let line = explain(text);
            assert!(line.contains(says) && !line.contains('\n'), "{text}: {line}");
        }
    }
}
