//! One resolved call of a function, as DataFusion evaluates it.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::datatypes::{DataType, Field, FieldRef};
use chrono_tz::Tz;
use datafusion_common::Result;
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::registry::Definition;

/// Reads the wall clock, in milliseconds since the epoch.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// A clock of the caller's making, for simulation and tests.
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now_ms))
    }

    /// The machine's clock. This is the one place where it is read; whoever wants another
    /// one passes it in [`CompileOptions`](crate::CompileOptions).
    #[allow(clippy::disallowed_methods)]
    pub fn system() -> Self {
        Clock::new(|| chrono::Utc::now().timestamp_millis())
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// What functions know besides their arguments.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// `table.local-time-zone`.
    pub(crate) zone: Tz,
    pub(crate) clock: Clock,
}

/// Arguments of one evaluation.
pub(crate) struct Call<'a> {
    pub(crate) arguments: &'a [ColumnarValue],
    pub(crate) rows: usize,
    pub(crate) result: &'a DataType,
    pub(crate) context: &'a Context,
}

/// A resolved call.
pub(crate) struct FlinkFunction {
    definition: &'static Definition,
    result: DataType,
    nullable: bool,
    context: Context,
    signature: Signature,
}

impl FlinkFunction {
    pub(crate) fn new(
        definition: &'static Definition,
        arguments: usize,
        result: DataType,
        nullable: bool,
        context: Context,
    ) -> Self {
        FlinkFunction {
            definition,
            result,
            nullable,
            context,
            signature: any_signature(arguments, definition.volatility),
        }
    }

    pub(crate) fn into_udf(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(self))
    }
}

/// A signature that takes what the binder has already checked.
pub(crate) fn any_signature(arguments: usize, volatility: Volatility) -> Signature {
    if arguments == 0 {
        Signature::new(TypeSignature::Nullary, volatility)
    } else {
        Signature::any(arguments, volatility)
    }
}

impl fmt::Debug for FlinkFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.definition.name)
    }
}

impl PartialEq for FlinkFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
            && self.result == other.result
            && self.nullable == other.nullable
            && self.context.zone == other.context.zone
    }
}

impl Eq for FlinkFunction {}

impl Hash for FlinkFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
        self.result.hash(state);
    }
}

impl ScalarUDFImpl for FlinkFunction {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(
            self.definition.name,
            self.result.clone(),
            self.nullable,
        )))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        (self.definition.evaluate)(&Call {
            arguments: &arguments.args,
            rows: arguments.number_rows,
            result: &self.result,
            context: &self.context,
        })
    }
}
