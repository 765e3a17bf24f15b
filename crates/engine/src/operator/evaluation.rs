//! What a failed evaluation says: what is wrong with the data and what to write instead, without
//! the names of the layers that it came through.

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;

/// Longest expression that is quoted, in characters.
const MAX_QUOTED: usize = 200;

/// The failure, and the expression that failed.
pub(super) fn text_in(error: &DataFusionError, sql: &str) -> String {
    let short: String = sql.chars().take(MAX_QUOTED).collect();
    let dots = if short.len() < sql.len() { "…" } else { "" };
    format!("{} (in `{short}{dots}`)", text(error))
}

pub(super) fn text(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::ArrowError(error, _) => arrow_text(error),
        DataFusionError::Execution(text) => first_part(text).to_owned(),
        DataFusionError::External(error) => error.to_string(),
        DataFusionError::ResourcesExhausted(text) => {
            format!("out of memory: {}", first_part(text))
        }
        DataFusionError::Internal(text) => fault(text),
        DataFusionError::Plan(text)
        | DataFusionError::NotImplemented(text)
        | DataFusionError::Configuration(text) => fault(text),
        other => fault(&other.strip_backtrace()),
    }
}

pub(super) fn arrow_text(error: &ArrowError) -> String {
    match error {
        ArrowError::DivideByZero => {
            "division by zero; write NULLIF(divisor, 0) for the divisor to get NULL instead".into()
        }
        ArrowError::ArithmeticOverflow(text) => format!(
            "a number is out of range: {}; CAST the operands to a wider type such as BIGINT, DECIMAL or DOUBLE",
            first_part(text)
        ),
        ArrowError::CastError(text) | ArrowError::ParseError(text) => {
            format!("{}; TRY_CAST gives NULL for such values", first_part(text))
        }
        ArrowError::OffsetOverflowError(bytes) => format!(
            "a batch of strings or arrays has more than 2 GiB ({bytes}); make the values shorter"
        ),
        ArrowError::ExternalError(error) => error.to_string(),
        ArrowError::IoError(text, _) => text.clone(),
        ArrowError::ComputeError(text) | ArrowError::InvalidArgumentError(text) => fault(text),
        other => fault(&other.to_string()),
    }
}

fn fault(text: &str) -> String {
    format!(
        "internal fault in the evaluation of an expression: {}: please report it with the script",
        first_part(text)
    )
}

/// Without a backtrace, which some builds add.
fn first_part(text: &str) -> &str {
    text.split(DataFusionError::BACK_TRACE_SEP)
        .next()
        .unwrap_or(text)
        .trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OperatorError;

    #[test]
    fn failures_are_sentences_without_layers() {
        let arrow = |error| DataFusionError::ArrowError(Box::new(error), None);
        for (error, expected) in [
            (
                arrow(ArrowError::DivideByZero).context("evaluating"),
                "division by zero; write NULLIF(divisor, 0) for the divisor to get NULL instead",
            ),
            (
                arrow(ArrowError::ArithmeticOverflow(
                    "Overflow happened on: 1 + 2".into(),
                )),
                "a number is out of range: Overflow happened on: 1 + 2; CAST the operands to a wider type such as BIGINT, DECIMAL or DOUBLE",
            ),
            (
                arrow(ArrowError::CastError("cannot cast 'a'".into())),
                "cannot cast 'a'; TRY_CAST gives NULL for such values",
            ),
            (
                DataFusionError::Execution("cannot cast to INT: 'a'".into()),
                "cannot cast to INT: 'a'",
            ),
            (
                DataFusionError::Internal("no cast".into()),
                "internal fault in the evaluation of an expression: no cast: please report it with the script",
            ),
        ] {
            assert_eq!(OperatorError::from(error).to_string(), expected);
        }
        let long = "x".repeat(300);
        let error = DataFusionError::Execution("wrong".into());
        assert_eq!(
            text_in(&error, &long),
            format!("wrong (in `{}…`)", "x".repeat(200))
        );
    }
}
