//! Changelogs as `debezium-json` writes them, and the state they amount to.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use crate::value::Value;

/// Applies changes in order to an empty multiset of rows. A row that is taken back must be there:
/// that is what makes a changelog exact.
pub fn final_state(changes: &[Value]) -> Result<Vec<Value>> {
    let mut rows: BTreeMap<Value, usize> = BTreeMap::new();
    for (place, change) in changes.iter().enumerate() {
        let member = |name: &str| {
            change
                .get(name)
                .with_context(|| format!("change {place} has no `{name}`: {change}"))
        };
        let (before, after, op) = (member("before")?, member("after")?, member("op")?);
        match (op, before, after) {
            (Value::Text(op), Value::Null, row) if op == "c" && *row != Value::Null => {
                *rows.entry(row.clone()).or_default() += 1;
            }
            (Value::Text(op), row, Value::Null) if op == "d" && *row != Value::Null => {
                let Some(count) = rows.get_mut(row) else {
                    bail!("change {place} takes back a row that is not there: {row}");
                };
                *count -= 1;
                if *count == 0 {
                    rows.remove(row);
                }
            }
            _ => bail!("change {place} is neither an addition nor a removal: {change}"),
        }
    }
    Ok(rows
        .into_iter()
        .flat_map(|(row, count)| std::iter::repeat_n(row, count))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(lines: &[&str]) -> Vec<Value> {
        lines
            .iter()
            .map(|line| Value::parse(line).unwrap())
            .collect()
    }

    #[test]
    fn changes_add_and_remove() {
        let log = changes(&[
            r#"{"before":null,"after":{"n":1},"op":"c"}"#,
            r#"{"before":null,"after":{"n":1},"op":"c"}"#,
            r#"{"before":{"n":1.0},"after":null,"op":"d"}"#,
            r#"{"before":null,"after":{"n":2},"op":"c"}"#,
        ]);
        let state: Vec<String> = final_state(&log)
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        assert_eq!(state, ["{\"n\":1}", "{\"n\":2}"]);
    }

    #[test]
    fn a_row_that_is_not_there_cannot_be_taken_back() {
        let log = changes(&[
            r#"{"before":null,"after":{"n":1},"op":"c"}"#,
            r#"{"before":{"n":2},"after":null,"op":"d"}"#,
        ]);
        assert!(
            final_state(&log)
                .unwrap_err()
                .to_string()
                .contains("change 1")
        );
        let odd = changes(&[r#"{"before":{"n":1},"after":{"n":2},"op":"u"}"#]);
        assert!(final_state(&odd).is_err());
    }
}
