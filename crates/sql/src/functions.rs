//! The scalar functions of the dialect, with Flink's names, types and null handling.
//!
//! A [`Definition`] is what a function is; a [`FlinkFunction`] is one resolved call of it:
//! argument types known and coerced, result type fixed. DataFusion sees only the latter.
//! Evaluation is pure but for the functions that read the [`Clock`].

mod arguments;
mod arithmetic;
mod call;
pub(crate) mod cast;
mod registry;
mod string;
mod structure;

pub(crate) use arithmetic::{Arithmetic, DecimalArithmetic, decimal_result};
pub use call::Clock;
pub(crate) use call::{Context, FlinkFunction};
pub(crate) use registry::{Nulls, lookup, names};
pub(crate) use structure::{AddInterval, FieldAccess};

use registry::Definition;

/// All functions, by family.
const FAMILIES: &[&[Definition]] = &[string::FUNCTIONS];

/// Functions of the dialect that are still to come, by name.
pub(crate) const PLANNED: &[&str] = &[];

/// The built-in function that a class named by CREATE FUNCTION stands for. There are no
/// user-defined functions yet; these are those of well-known benchmarks.
pub(crate) fn stand_in(class: &str) -> Option<&'static str> {
    match class {
        "com.github.nexmark.flink.udf.CountChar" => Some("$COUNT_CHAR"),
        _ => None,
    }
}
