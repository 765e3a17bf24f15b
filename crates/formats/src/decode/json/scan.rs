//! Reads the tokens of one JSON text, front to back, without building a tree.
//!
//! Written for this crate because it must take hostile input: nesting is followed with a
//! stack of its own that has a limit, never by recursion, and nothing is allocated for what
//! is skipped. It accepts exactly RFC 8259 (skipped values too are checked); only the
//! pairing of surrogates is left to where a string is used.

use crate::error::shorten;

use super::super::value::{ValueError, ValueResult};

/// Deepest nesting of arrays and objects that is skipped; real data stays far below.
const MAX_DEPTH: usize = 512;

/// A position in a JSON text.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    position: usize,
}

/// A string as it is spelled, between its quotes.
#[derive(Clone, Copy)]
pub(crate) struct StringToken<'a> {
    pub(crate) raw: &'a str,
    /// Whether `raw` has backslashes to be resolved.
    pub(crate) escaped: bool,
    /// Byte index of the opening quote.
    pub(crate) start: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Scanner<'a> {
        Scanner {
            text,
            bytes: text.as_bytes(),
            position: 0,
        }
    }

    /// Index of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The text from `start` to here.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.position).unwrap_or("")
    }

    /// The next byte that is not white space, left unread.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.position)?;
            if byte > b' ' || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.position += 1;
        }
    }

    /// Reads `byte` if it is next.
    #[inline]
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    /// Reads `byte` or says what is there instead.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, expected: &str) -> ValueResult<()> {
        if self.eat(byte) {
            Ok(())
        } else {
            Err(self.unexpected(expected))
        }
    }

    /// After an element: whether another follows (`,`) or the container ends (`close`).
    #[inline]
    pub(crate) fn another(&mut self, close: u8) -> ValueResult<bool> {
        match self.peek() {
            Some(b',') => {
                self.position += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.position += 1;
                Ok(false)
            }
            _ => Err(self.unexpected(if close == b'}' {
                "',' or '}' after a member"
            } else {
                "',' or ']' after an element"
            })),
        }
    }

    /// An error about the next byte.
    #[cold]
    pub(crate) fn unexpected(&self, expected: &str) -> Box<ValueError> {
        let rest = self.text.get(self.position..).unwrap_or("");
        let found = if rest.is_empty() {
            "the end of the record".to_owned()
        } else {
            shorten(rest)
        };
        ValueError::new(expected, found).at(self.position)
    }

    /// The name of a member and the colon after it.
    #[inline]
    pub(crate) fn member_name(&mut self) -> ValueResult<StringToken<'a>> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a member name in double quotes"));
        }
        let name = self.string()?;
        self.expect(b':', "':' after a member name")?;
        Ok(name)
    }

    /// A string; the next byte is its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> ValueResult<StringToken<'a>> {
        let start = self.position;
        let mut escaped = false;
        let mut index = start + 1;
        loop {
            index = plain_until(self.bytes, index);
            match self.bytes.get(index) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    index = self.skip_escape(index)?;
                }
                Some(_) => {
                    self.position = index;
                    return Err(self.unexpected("no control characters within a string"));
                }
                None => {
                    self.position = start;
                    return Err(self.unexpected("a string with a closing quote"));
                }
            }
        }
        self.position = index + 1;
        Ok(StringToken {
            raw: self.text.get(start + 1..index).unwrap_or(""),
            escaped,
            start,
        })
    }

    /// Checks the escape that the backslash at `index` starts; the index after it.
    fn skip_escape(&mut self, index: usize) -> ValueResult<usize> {
        match self.bytes.get(index + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(index + 2),
            Some(b'u')
                if self
                    .bytes
                    .get(index + 2..index + 6)
                    .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) =>
            {
                Ok(index + 6)
            }
            _ => {
                self.position = index;
                Err(self.unexpected("an escape sequence of JSON"))
            }
        }
    }

    /// A number; the next byte is its first.
    #[inline]
    pub(crate) fn number(&mut self) -> ValueResult<&'a str> {
        let start = self.position;
        let mut index = start + usize::from(self.bytes.get(start) == Some(&b'-'));
        let whole = self.digits(index);
        // One zero, or digits that do not start with zero.
        if whole == 0 || (whole > 1 && self.bytes[index] == b'0') {
            return Err(self.unexpected("a JSON value"));
        }
        index += whole;
        if self.bytes.get(index) == Some(&b'.') {
            let fraction = self.digits(index + 1);
            if fraction == 0 {
                return Err(self.unexpected("a number with digits after its point"));
            }
            index += 1 + fraction;
        }
        if let Some(b'e' | b'E') = self.bytes.get(index) {
            index += 1 + usize::from(matches!(self.bytes.get(index + 1), Some(b'+' | b'-')));
            let exponent = self.digits(index);
            if exponent == 0 {
                return Err(self.unexpected("a number with digits in its exponent"));
            }
            index += exponent;
        }
        self.position = index;
        Ok(self.since(start))
    }

    fn digits(&self, start: usize) -> usize {
        self.bytes
            .get(start..)
            .unwrap_or(&[])
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    }

    /// Reads `literal`.
    #[inline]
    pub(crate) fn literal(&mut self, literal: &str) -> ValueResult<()> {
        let end = self.position + literal.len();
        if self.bytes.get(self.position..end) != Some(literal.as_bytes()) {
            return Err(self.unexpected("a JSON value"));
        }
        self.position = end;
        Ok(())
    }

    /// Skips one value of any kind.
    #[inline]
    pub(crate) fn skip(&mut self) -> ValueResult<()> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'{' | b'[') => self.skip_container(),
            _ => Err(self.unexpected("a JSON value")),
        }
    }

    fn skip_container(&mut self) -> ValueResult<()> {
        let mut open = Depth::default();
        loop {
            // Here a value is next.
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    let object = bracket == b'{';
                    if !open.push(object) {
                        return Err(self.unexpected("less than 512 levels of nesting"));
                    }
                    self.position += 1;
                    if !self.eat(if object { b'}' } else { b']' }) {
                        if object {
                            self.member_name()?;
                        }
                        continue;
                    }
                    open.pop();
                }
                _ => self.skip()?,
            }
            // Here a value has ended, and with it maybe containers around it.
            loop {
                let Some(object) = open.top() else {
                    return Ok(());
                };
                if self.another(if object { b'}' } else { b']' })? {
                    if object {
                        self.member_name()?;
                    }
                    break;
                }
                open.pop();
            }
        }
    }

    /// Checks that nothing follows.
    pub(crate) fn end(&mut self) -> ValueResult<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("one JSON object per line and nothing after it")),
        }
    }
}

/// Which of the open containers are objects, one bit each.
#[derive(Default)]
struct Depth {
    bits: [u64; MAX_DEPTH / 64],
    len: usize,
}

impl Depth {
    fn push(&mut self, object: bool) -> bool {
        if self.len == MAX_DEPTH {
            return false;
        }
        let bit = 1 << (self.len % 64);
        if object {
            self.bits[self.len / 64] |= bit;
        } else {
            self.bits[self.len / 64] &= !bit;
        }
        self.len += 1;
        true
    }

    fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    fn top(&self) -> Option<bool> {
        let last = self.len.checked_sub(1)?;
        Some(self.bits[last / 64] >> (last % 64) & 1 == 1)
    }
}

/// Index of the first byte from `index` on that cannot stand plainly in a string (`"`, `\`,
/// control), or the length. Eight bytes a step.
#[inline]
pub(crate) fn plain_until(bytes: &[u8], mut index: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    while let Some(chunk) = bytes.get(index..index + 8) {
        let Ok(chunk) = <[u8; 8]>::try_from(chunk) else {
            break;
        };
        let word = u64::from_le_bytes(chunk);
        // A byte becomes zero where it equals the wanted one; subtracting one then borrows
        // into its high bit. Borrows can run on only above the first hit, which is all that
        // is asked for. Bytes from 0x80 on must not count as control.
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        let hits = (quote.wrapping_sub(ONES) & !quote
            | backslash.wrapping_sub(ONES) & !backslash
            | word.wrapping_sub(ONES * 0x20) & !word)
            & HIGH;
        if hits != 0 {
            return index + (hits.trailing_zeros() / 8) as usize;
        }
        index += 8;
    }
    while let Some(byte) = bytes.get(index) {
        if matches!(byte, b'"' | b'\\' | 0..=0x1f) {
            break;
        }
        index += 1;
    }
    index
}

impl StringToken<'_> {
    /// Appends the string it means to `out`.
    #[inline]
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) -> ValueResult<()> {
        if self.escaped {
            self.unescape_to(out)
        } else {
            out.extend_from_slice(self.raw.as_bytes());
            Ok(())
        }
    }

    fn unescape_to(&self, out: &mut Vec<u8>) -> ValueResult<()> {
        let mut rest = self.raw;
        while let Some(backslash) = super::super::lines::find(b'\\', rest.as_bytes()) {
            let (plain, escape) = rest.split_at(backslash);
            out.extend_from_slice(plain.as_bytes());
            let bytes = escape.as_bytes();
            let length = match bytes.get(1) {
                Some(b'u') => {
                    let (character, length) = unicode_escape(bytes).ok_or_else(|| {
                        let index = self.start + 1 + (self.raw.len() - escape.len());
                        ValueError::new(
                            "surrogates in pairs, as in \\ud83d\\ude00",
                            shorten(escape),
                        )
                        .at(index)
                    })?;
                    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    length
                }
                Some(letter) => {
                    out.push(match letter {
                        b'b' => 0x08,
                        b'f' => 0x0c,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        // The quote, the backslash and the slash stand for themselves.
                        other => *other,
                    });
                    2
                }
                None => break,
            };
            rest = &escape[length..];
        }
        out.extend_from_slice(rest.as_bytes());
        Ok(())
    }
}

/// The character of a `\uXXXX` escape or a pair of them, and its length in bytes.
fn unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let first = hex4(bytes.get(2..6)?)?;
    if !(0xd800..0xe000).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    if first >= 0xdc00 || bytes.get(6..8)? != b"\\u" {
        return None;
    }
    let second = hex4(bytes.get(8..12)?)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Some((char::from_u32(code)?, 12))
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| {
        Some(value << 4 | char::from(*digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn skips(text: &str) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.skip().and_then(|()| scanner.end()).is_ok()
    }

    #[test]
    fn accepts_what_the_grammar_does() {
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "1.5e-7",
            "1E+2",
            "\"\"",
            "\"a\\u00e9\\n\"",
            "[]",
            "{}",
            "[ ]",
            "{ }",
            "[1, [2, [3]], {\"a\" : [] }]",
            "{\"a\":{\"b\":{}},\"c\":[{}]}",
            " [1] ",
            "\"\\ud800\"",
        ] {
            assert!(skips(text), "{text}");
        }
        for text in [
            "",
            "nul",
            "truex",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u12\"",
            "\"a\nb\"",
            "[",
            "]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":1]",
            "[1}",
            "1 2",
            "'a'",
            "NaN",
            "\u{feff}1",
        ] {
            assert!(!skips(text), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_not_an_overflow() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(skips(&nested(512)));
        assert!(!skips(&nested(513)));
        assert!(!skips(&"[{\"a\":".repeat(1_000_000)));
    }

    #[test]
    fn finds_the_end_of_plain_text_at_every_offset() {
        for special in [b'"', b'\\', 0u8, 0x1f] {
            for length in 0..40 {
                let mut bytes = vec![b' '; length];
                // Bytes whose high bit is set, and neighbours of the wanted ones.
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte =
                        [b'a', 0xa2, 0xdc, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0xff, 0x80][index % 10];
                }
                assert_eq!(plain_until(&bytes, 0), length);
                bytes.push(special);
                bytes.extend_from_slice(b"\"\"\"\"\"\"\"\"\"\"");
                for start in 0..=length {
                    assert_eq!(plain_until(&bytes, start), length);
                }
            }
        }
    }

    #[test]
    fn unescapes() {
        let text = |raw: &str| {
            let mut out = Vec::new();
            let quoted = format!("\"{raw}\"");
            let token = Scanner::new(&quoted).string().ok()?;
            token.append_to(&mut out).ok()?;
            String::from_utf8(out).ok()
        };
        for (raw, expected) in [
            (r#"\"\\\/\b\f\n\r\t"#, Some("\"\\/\u{8}\u{c}\n\r\t")),
            (r"a\u00e9z", Some("aéz")),
            (r"\ud83d\ude00!", Some("😀!")),
            (r"\uD83D\uDE00", Some("😀")),
            (r"\u0000", Some("\0")),
            (r"\uffff", Some("\u{ffff}")),
            ("plain é 😀", Some("plain é 😀")),
            (r"\ud83d", None),
            (r"\ude00", None),
            (r"\ud83d\n", None),
            (r"\ud83d\u0041", None),
            (r"\ud83dx\ude00", None),
        ] {
            assert_eq!(text(raw).as_deref(), expected, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{}":,0-9eE.+\-a-c \\u/tnrulfs]{0,24}"#) {
            let ours = skips(&text);
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(ours, theirs, "{}", text);
        }
    }
}
