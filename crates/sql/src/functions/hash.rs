//! Digests, as lower-case hexadecimal.

use datafusion_common::{Result, exec_err};
use datafusion_expr::ColumnarValue;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::{
    call::Call,
    encoding::push_hex,
    registry::{
        Definition,
        Kind::{Integer, StringOrBytes},
        Nulls, Returns,
    },
};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("MD5", &[StringOrBytes], Returns::String, |call| {
        digest(call, |bytes| md5(bytes).to_vec())
    }),
    Definition::new("SHA1", &[StringOrBytes], Returns::String, |call| {
        digest(call, |bytes| sha1(bytes).to_vec())
    }),
    Definition::new("SHA224", &[StringOrBytes], Returns::String, |call| {
        digest(call, |bytes| Sha224::digest(bytes).to_vec())
    }),
    Definition::new("SHA256", &[StringOrBytes], Returns::String, |call| {
        digest(call, |bytes| Sha256::digest(bytes).to_vec())
    }),
    Definition::new("SHA384", &[StringOrBytes], Returns::String, |call| {
        digest(call, |bytes| Sha384::digest(bytes).to_vec())
    }),
    Definition::new("SHA512", &[StringOrBytes], Returns::String, |call| {
        digest(call, |bytes| Sha512::digest(bytes).to_vec())
    }),
    Definition::new("SHA2", &[StringOrBytes, Integer], Returns::String, sha2)
        .nulls(Nulls::Possible),
];

fn digest(call: &Call, of: fn(&[u8]) -> Vec<u8>) -> Result<ColumnarValue> {
    let bytes = call.byte_strings(0)?;
    call.make_strings(|row, out| {
        let Some(bytes) = bytes.get(row) else {
            return Ok(None);
        };
        push_hex(&of(bytes), false, out);
        Ok(Some(()))
    })
}

fn sha2(call: &Call) -> Result<ColumnarValue> {
    let (bytes, bits) = (call.byte_strings(0)?, call.longs(1)?);
    call.make_strings(|row, out| {
        let (Some(bytes), Some(bits)) = (bytes.get(row), bits.get(row)) else {
            return Ok(None);
        };
        let digest = match bits {
            224 => Sha224::digest(bytes).to_vec(),
            256 => Sha256::digest(bytes).to_vec(),
            384 => Sha384::digest(bytes).to_vec(),
            512 => Sha512::digest(bytes).to_vec(),
            other => return exec_err!("SHA2 has 224, 256, 384 or 512 bits, not {other}"),
        };
        push_hex(&digest, false, out);
        Ok(Some(()))
    })
}

/// Blocks of 64 bytes: the message, a one bit, zeros, and the length in bits.
fn blocks(bytes: &[u8], length: [u8; 8]) -> Vec<[u8; 64]> {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&length);
    padded
        .chunks_exact(64)
        .map(|chunk| {
            let mut block = [0; 64];
            block.copy_from_slice(chunk);
            block
        })
        .collect()
}

fn words(block: &[u8; 64], word: fn([u8; 4]) -> u32) -> [u32; 16] {
    let mut words = [0; 16];
    for (i, bytes) in block.chunks_exact(4).enumerate() {
        words[i] = word([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}

/// MD5 (RFC 1321).
fn md5(bytes: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [
        [7, 12, 17, 22],
        [5, 9, 14, 20],
        [4, 11, 16, 23],
        [6, 10, 15, 21],
    ];
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let bits = (bytes.len() as u64).wrapping_mul(8);
    for block in blocks(bytes, bits.to_le_bytes()) {
        let words = words(&block, u32::from_le_bytes);
        let [mut a, mut b, mut c, mut d] = state;
        for i in 0..64 {
            let (mix, word) = match i / 16 {
                0 => ((b & c) | (!b & d), i),
                1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), (7 * i) % 16),
            };
            // The constants are the integer parts of 2^32 |sin(i + 1)|.
            let constant = (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a
                .wrapping_add(mix)
                .wrapping_add(constant)
                .wrapping_add(words[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
        }
        for (state, more) in state.iter_mut().zip([a, b, c, d]) {
            *state = state.wrapping_add(more);
        }
    }
    let mut out = [0; 16];
    for (i, word) in state.iter().enumerate() {
        out[4 * i..4 * i + 4].copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// SHA-1 (FIPS 180).
fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    let bits = (bytes.len() as u64).wrapping_mul(8);
    for block in blocks(bytes, bits.to_be_bytes()) {
        let mut schedule = [0u32; 80];
        schedule[..16].copy_from_slice(&words(&block, u32::from_be_bytes));
        for i in 16..80 {
            schedule[i] = (schedule[i - 3] ^ schedule[i - 8] ^ schedule[i - 14] ^ schedule[i - 16])
                .rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in schedule.iter().enumerate() {
            let (mix, constant) = match i / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999u32),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mix)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (state, more) in state.iter_mut().zip([a, b, c, d, e]) {
            *state = state.wrapping_add(more);
        }
    }
    let mut out = [0; 20];
    for (i, word) in state.iter().enumerate() {
        out[4 * i..4 * i + 4].copy_from_slice(&word.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        let mut out = String::new();
        push_hex(bytes, false, &mut out);
        out
    }

    #[test]
    fn digests_of_the_standards() {
        assert_eq!(text(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(
            text(&md5(b"message digest")),
            "f96b697d7cb7938d525a2f31aaf161d0"
        );
        assert_eq!(
            text(&md5(
                b"12345678901234567890123456789012345678901234567890123456789012345678901234567890"
            )),
            "57edf4a22be3c955ac49da2e2107b67a"
        );
        assert_eq!(
            text(&sha1(b"abc")),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert_eq!(text(&sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    }
}
