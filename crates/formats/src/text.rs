//! Scalar values as text: parsing into and writing from the integers Arrow stores.
//!
//! Shared by JSON and CSV, so that a value reads the same in both. Everything works on
//! bytes, allocates nothing, and is exact: what cannot be represented is an error, never a
//! near miss (digits beyond a DECIMAL's scale round half up, as Flink does; digits beyond a
//! TIMESTAMP's precision are cut off).

pub(crate) mod base64;
pub(crate) mod decimal;
pub(crate) mod number;
pub(crate) mod temporal;
pub(crate) mod write;

/// Without leading and trailing ASCII white space.
pub(crate) fn trim(mut text: &str) -> &str {
    // `str::trim` knows Unicode and is several times slower on the common case: no space.
    while let Some(rest) = text.strip_prefix([' ', '\t', '\r', '\n']) {
        text = rest;
    }
    while let Some(rest) = text.strip_suffix([' ', '\t', '\r', '\n']) {
        text = rest;
    }
    text
}
