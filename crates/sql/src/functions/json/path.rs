//! JSON paths: `$.a['b'][0][*].*`, with `lax` or `strict` before them.

use super::scan::{Shape, Slice, elements, members, unescape};

/// A compiled path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    steps: Vec<Step>,
    /// A missing member is empty rather than an error.
    pub(super) lax: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Element(usize),
    /// `[*]` or `.*`.
    All,
}

impl Path {
    /// Compiles a path or says what is wrong with it.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let (lax, rest) = match trimmed.split_once(char::is_whitespace) {
            Some((mode, rest)) if mode.eq_ignore_ascii_case("lax") => (true, rest.trim()),
            Some((mode, rest)) if mode.eq_ignore_ascii_case("strict") => (false, rest.trim()),
            _ => (false, trimmed),
        };
        let wrong = |why: &str| Err(format!("'{text}' is not a supported JSON path: {why}"));
        let Some(mut rest) = rest.strip_prefix('$') else {
            return wrong("it must start with $");
        };
        let mut steps = vec![];
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                if after.starts_with('.') {
                    return wrong(".. is not supported");
                }
                let end = after.find(['.', '[']).unwrap_or(after.len());
                match &after[..end] {
                    "" => return wrong("a name is missing after ."),
                    "*" => steps.push(Step::All),
                    name => steps.push(Step::Member(name.to_string())),
                }
                rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix('[') {
                let quote = after.chars().next().filter(|c| matches!(c, '\'' | '"'));
                if let Some(quote) = quote {
                    let Some((name, after)) = after[1..].split_once(quote) else {
                        return wrong("a quote is not closed");
                    };
                    let Some(after) = after.strip_prefix(']') else {
                        return wrong("] is missing");
                    };
                    steps.push(Step::Member(name.to_string()));
                    rest = after;
                    continue;
                }
                let Some((index, after)) = after.split_once(']') else {
                    return wrong("] is missing");
                };
                match index.trim() {
                    "*" => steps.push(Step::All),
                    index => match index.parse() {
                        Ok(index) => steps.push(Step::Element(index)),
                        Err(_) => return wrong("[…] holds a number, * or a quoted name"),
                    },
                }
                rest = after;
            } else {
                return wrong("steps start with . or [");
            }
        }
        Ok(Path { steps, lax })
    }

    /// Whether it can lead to several values.
    pub(super) fn is_many(&self) -> bool {
        self.steps.contains(&Step::All)
    }

    /// The values it leads to; nothing if a step does not exist.
    pub(super) fn find<'a>(&self, document: Slice<'a>) -> Option<Vec<Slice<'a>>> {
        let mut values = vec![document];
        for step in &self.steps {
            let mut next = vec![];
            for value in values {
                match (step, value.shape) {
                    (Step::Member(name), Shape::Object) => {
                        // The last of equal keys counts.
                        let found = members(value)
                            .into_iter()
                            .rev()
                            .find(|(key, _)| same_key(key, name));
                        next.extend(found.map(|(_, value)| value));
                    }
                    (Step::Element(index), Shape::Array) => {
                        next.extend(elements(value).get(*index));
                    }
                    (Step::All, Shape::Array) => next.extend(elements(value)),
                    (Step::All, Shape::Object) => {
                        next.extend(members(value).into_iter().map(|(_, value)| value));
                    }
                    _ => {}
                }
            }
            if next.is_empty() && step != &Step::All {
                return None;
            }
            values = next;
        }
        Some(values)
    }
}

fn same_key(escaped: &str, name: &str) -> bool {
    if !escaped.contains('\\') {
        return escaped == name;
    }
    let mut key = String::new();
    unescape(escaped, &mut key) && key == name
}

#[cfg(test)]
mod tests {
    use super::{super::scan::document, *};

    #[test]
    fn paths_lead_to_values() {
        let text = r#"{"a": {"b c": [10, {"d": "x"}]}, "e": [1, 2]}"#;
        let document = document(text).unwrap();
        let find = |path: &str| {
            let found = Path::new(path).unwrap().find(document)?;
            Some(
                found
                    .iter()
                    .map(|value| value.text.to_string())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(find("$.a['b c'][1].d"), Some(vec!["\"x\"".to_string()]));
        assert_eq!(
            find("lax $.e[*]"),
            Some(vec!["1".to_string(), "2".to_string()])
        );
        assert_eq!(find("strict $.x"), None);
        assert_eq!(find("$.e[7]"), None);
        for bad in ["a.b", "$..a", "$.", "$[", "$['a'", "$[x]", "$a"] {
            assert!(Path::new(bad).is_err(), "{bad}");
        }
    }
}
