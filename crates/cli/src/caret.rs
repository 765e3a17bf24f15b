//! Shows where in a script something is wrong: the line, and carets under the place.

use std::fmt::Write;

use millrace_control_plane::problem::ProblemItem;

/// Longest part of a source line that is shown; a longer one is cut around the place.
const MAX_WIDTH: usize = 160;

/// One finding about `source`, which `file` holds:
///
/// ```text
/// error[unknown-column]: there is no column `detay`
///   --> flights.sql:12:15
///    |
/// 12 | SELECT carrier, detay
///    |                 ^^^^^
///    = hint: did you mean `delay`?
/// ```
pub(crate) fn render(item: &ProblemItem, file: &str, source: &str) -> String {
    let mut text = String::new();
    let severity = item.severity.as_deref().unwrap_or("error");
    // Writing to a String cannot fail, so results are dropped throughout.
    let _ = match &item.code {
        Some(code) => writeln!(text, "{severity}[{code}]: {}", item.message),
        None => writeln!(text, "{severity}: {}", item.message),
    };
    if let (Some(line), Some(column)) = (item.line, item.column) {
        snippet(&mut text, item, file, source, line, column);
    }
    if let Some(hint) = &item.hint {
        let _ = writeln!(text, "   = hint: {hint}");
    }
    text
}

fn snippet(
    text: &mut String,
    item: &ProblemItem,
    file: &str,
    source: &str,
    line: u64,
    column: u64,
) {
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let _ = writeln!(text, "{gutter}--> {file}:{line}:{column}");
    let index = usize::try_from(line)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let Some(source_line) = source.lines().nth(index) else {
        return;
    };
    let chars: Vec<char> = source_line
        .chars()
        .map(|c| if c == '\t' || c.is_control() { ' ' } else { c })
        .collect();
    let start = usize::try_from(column)
        .unwrap_or(usize::MAX)
        .saturating_sub(1)
        .min(chars.len());
    let end = match (item.end_line, item.end_column) {
        (Some(end_line), Some(end)) if end_line == line => {
            usize::try_from(end).unwrap_or(usize::MAX).saturating_sub(1)
        }
        // The finding goes on in later lines.
        (Some(end_line), Some(_)) if end_line > line => chars.len(),
        _ => start + 1,
    };
    let end = end.clamp(start + 1, chars.len().max(start + 1));
    let first = if chars.len() > MAX_WIDTH {
        start.saturating_sub(MAX_WIDTH / 2)
    } else {
        0
    };
    let last = chars.len().min(first + MAX_WIDTH);
    let shown: String = chars[first..last].iter().collect();
    let carets = end.min(last.max(start + 1)) - start;
    let _ = writeln!(text, "{gutter} |");
    let _ = writeln!(text, "{number} | {}", shown.trim_end());
    let _ = writeln!(
        text,
        "{gutter} | {}{}",
        " ".repeat(start - first),
        "^".repeat(carets)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: u64, column: u64, end_line: u64, end_column: u64) -> ProblemItem {
        ProblemItem {
            message: "there is no column `b`".to_owned(),
            severity: Some("error".to_owned()),
            code: Some("unknown-column".to_owned()),
            line: Some(line),
            column: Some(column),
            end_line: Some(end_line),
            end_column: Some(end_column),
            hint: Some("did you mean `a`?".to_owned()),
            ..ProblemItem::default()
        }
    }

    #[test]
    fn carets_stand_under_the_place() {
        let source = "SELECT a,\n\tbee\nFROM t";
        let text = render(&item(2, 2, 2, 5), "q.sql", source);
        let expected = "error[unknown-column]: there is no column `b`\n \
                        --> q.sql:2:2\n  |\n2 |  bee\n  |  ^^^\n   = hint: did you mean `a`?\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn wide_characters_count_once_and_several_lines_end_with_the_first() {
        let source = "SELECT 'äöü', b FROM\nt";
        let text = render(&item(1, 15, 2, 2), "q.sql", source);
        assert!(
            text.contains("\n1 | SELECT 'äöü', b FROM\n  |               ^^^^^^\n"),
            "{text}"
        );
    }

    #[test]
    fn places_outside_of_the_source_do_no_harm() {
        for (line, column, end_line, end_column) in [
            (9, 1, 9, 2),
            (1, 900, 1, 901),
            (0, 0, 0, 0),
            (1, 3, 1, 1),
            (u64::MAX, u64::MAX, 1, 1),
        ] {
            let text = render(&item(line, column, end_line, end_column), "q.sql", "abc");
            assert!(text.contains("there is no column"), "{text}");
        }
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let source = format!("{}bad{}", "x".repeat(1000), "y".repeat(1000));
        let text = render(&item(1, 1001, 1, 1004), "q.sql", &source);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[3].len() < 200, "{}", lines[3].len());
        assert_eq!(lines[3].find("bad"), lines[4].find("^^^"));
    }
}
