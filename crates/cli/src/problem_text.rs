//! Problems of the service as text for the terminal.

use std::fmt::Write;

use millrace_control_plane::problem::{Problem, ProblemItem};

use crate::caret;

/// A problem without a source to point into: message, where, hint.
pub(crate) fn plain(problem: &Problem) -> String {
    let mut text = format!("error[{}]: {}\n", problem.code, problem.detail);
    for item in &problem.errors {
        // The detail already says what a single finding says.
        if problem.errors.len() > 1 || !problem.detail.contains(&item.message) {
            let _ = writeln!(text, "  - {}{}", place(item), item.message);
            if let Some(hint) = item
                .hint
                .as_ref()
                .filter(|hint| Some(*hint) != problem.hint.as_ref())
            {
                let _ = writeln!(text, "    hint: {hint}");
            }
        }
    }
    if let Some(hint) = &problem.hint {
        let _ = writeln!(text, "  hint: {hint}");
    }
    if let Some(seconds) = problem.retry_after {
        let _ = writeln!(text, "  try again in {seconds} s");
    }
    text
}

/// A problem with a script: each finding with its source line.
pub(crate) fn of_script(problem: &Problem, file: &str, source: &str) -> String {
    if problem.code != "invalid-sql" || problem.errors.is_empty() {
        return plain(problem);
    }
    findings(&problem.errors, file, source)
}

/// Findings about a script, each with its source line, and how many there are.
pub(crate) fn findings(items: &[ProblemItem], file: &str, source: &str) -> String {
    let mut text = String::new();
    for item in items {
        text.push_str(&caret::render(item, file, source));
        text.push('\n');
    }
    let errors = items
        .iter()
        .filter(|item| item.severity.as_deref() != Some("warning"))
        .count();
    let warnings = items.len() - errors;
    let mut counts = Vec::new();
    for (count, one, many) in [
        (errors, "error", "errors"),
        (warnings, "warning", "warnings"),
    ] {
        match count {
            0 => {}
            1 => counts.push(format!("1 {one}")),
            _ => counts.push(format!("{count} {many}")),
        }
    }
    if !counts.is_empty() {
        let _ = writeln!(text, "{file}: {}", counts.join(", "));
    }
    text
}

fn place(item: &ProblemItem) -> String {
    match (&item.field, item.line, item.column) {
        (_, Some(line), Some(column)) => format!("{line}:{column}: "),
        (Some(field), _, _) => format!("{field}: "),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        serde_json::from_value(serde_json::json!({
            "type": "urn:millrace:problem:invalid-sql",
            "title": "The SQL script does not compile",
            "status": 422,
            "detail": "2 errors, the first at line 1, column 8: no column `x`",
            "code": "invalid-sql",
            "errors": [
                {"message": "no column `x`", "severity": "error", "code": "unknown-column",
                 "line": 1, "column": 8, "endLine": 1, "endColumn": 9},
                {"message": "odd", "severity": "warning", "line": 1, "column": 1}
            ],
            "hint": "look"
        }))
        .unwrap()
    }

    #[test]
    fn a_script_problem_shows_source_lines_and_counts() {
        let text = of_script(&problem(), "a.sql", "SELECT x");
        assert!(text.contains("1 | SELECT x\n  |        ^\n"), "{text}");
        assert!(text.ends_with("a.sql: 1 error, 1 warning\n"), "{text}");
    }

    #[test]
    fn without_a_source_the_places_are_numbers() {
        let text = plain(&problem());
        assert!(text.contains("  - 1:8: no column `x`\n"), "{text}");
        assert!(text.ends_with("  hint: look\n"), "{text}");
    }
}
