//! Definitions of functions by name, and how a call's types are resolved.

use std::{collections::BTreeMap, sync::LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Volatility};

use super::call::Call;
use crate::flink_type::{timestamp_ms, type_name};

/// What an argument may be, and what it is turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    /// Any integer, as BIGINT.
    Integer,
    /// Any number, unchanged.
    Numeric,
    /// Any number, as DOUBLE.
    Double,
    Boolean,
    Bytes,
    StringOrBytes,
    /// DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ, unchanged.
    Temporal,
    Array,
    Map,
    /// Anything, unchanged.
    Any,
}

/// The type of a result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Returns {
    String,
    Boolean,
    Int,
    BigInt,
    Double,
    Bytes,
    Date,
    /// TIMESTAMP(3).
    Timestamp3,
    /// TIMESTAMP_LTZ(3).
    TimestampLtz3,
    /// The (coerced) type of this argument.
    Argument(usize),
    /// Computed, with the argument types to coerce to, from types and literals.
    Computed(Resolver),
}

/// Coerced argument types and result type, or what is wrong with the arguments.
pub(crate) type Resolver =
    fn(&[DataType], &[Option<ScalarValue>]) -> Result<(Vec<DataType>, DataType), String>;

/// When a result is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Exactly when an argument is.
    Propagate,
    /// Only when all arguments are.
    UnlessOne,
    /// Possibly for arguments that are not.
    Possible,
    Never,
}

/// A function.
#[derive(Debug)]
pub(crate) struct Definition {
    /// Upper case.
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) arguments: &'static [Kind],
    /// How many of the last arguments may be left out.
    pub(crate) optional: usize,
    /// Whether the last argument may repeat.
    pub(crate) variadic: bool,
    pub(crate) returns: Returns,
    pub(crate) nulls: Nulls,
    pub(crate) volatility: Volatility,
    pub(crate) evaluate: fn(&Call) -> Result<ColumnarValue>,
}

impl Definition {
    /// A pure function of fixed arguments that is null when one of them is.
    pub(crate) const fn new(
        name: &'static str,
        arguments: &'static [Kind],
        returns: Returns,
        evaluate: fn(&Call) -> Result<ColumnarValue>,
    ) -> Self {
        Definition {
            name,
            aliases: &[],
            arguments,
            optional: 0,
            variadic: false,
            returns,
            nulls: Nulls::Propagate,
            volatility: Volatility::Immutable,
            evaluate,
        }
    }

    pub(crate) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(crate) const fn optional(mut self, optional: usize) -> Self {
        self.optional = optional;
        self
    }

    pub(crate) const fn variadic(mut self) -> Self {
        self.variadic = true;
        self
    }

    pub(crate) const fn nulls(mut self, nulls: Nulls) -> Self {
        self.nulls = nulls;
        self
    }

    pub(crate) const fn volatile(mut self) -> Self {
        self.volatility = Volatility::Volatile;
        self
    }

    /// The name as scripts write it.
    fn shown(&self) -> &'static str {
        match self.name {
            "$ELEMENT_AT" | "$MAP_VALUE" => "[…]",
            "$IS_JSON" => "IS JSON",
            "$SIMILAR_TO" => "SIMILAR TO",
            "$BETWEEN_SYMMETRIC" => "BETWEEN",
            "$FLOOR_TO" => "FLOOR",
            "$CEIL_TO" => "CEIL",
            name => name.trim_start_matches('$'),
        }
    }

    /// The types to coerce the arguments to and the result type.
    pub(crate) fn resolve(
        &self,
        types: &[DataType],
        literals: &[Option<ScalarValue>],
    ) -> Result<(Vec<DataType>, DataType), String> {
        let least = self.arguments.len() - self.optional;
        let most = if self.variadic {
            usize::MAX
        } else {
            self.arguments.len()
        };
        if !(least..=most).contains(&types.len()) {
            let expected = match (least, most) {
                (least, usize::MAX) => format!("at least {least}"),
                (least, most) if least == most => least.to_string(),
                (least, most) => format!("{least} to {most}"),
            };
            let noun = if expected == "1" {
                "argument"
            } else {
                "arguments"
            };
            return Err(format!(
                "{} takes {expected} {noun}, not {}",
                self.shown(),
                types.len()
            ));
        }
        let mut coerced = Vec::with_capacity(types.len());
        for (i, data_type) in types.iter().enumerate() {
            let kind = self.arguments[i.min(self.arguments.len() - 1)];
            match coerce(kind, data_type) {
                Some(coerced_type) => coerced.push(coerced_type),
                None => {
                    return Err(format!(
                        "argument {} of {} must be {}, not {}",
                        i + 1,
                        self.shown(),
                        kind_name(kind),
                        type_name(data_type)
                    ));
                }
            }
        }
        let result = match self.returns {
            Returns::String => DataType::Utf8,
            Returns::Boolean => DataType::Boolean,
            Returns::Int => DataType::Int32,
            Returns::BigInt => DataType::Int64,
            Returns::Double => DataType::Float64,
            Returns::Bytes => DataType::Binary,
            Returns::Date => DataType::Date32,
            Returns::Timestamp3 => timestamp_ms(false),
            Returns::TimestampLtz3 => timestamp_ms(true),
            Returns::Argument(i) => coerced[i].clone(),
            Returns::Computed(resolver) => {
                let (coerced, result) = resolver(&coerced, literals)
                    .map_err(|why| format!("{}: {why}", self.shown()))?;
                return Ok((self.typed(coerced), result));
            }
        };
        Ok((self.typed(coerced), result))
    }

    /// Gives a type to each NULL without one. An array of no type has no null bits, so its
    /// rows would not look null to a function.
    fn typed(&self, mut arguments: Vec<DataType>) -> Vec<DataType> {
        // The only function that shows the type itself.
        if self.name != "TYPEOF" {
            for argument in &mut arguments {
                if argument == &DataType::Null {
                    *argument = DataType::Utf8;
                }
            }
        }
        arguments
    }
}

fn coerce(kind: Kind, actual: &DataType) -> Option<DataType> {
    let fixed = match kind {
        Kind::String => DataType::Utf8,
        Kind::Integer if actual.is_signed_integer() => return Some(DataType::Int64),
        Kind::Integer => DataType::Int64,
        Kind::Double if actual.is_numeric() => return Some(DataType::Float64),
        Kind::Double => DataType::Float64,
        Kind::Boolean => DataType::Boolean,
        Kind::Bytes => DataType::Binary,
        Kind::Numeric => {
            return match actual {
                DataType::Null => Some(DataType::Int32),
                actual => actual.is_numeric().then(|| actual.clone()),
            };
        }
        Kind::StringOrBytes => {
            return match actual {
                DataType::Null | DataType::Utf8 => Some(DataType::Utf8),
                DataType::Binary => Some(DataType::Binary),
                _ => None,
            };
        }
        Kind::Temporal => {
            return match actual {
                DataType::Timestamp(_, _) | DataType::Date32 | DataType::Time32(_) => {
                    Some(actual.clone())
                }
                DataType::Null => Some(timestamp_ms(false)),
                _ => None,
            };
        }
        Kind::Array => return matches!(actual, DataType::List(_)).then(|| actual.clone()),
        Kind::Map => return matches!(actual, DataType::Map(_, _)).then(|| actual.clone()),
        Kind::Any => return Some(actual.clone()),
    };
    (actual == &fixed || actual == &DataType::Null).then_some(fixed)
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "a STRING",
        Kind::Integer => "an integer",
        Kind::Numeric | Kind::Double => "a number",
        Kind::Boolean => "a BOOLEAN",
        Kind::Bytes => "BYTES",
        Kind::StringOrBytes => "a STRING or BYTES",
        Kind::Temporal => "a DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ",
        Kind::Array => "an ARRAY",
        Kind::Map => "a MAP",
        Kind::Any => "a value",
    }
}

static REGISTRY: LazyLock<BTreeMap<&'static str, &'static Definition>> = LazyLock::new(|| {
    let mut registry = BTreeMap::new();
    for family in super::FAMILIES {
        for definition in *family {
            registry.insert(definition.name, definition);
            for alias in definition.aliases {
                registry.insert(alias, definition);
            }
        }
    }
    registry
});

/// The function of this name, whatever its case.
pub(crate) fn lookup(name: &str) -> Option<&'static Definition> {
    REGISTRY.get(name.to_ascii_uppercase().as_str()).copied()
}

/// The names that scripts may write, in order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    REGISTRY
        .keys()
        .copied()
        .filter(|name| !name.starts_with('$'))
}
