//! A strict JSON scanner that yields slices of the text instead of a tree.

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 128;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    Array,
    Text,
    Number,
    Boolean,
    Null,
}

/// A value as a slice of its document, without white space around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice<'a> {
    pub(super) text: &'a str,
    pub(super) shape: Shape,
}

/// The document's value, if the text is one valid JSON value.
pub(super) fn document(text: &str) -> Option<Slice<'_>> {
    let mut scanner = Scanner { text, at: 0 };
    let value = scanner.value(0)?;
    scanner.skip_space();
    (scanner.at == text.len()).then_some(value)
}

/// The members of an object that [`document`] has accepted; keys are still escaped.
pub(super) fn members<'a>(object: Slice<'a>) -> Vec<(&'a str, Slice<'a>)> {
    let mut scanner = Scanner {
        text: object.text,
        at: 1,
    };
    let mut members = vec![];
    loop {
        scanner.skip_space();
        match scanner.peek() {
            Some(b'"') => {}
            Some(b',') => {
                scanner.at += 1;
                continue;
            }
            _ => return members,
        }
        let Some(key) = scanner.string() else {
            return members;
        };
        scanner.skip_space();
        scanner.at += 1;
        let Some(value) = scanner.value(0) else {
            return members;
        };
        members.push((&key[1..key.len() - 1], value));
    }
}

/// The elements of an array that [`document`] has accepted.
pub(super) fn elements(array: Slice<'_>) -> Vec<Slice<'_>> {
    let mut scanner = Scanner {
        text: array.text,
        at: 1,
    };
    let mut elements = vec![];
    loop {
        scanner.skip_space();
        match scanner.peek() {
            None | Some(b']') => return elements,
            Some(b',') => scanner.at += 1,
            Some(_) => match scanner.value(0) {
                Some(value) => elements.push(value),
                None => return elements,
            },
        }
    }
}

/// The value without white space between its tokens.
pub(super) fn compact(value: Slice, out: &mut String) {
    let mut rest = value.text;
    while !rest.is_empty() {
        let quote = rest.find('"').unwrap_or(rest.len());
        out.extend(rest[..quote].chars().filter(|c| !c.is_ascii_whitespace()));
        rest = &rest[quote..];
        if rest.is_empty() {
            return;
        }
        let mut scanner = Scanner { text: rest, at: 0 };
        if scanner.string().is_none() {
            out.push_str(rest);
            return;
        }
        out.push_str(&rest[..scanner.at]);
        rest = &rest[scanner.at..];
    }
}

/// Writes the characters that an escaped string (without its quotes) stands for.
pub(super) fn unescape(escaped: &str, out: &mut String) -> bool {
    let mut chars = escaped.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let Some(mut code) = hex4(&mut chars) else {
                    return false;
                };
                if (0xD800..0xDC00).contains(&code) {
                    let mut ahead = chars.clone();
                    if ahead.next() == Some('\\')
                        && ahead.next() == Some('u')
                        && let Some(low) = hex4(&mut ahead)
                        && (0xDC00..0xE000).contains(&low)
                    {
                        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                        chars = ahead;
                    }
                }
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(c @ ('"' | '\\' | '/')) => out.push(c),
            _ => return false,
        }
    }
    true
}

fn hex4(chars: &mut std::str::Chars) -> Option<u32> {
    (0..4).try_fold(0, |code, _| Some(code * 16 + chars.next()?.to_digit(16)?))
}

/// Writes a string as a JSON string, with quotes.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Slice<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_space();
        let start = self.at;
        let shape = match self.peek()? {
            b'{' => {
                self.object(depth)?;
                Shape::Object
            }
            b'[' => {
                self.array(depth)?;
                Shape::Array
            }
            b'"' => {
                self.string()?;
                Shape::Text
            }
            b't' => {
                self.word("true")?;
                Shape::Boolean
            }
            b'f' => {
                self.word("false")?;
                Shape::Boolean
            }
            b'n' => {
                self.word("null")?;
                Shape::Null
            }
            _ => {
                self.number()?;
                Shape::Number
            }
        };
        Some(Slice {
            text: &self.text[start..self.at],
            shape,
        })
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text[self.at..]
            .starts_with(word)
            .then(|| self.at += word.len())
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.take(b'{')?;
        self.skip_space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.skip_space();
            self.string()?;
            self.skip_space();
            self.take(b':')?;
            self.value(depth + 1)?;
            self.skip_space();
            if self.take(b'}').is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.take(b'[')?;
        self.skip_space();
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value(depth + 1)?;
            self.skip_space();
            if self.take(b']').is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.take(b'"')?;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(&self.text[start..self.at]);
                }
                b'\\' => {
                    self.at += 1;
                    match self.peek()? {
                        b'u' => {
                            let digits = self.text.get(self.at + 1..self.at + 5)?;
                            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                                return None;
                            }
                            self.at += 5;
                        }
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                        _ => return None,
                    }
                }
                0..=0x1F => return None,
                _ => self.at += 1,
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        self.take(b'-');
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.take(b'.').is_some() {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_checked() {
        for (text, shape) in [
            (
                " {\"a\": [1, -2.5e+3, true, null, \"\\u00e4\"]} ",
                Some(Shape::Object),
            ),
            ("[]", Some(Shape::Array)),
            ("\"x\"", Some(Shape::Text)),
            ("0.5", Some(Shape::Number)),
            ("01", None),
            ("{a: 1}", None),
            ("[1,]", None),
            ("1 2", None),
            ("", None),
            ("\"\\x\"", None),
        ] {
            assert_eq!(document(text).map(|value| value.shape), shape, "{text}");
        }
        assert!(document(&"[".repeat(100_000)).is_none());
    }

    #[test]
    fn parts_come_as_slices() {
        let object = document("{ \"a\" : [1, 2] , \"b\" : { } }").unwrap();
        let members = members(object);
        assert_eq!(members[0].0, "a");
        assert_eq!(elements(members[0].1).len(), 2);
        let mut out = String::new();
        compact(object, &mut out);
        assert_eq!(out, "{\"a\":[1,2],\"b\":{}}");
        let mut text = String::new();
        assert!(unescape("\\ud83d\\ude00\\n", &mut text));
        assert_eq!(text, "😀\n");
    }
}
