//! String functions.

use datafusion_common::Result;
use datafusion_expr::ColumnarValue;

use super::{
    call::Call,
    registry::{
        Definition,
        Kind::{Integer, String as Str},
        Returns,
    },
};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("UPPER", &[Str], Returns::String, upper),
    Definition::new("LOWER", &[Str], Returns::String, lower),
    Definition::new("||", &[Str, Str], Returns::String, concat_operator),
    Definition::new("LEFT", &[Str, Integer], Returns::String, left),
];

fn upper(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        out.extend(text.chars().flat_map(char::to_uppercase));
        Ok(Some(()))
    })
}

fn lower(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        if text.is_ascii() {
            out.push_str(text);
            out.make_ascii_lowercase();
        } else {
            out.push_str(&text.to_lowercase());
        }
        Ok(Some(()))
    })
}

fn concat_operator(call: &Call) -> Result<ColumnarValue> {
    let (left, right) = (call.strings(0)?, call.strings(1)?);
    call.make_strings(|row, out| {
        let (Some(left), Some(right)) = (left.get(row), right.get(row)) else {
            return Ok(None);
        };
        out.push_str(left);
        out.push_str(right);
        Ok(Some(()))
    })
}

fn left(call: &Call) -> Result<ColumnarValue> {
    let (text, length) = (call.strings(0)?, call.longs(1)?);
    call.make_slices(|row| {
        let (Some(text), Some(length)) = (text.get(row), length.get(row)) else {
            return Ok(None);
        };
        let length = usize::try_from(length).unwrap_or(0);
        let end = text
            .char_indices()
            .nth(length)
            .map_or(text.len(), |(at, _)| at);
        Ok(Some(&text[..end]))
    })
}
