//! Whether the rows that came are the rows that were expected, and how they differ.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::value::Value;

/// How two rows are held against each other.
#[derive(Debug, Clone, Default)]
pub struct Tolerance {
    /// Columns of doubles that may differ in their last digits (relative 1e-9), since the order of
    /// additions differs.
    pub approximate: BTreeSet<String>,
}

const RELATIVE: f64 = 1e-9;

impl Tolerance {
    fn same(&self, left: &Value, right: &Value) -> bool {
        let (Value::Object(left), Value::Object(right)) = (left, right) else {
            return left == right;
        };
        left.len() == right.len()
            && left
                .iter()
                .zip(right)
                .all(|((name, value), (other_name, other))| {
                    name == other_name
                        && (value == other
                            || (self.approximate.contains(name) && close(value, other)))
                })
    }

    /// The row without what may differ, to sort by.
    fn key(&self, row: &Value) -> Value {
        match row {
            Value::Object(members) => Value::Object(
                members
                    .iter()
                    .filter(|(name, _)| !self.approximate.contains(*name))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

fn close(left: &Value, right: &Value) -> bool {
    let (Value::Number(left), Value::Number(right)) = (left, right) else {
        return false;
    };
    let (left, right) = (left.as_f64(), right.as_f64());
    (left - right).abs() <= RELATIVE * left.abs().max(right.abs()).max(1e-3)
}

/// The same rows, each as often, in any order.
pub fn multiset(expected: &[Value], actual: &[Value], tolerance: &Tolerance) -> Result<()> {
    let sorted = |rows: &[Value]| {
        let mut keyed: Vec<(Value, Value)> = rows
            .iter()
            .map(|row| (tolerance.key(row), row.clone()))
            .collect();
        keyed.sort();
        keyed
    };
    let (expected, actual) = (sorted(expected), sorted(actual));
    let (mut missing, mut unexpected) = (Vec::new(), Vec::new());
    let (mut left, mut right) = (expected.iter().peekable(), actual.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some((_, row)), None) => {
                missing.push(row.clone());
                left.next();
            }
            (None, Some((_, row))) => {
                unexpected.push(row.clone());
                right.next();
            }
            (Some((left_key, left_row)), Some((right_key, right_row))) => {
                match left_key.cmp(right_key) {
                    std::cmp::Ordering::Less => {
                        missing.push((*left_row).clone());
                        left.next();
                    }
                    std::cmp::Ordering::Greater => {
                        unexpected.push((*right_row).clone());
                        right.next();
                    }
                    std::cmp::Ordering::Equal => {
                        if !tolerance.same(left_row, right_row) {
                            missing.push((*left_row).clone());
                            unexpected.push((*right_row).clone());
                        }
                        left.next();
                        right.next();
                    }
                }
            }
        }
    }
    if missing.is_empty() && unexpected.is_empty() {
        return Ok(());
    }
    bail!(
        "{} rows expected, {} came; {} missing, {} unexpected\n{}{}",
        expected.len(),
        actual.len(),
        missing.len(),
        unexpected.len(),
        listed("missing", &missing),
        listed("unexpected", &unexpected)
    )
}

/// The same rows in the same order.
pub fn ordered(expected: &[Value], actual: &[Value], tolerance: &Tolerance) -> Result<()> {
    for (place, (left, right)) in expected.iter().zip(actual).enumerate() {
        if !tolerance.same(left, right) {
            bail!("row {place} differs\n  expected {left}\n  came     {right}");
        }
    }
    if expected.len() != actual.len() {
        bail!(
            "{} rows expected, {} came\n{}{}",
            expected.len(),
            actual.len(),
            listed("missing", &expected[actual.len().min(expected.len())..]),
            listed("unexpected", &actual[expected.len().min(actual.len())..])
        );
    }
    Ok(())
}

fn listed(what: &str, rows: &[Value]) -> String {
    let mut text = String::new();
    for row in rows.iter().take(6) {
        text.push_str(&format!("  {what}: {row}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lines: &[&str]) -> Vec<Value> {
        lines
            .iter()
            .map(|line| Value::parse(line).unwrap())
            .collect()
    }

    #[test]
    fn multisets_count_and_ignore_order() {
        let exact = Tolerance::default();
        let expected = rows(&["{\"a\":1}", "{\"a\":2}", "{\"a\":1}"]);
        multiset(
            &expected,
            &rows(&["{\"a\":1}", "{\"a\":1}", "{\"a\":2}"]),
            &exact,
        )
        .unwrap();
        let doubled = multiset(
            &expected,
            &rows(&["{\"a\":1}", "{\"a\":2}", "{\"a\":2}"]),
            &exact,
        );
        let text = doubled.unwrap_err().to_string();
        assert!(text.contains("1 missing, 1 unexpected"), "{text}");
        assert!(multiset(&expected, &expected[..2], &exact).is_err());
    }

    #[test]
    fn only_named_columns_are_approximate() {
        let expected = rows(&["{\"a\":1,\"d\":0.3}"]);
        let actual = rows(&["{\"a\":1,\"d\":0.30000000000000004}"]);
        assert!(multiset(&expected, &actual, &Tolerance::default()).is_err());
        let tolerance = Tolerance {
            approximate: BTreeSet::from(["d".to_owned()]),
        };
        multiset(&expected, &actual, &tolerance).unwrap();
        assert!(multiset(&expected, &rows(&["{\"a\":1,\"d\":0.301}"]), &tolerance).is_err());
        assert!(multiset(&expected, &rows(&["{\"a\":1,\"d\":null}"]), &tolerance).is_err());
    }

    #[test]
    fn order_matters_where_it_should() {
        let exact = Tolerance::default();
        let expected = rows(&["1", "2"]);
        ordered(&expected, &expected, &exact).unwrap();
        assert!(ordered(&expected, &rows(&["2", "1"]), &exact).is_err());
        assert!(ordered(&expected, &rows(&["1"]), &exact).is_err());
    }
}
