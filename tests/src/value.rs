//! JSON values whose numbers keep every digit, and when two of them are the same.
//!
//! A 38-digit DECIMAL must not go through a double on its way into a comparison, so numbers stay
//! text; two texts are one number when they have the same sign, digits and power of ten.

use std::{collections::BTreeMap, fmt};

use anyhow::{Result, bail};

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

/// A number as sign, digits without zeros at either end, and the power of ten of the last digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Number {
    /// Reads `-12.30e4`.
    fn parse(text: &str) -> Result<Self> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (
                &text[..at],
                text[at + 1..].trim_start_matches('+').parse::<i64>()?,
            ),
            None => (text, 0),
        };
        let (negative, unsigned) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            bail!("`{text}` is not a number");
        }
        let mut exponent = exponent - i64::try_from(fraction.len())?;
        let trimmed = all.trim_end_matches('0');
        exponent += i64::try_from(all.len() - trimmed.len())?;
        let digits = trimmed.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Ok(Number {
                negative: false,
                digits,
                exponent: 0,
            });
        }
        Ok(Number {
            negative,
            digits,
            exponent,
        })
    }

    /// The nearest double.
    pub fn as_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        match (self.digits.as_str(), self.exponent) {
            ("", _) => f.write_str("0"),
            (digits, 0) => write!(f, "{sign}{digits}"),
            (digits, exponent) => write!(f, "{sign}{digits}e{exponent}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::List(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if place > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Object(members) => {
                f.write_str("{")?;
                for (place, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{name:?}:{value}", if place > 0 { "," } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Value {
    /// Reads one JSON text.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value()?;
        parser.space();
        if parser.at < text.len() {
            bail!("after the JSON value: {}", &text[parser.at..]);
        }
        Ok(value)
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.get(name),
            _ => None,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    /// Takes `token` if it is next.
    fn take(&mut self, token: &str) -> bool {
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        self.space();
        if !self.take(token) {
            bail!("expected `{token}` at byte {} of {}", self.at, self.text);
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value> {
        self.space();
        for (token, value) in [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
        ] {
            if self.take(token) {
                return Ok(value);
            }
        }
        match self.text.as_bytes().get(self.at) {
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'[') => self.list(),
            Some(b'{') => self.object(),
            _ => self.number(),
        }
    }

    /// The text between quotes, its escapes left to serde_json, which has no numbers to lose.
    fn string(&mut self) -> Result<String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        while let Some(byte) = bytes.get(end) {
            match byte {
                b'\\' => end += 2,
                b'"' => {
                    self.at = end + 1;
                    return Ok(serde_json::from_str(&self.text[start..=end])?);
                }
                _ => end += 1,
            }
        }
        bail!("unclosed string in {}", self.text)
    }

    fn number(&mut self) -> Result<Value> {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E')))
            .unwrap_or(rest.len());
        self.at += length;
        Number::parse(&rest[..length]).map(Value::Number)
    }

    fn list(&mut self) -> Result<Value> {
        self.expect("[")?;
        let mut items = Vec::new();
        self.space();
        if self.take("]") {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            if self.take("]") {
                return Ok(Value::List(items));
            }
            self.expect(",")?;
        }
    }

    fn object(&mut self) -> Result<Value> {
        self.expect("{")?;
        let mut members = BTreeMap::new();
        self.space();
        if self.take("}") {
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.expect(":")?;
            let value = self.value()?;
            if members.insert(name.clone(), value).is_some() {
                bail!("member `{name}` comes twice in {}", self.text);
            }
            self.space();
            if self.take("}") {
                return Ok(Value::Object(members));
            }
            self.expect(",")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_value_and_keep_their_digits() {
        let number = |text| Value::parse(text).unwrap();
        for (left, right) in [
            ("1.50", "1.5"),
            ("100", "1.0E2"),
            ("-0.0", "0"),
            ("1e-7", "0.0000001"),
            ("1.7976931348623157E308", "17976931348623157e292"),
        ] {
            assert_eq!(number(left), number(right), "{left} {right}");
        }
        for (left, right) in [
            (
                "99999999999999999999999999999999999.999",
                "99999999999999999999999999999999999.998",
            ),
            ("9007199254740993", "9007199254740992"),
            ("1", "-1"),
            ("10", "1"),
        ] {
            assert_ne!(number(left), number(right), "{left} {right}");
        }
    }

    #[test]
    fn values_nest() {
        let value =
            Value::parse(r#" {"a": [1, {"b": "x\"\u00e4"}], "c": null, "d": {}} "#).unwrap();
        assert_eq!(
            value.to_string(),
            r#"{"a":[1,{"b":"x\"ä"}],"c":null,"d":{}}"#
        );
        for bad in ["", "{", "[1,]", "1 2", "{\"a\":1,\"a\":2}", "nul", "\"x"] {
            assert!(Value::parse(bad).is_err(), "{bad}");
        }
    }
}
