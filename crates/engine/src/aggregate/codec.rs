//! Compact persisted forms of numbers: varints for integers (zigzag for signed ones), fixed
//! width for floats.

/// Appends an unsigned integer, seven bits a byte, lowest first.
pub(crate) fn put_u128(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, (value << 1 ^ value >> 63) as u64);
}

pub(crate) fn put_i128(out: &mut Vec<u8>, value: i128) {
    put_u128(out, (value << 1 ^ value >> 127) as u128);
}

/// Appends bytes with their length before them.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn take_u128(bytes: &mut &[u8]) -> Option<u128> {
    let mut value = 0;
    for shift in (0..128).step_by(7) {
        let byte = take_u8(bytes)?;
        value |= u128::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub(crate) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take_u128(bytes)?.try_into().ok()
}

pub(crate) fn take_i64(bytes: &mut &[u8]) -> Option<i64> {
    let value = take_u64(bytes)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

pub(crate) fn take_i128(bytes: &mut &[u8]) -> Option<i128> {
    let value = take_u128(bytes)?;
    Some((value >> 1) as i128 ^ -((value & 1) as i128))
}

pub(crate) fn take_u8(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

pub(crate) fn take_f64(bytes: &mut &[u8]) -> Option<f64> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(f64::from_le_bytes(*head))
}

pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_u64(bytes)?).ok()?;
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}
