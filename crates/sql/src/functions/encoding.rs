//! Base64, hexadecimal, character sets, URLs.

use std::sync::Arc;

use arrow::{array::BinaryBuilder, datatypes::DataType};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::ColumnarValue;

use super::{
    call::Call,
    registry::{
        Definition,
        Kind::{Any, Bytes, Integer, String as Str, StringOrBytes},
        Nulls, Returns,
    },
};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("TO_BASE64", &[StringOrBytes], Returns::String, to_base64),
    Definition::new("FROM_BASE64", &[Str], Returns::String, from_base64).nulls(Nulls::Possible),
    Definition::new("HEX", &[Any], Returns::Computed(hex_types), hex),
    Definition::new("UNHEX", &[Str], Returns::Bytes, unhex).nulls(Nulls::Possible),
    Definition::new("BIN", &[Integer], Returns::String, bin),
    Definition::new("ENCODE", &[Str, Str], Returns::Bytes, encode).nulls(Nulls::Possible),
    Definition::new("DECODE", &[Bytes, Str], Returns::String, decode).nulls(Nulls::Possible),
    Definition::new("URL_ENCODE", &[Str], Returns::String, url_encode),
    Definition::new("URL_DECODE", &[Str], Returns::String, url_decode).nulls(Nulls::Possible),
    Definition::new("PARSE_URL", &[Str, Str, Str], Returns::String, parse_url)
        .optional(1)
        .nulls(Nulls::Possible),
    Definition::new("IS_VALID_UTF8", &[Bytes], Returns::Boolean, is_valid_utf8),
    Definition::new(
        "MAKE_VALID_UTF8",
        &[Bytes],
        Returns::String,
        make_valid_utf8,
    ),
];

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(call: &Call) -> Result<ColumnarValue> {
    let bytes = call.byte_strings(0)?;
    call.make_strings(|row, out| {
        let Some(bytes) = bytes.get(row) else {
            return Ok(None);
        };
        for chunk in bytes.chunks(3) {
            let group = chunk.iter().enumerate().fold(0u32, |group, (i, byte)| {
                group | u32::from(*byte) << (16 - 8 * i)
            });
            for i in 0..4 {
                let digit = (group >> (18 - 6 * i) & 63) as usize;
                out.push(if i <= chunk.len() {
                    char::from(BASE64[digit])
                } else {
                    '='
                });
            }
        }
        Ok(Some(()))
    })
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    let (mut group, mut digits) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        if byte.is_ascii_whitespace() {
            continue;
        }
        let digit = BASE64.iter().position(|other| *other == byte)? as u32;
        group = group << 6 | digit;
        digits += 1;
        if digits == 4 {
            bytes.extend_from_slice(&group.to_be_bytes()[1..]);
            (group, digits) = (0, 0);
        }
    }
    match digits {
        0 => {}
        2 => bytes.push((group >> 4) as u8),
        3 => bytes.extend_from_slice(&((group >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(bytes)
}

fn from_base64(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let bytes = text.get(row).and_then(decode_base64);
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        out.push_str(&String::from_utf8_lossy(&bytes));
        Ok(Some(()))
    })
}

fn hex_types(
    types: &[DataType],
    _: &[Option<ScalarValue>],
) -> Result<(Vec<DataType>, DataType), String> {
    let argument = match &types[0] {
        DataType::Utf8 | DataType::Null => DataType::Utf8,
        DataType::Binary => DataType::Binary,
        other if other.is_signed_integer() => DataType::Int64,
        _ => return Err("the argument must be a STRING, BYTES or an integer".into()),
    };
    Ok((vec![argument], DataType::Utf8))
}

fn hex(call: &Call) -> Result<ColumnarValue> {
    if call.data_type(0) == DataType::Int64 {
        let number = call.longs(0)?;
        return call.make_strings(|row, out| {
            let Some(number) = number.get(row) else {
                return Ok(None);
            };
            out.push_str(&format!("{number:X}"));
            Ok(Some(()))
        });
    }
    let bytes = call.byte_strings(0)?;
    call.make_strings(|row, out| {
        let Some(bytes) = bytes.get(row) else {
            return Ok(None);
        };
        push_hex(bytes, true, out);
        Ok(Some(()))
    })
}

/// Writes two digits per byte.
pub(super) fn push_hex(bytes: &[u8], upper: bool, out: &mut String) {
    let digits = if upper {
        b"0123456789ABCDEF"
    } else {
        b"0123456789abcdef"
    };
    for byte in bytes {
        out.push(char::from(digits[usize::from(byte >> 4)]));
        out.push(char::from(digits[usize::from(byte & 15)]));
    }
}

fn make_bytes(
    call: &Call,
    mut row: impl FnMut(usize) -> Result<Option<Vec<u8>>>,
) -> Result<ColumnarValue> {
    let mut builder = BinaryBuilder::new();
    for i in 0..call.row_count() {
        builder.append_option(row(i)?);
    }
    call.finish(Arc::new(builder.finish()))
}

fn unhex(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    make_bytes(call, |row| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        Ok(digits.map(|digits| {
            // A missing first digit is 0.
            let (first, rest) = digits.split_at(digits.len() % 2);
            let pairs = rest.chunks(2).map(|pair| pair[0] << 4 | pair[1]);
            first.iter().copied().chain(pairs).collect()
        }))
    })
}

fn bin(call: &Call) -> Result<ColumnarValue> {
    let number = call.longs(0)?;
    call.make_strings(|row, out| {
        let Some(number) = number.get(row) else {
            return Ok(None);
        };
        out.push_str(&format!("{number:b}"));
        Ok(Some(()))
    })
}

/// The character sets.
#[derive(Clone, Copy)]
enum Charset {
    Ascii,
    Latin1,
    Utf8,
    Utf16 { big_endian: bool, mark: bool },
}

fn charset(name: &str) -> Result<Charset> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "UTF-8" | "UTF8" => Charset::Utf8,
        "US-ASCII" | "ASCII" => Charset::Ascii,
        "ISO-8859-1" | "LATIN1" => Charset::Latin1,
        "UTF-16BE" => Charset::Utf16 {
            big_endian: true,
            mark: false,
        },
        "UTF-16LE" => Charset::Utf16 {
            big_endian: false,
            mark: false,
        },
        "UTF-16" => Charset::Utf16 {
            big_endian: true,
            mark: true,
        },
        _ => return exec_err!("unknown character set '{name}'"),
    })
}

fn encode(call: &Call) -> Result<ColumnarValue> {
    let (text, set) = (call.strings(0)?, call.strings(1)?);
    make_bytes(call, |row| {
        let (Some(text), Some(set)) = (text.get(row), set.get(row)) else {
            return Ok(None);
        };
        let narrow = |limit: u32| {
            text.chars()
                .map(|c| if (c as u32) < limit { c as u8 } else { b'?' })
                .collect()
        };
        Ok(Some(match charset(set)? {
            Charset::Utf8 => text.as_bytes().to_vec(),
            Charset::Ascii => narrow(128),
            Charset::Latin1 => narrow(256),
            Charset::Utf16 { big_endian, mark } => {
                let mark = mark.then_some(0xFEFF);
                mark.into_iter()
                    .chain(text.encode_utf16())
                    .flat_map(|unit| {
                        if big_endian {
                            unit.to_be_bytes()
                        } else {
                            unit.to_le_bytes()
                        }
                    })
                    .collect()
            }
        }))
    })
}

fn decode(call: &Call) -> Result<ColumnarValue> {
    let (bytes, set) = (call.byte_strings(0)?, call.strings(1)?);
    call.make_strings(|row, out| {
        let (Some(bytes), Some(set)) = (bytes.get(row), set.get(row)) else {
            return Ok(None);
        };
        match charset(set)? {
            Charset::Utf8 => out.push_str(&String::from_utf8_lossy(bytes)),
            Charset::Ascii => out.extend(bytes.iter().map(|byte| {
                if byte.is_ascii() {
                    char::from(*byte)
                } else {
                    char::REPLACEMENT_CHARACTER
                }
            })),
            Charset::Latin1 => out.extend(bytes.iter().map(|byte| char::from(*byte))),
            Charset::Utf16 {
                mut big_endian,
                mark,
            } => {
                let mut bytes = bytes;
                if mark {
                    match bytes {
                        [0xFF, 0xFE, rest @ ..] => (big_endian, bytes) = (false, rest),
                        [0xFE, 0xFF, rest @ ..] => bytes = rest,
                        _ => {}
                    }
                }
                let units = bytes.chunks(2).map(|pair| match (pair, big_endian) {
                    ([a, b], true) => u16::from_be_bytes([*a, *b]),
                    ([a, b], false) => u16::from_le_bytes([*a, *b]),
                    _ => 0xFFFD,
                });
                out.extend(
                    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)),
                );
            }
        }
        Ok(Some(()))
    })
}

/// As in HTML forms: a blank is `+`.
fn url_encode(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                    out.push(char::from(byte));
                }
                b' ' => out.push('+'),
                byte => {
                    out.push('%');
                    push_hex(&[byte], true, out);
                }
            }
        }
        Ok(Some(()))
    })
}

fn decode_url(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push((high << 4 | low) as u8);
            }
            byte => bytes.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn url_decode(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        match text.get(row).and_then(decode_url) {
            Some(decoded) => out.push_str(&decoded),
            None => return Ok(None),
        }
        Ok(Some(()))
    })
}

fn parse_url(call: &Call) -> Result<ColumnarValue> {
    let (url, part) = (call.strings(0)?, call.strings(1)?);
    let key = match call.len() {
        3 => Some(call.strings(2)?),
        _ => None,
    };
    call.make_slices(|row| {
        let (Some(url), Some(part)) = (url.get(row), part.get(row)) else {
            return Ok(None);
        };
        match &key {
            None => Ok(url_part(url, part)),
            Some(key) => {
                let Some(key) = key.get(row) else {
                    return Ok(None);
                };
                let query = url_part(url, "QUERY").filter(|_| part == "QUERY");
                Ok(query.and_then(|query| {
                    query
                        .split('&')
                        .filter_map(|pair| pair.split_once('='))
                        .find(|(name, _)| *name == key)
                        .map(|(_, value)| value)
                }))
            }
        }
    })
}

/// A part of a URL by Java's name for it.
fn url_part<'a>(url: &'a str, part: &str) -> Option<&'a str> {
    let (protocol, rest) = url.split_once(':')?;
    let valid = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if protocol.is_empty() || !protocol.chars().all(valid) {
        return None;
    }
    let (rest, reference) = match rest.split_once('#') {
        Some((rest, reference)) => (rest, Some(reference)),
        None => (rest, None),
    };
    let (authority, file) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        None => (None, rest),
    };
    let (path, query) = match file.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (file, None),
    };
    let (user, host) = match authority.map(|authority| authority.rsplit_once('@').ok_or(authority))
    {
        Some(Ok((user, host))) => (Some(user), Some(host)),
        Some(Err(host)) => (None, Some(host)),
        None => (None, None),
    };
    match part {
        "PROTOCOL" => Some(protocol),
        "AUTHORITY" => authority,
        "USERINFO" => user,
        "HOST" => host.map(|host| match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => host,
        }),
        "FILE" => Some(file),
        "PATH" => Some(path),
        "QUERY" => query,
        "REF" => reference,
        _ => None,
    }
}

fn is_valid_utf8(call: &Call) -> Result<ColumnarValue> {
    let bytes = call.byte_strings(0)?;
    call.make_booleans(|row| {
        Ok(bytes
            .get(row)
            .map(|bytes| std::str::from_utf8(bytes).is_ok()))
    })
}

fn make_valid_utf8(call: &Call) -> Result<ColumnarValue> {
    let bytes = call.byte_strings(0)?;
    call.make_strings(|row, out| {
        let Some(bytes) = bytes.get(row) else {
            return Ok(None);
        };
        out.push_str(&String::from_utf8_lossy(bytes));
        Ok(Some(()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart() {
        let url = "https://me:pw@example.com:8443/a/b?x=1&y=2#top";
        for (part, expected) in [
            ("PROTOCOL", Some("https")),
            ("HOST", Some("example.com")),
            ("AUTHORITY", Some("me:pw@example.com:8443")),
            ("USERINFO", Some("me:pw")),
            ("PATH", Some("/a/b")),
            ("FILE", Some("/a/b?x=1&y=2")),
            ("QUERY", Some("x=1&y=2")),
            ("REF", Some("top")),
            ("PORT", None),
        ] {
            assert_eq!(url_part(url, part), expected, "{part}");
        }
        assert_eq!(url_part("no url", "HOST"), None);
    }

    #[test]
    fn base64_and_percent_signs() {
        assert_eq!(
            decode_base64("aGVsbG8gd29ybGQ="),
            Some(b"hello world".to_vec())
        );
        assert_eq!(decode_base64("a"), None);
        assert_eq!(decode_url("a%20b+c").as_deref(), Some("a b c"));
        assert_eq!(decode_url("%zz"), None);
    }
}
