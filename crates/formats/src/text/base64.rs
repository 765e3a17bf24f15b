//! BYTES in JSON and CSV: standard base64 (RFC 4648 §4) with padding.
//!
//! Reading also takes text without padding; anything else outside the alphabet is refused.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Marks bytes outside the alphabet in [`VALUES`].
const NONE: u8 = 0xff;

const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut index = 0;
    while index < 64 {
        values[ALPHABET[index] as usize] = index as u8;
        index += 1;
    }
    values
};

/// Appends `bytes` in base64 to `out`.
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let symbol = |bits: u32| ALPHABET[(bits & 63) as usize];
    out.reserve(bytes.len().div_ceil(3) * 4);
    let mut groups = bytes.chunks_exact(3);
    for group in &mut groups {
        let bits = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        out.extend_from_slice(&[
            symbol(bits >> 18),
            symbol(bits >> 12),
            symbol(bits >> 6),
            symbol(bits),
        ]);
    }
    match *groups.remainder() {
        [a] => {
            let bits = u32::from(a) << 16;
            out.extend_from_slice(&[symbol(bits >> 18), symbol(bits >> 12), b'=', b'=']);
        }
        [a, b] => {
            let bits = u32::from(a) << 16 | u32::from(b) << 8;
            out.extend_from_slice(&[
                symbol(bits >> 18),
                symbol(bits >> 12),
                symbol(bits >> 6),
                b'=',
            ]);
        }
        _ => {}
    }
}

/// Appends the bytes that `text` encodes to `out`; `None` (with `out` as it was) when it is
/// not base64.
pub(crate) fn decode(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let decoded = decode_groups(text, out);
    if decoded.is_none() {
        out.truncate(start);
    }
    decoded
}

fn decode_groups(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digits = match text {
        [digits @ .., b'=', b'='] if text.len().is_multiple_of(4) => digits,
        [digits @ .., b'='] if text.len().is_multiple_of(4) => digits,
        digits => digits,
    };
    let value = |byte: u8| match VALUES[byte as usize] {
        NONE => None,
        value => Some(u32::from(value)),
    };
    out.reserve(digits.len() / 4 * 3 + 2);
    let mut groups = digits.chunks_exact(4);
    for group in &mut groups {
        let bits = value(group[0])? << 18
            | value(group[1])? << 12
            | value(group[2])? << 6
            | value(group[3])?;
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    match *groups.remainder() {
        [] => Some(()),
        // The bits that do not make up a byte must be zero, else two texts would mean the
        // same bytes.
        [a, b] => {
            let bits = value(a)? << 18 | value(b)? << 12;
            out.push((bits >> 16) as u8);
            (bits & 0xffff == 0).then_some(())
        }
        [a, b, c] => {
            let bits = value(a)? << 18 | value(b)? << 12 | value(c)? << 6;
            out.extend_from_slice(&bits.to_be_bytes()[1..3]);
            (bits & 0xff == 0).then_some(())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_4648_vectors_both_ways() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut encoded = Vec::new();
            encode(plain.as_bytes(), &mut encoded);
            assert_eq!(encoded, text.as_bytes());
            let mut decoded = Vec::new();
            assert_eq!(decode(text.as_bytes(), &mut decoded), Some(()), "{text}");
            assert_eq!(decoded, plain.as_bytes());
            let unpadded = text.trim_end_matches('=');
            decoded.clear();
            assert_eq!(
                decode(unpadded.as_bytes(), &mut decoded),
                Some(()),
                "{unpadded}"
            );
            assert_eq!(decoded, plain.as_bytes());
        }
    }

    #[test]
    fn refuses_what_is_not_base64() {
        for text in [
            "Z", "Zg=", "Z===", "Zh==", "Zm9=", "Zm 9", "Zm9v====", "-_-_", "====",
        ] {
            let mut out = b"kept".to_vec();
            assert_eq!(decode(text.as_bytes(), &mut out), None, "{text}");
            assert_eq!(out, b"kept");
        }
    }
}
