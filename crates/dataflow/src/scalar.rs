//! A scalar expression over the columns of one input, ready to evaluate.

use std::{fmt, sync::Arc};

use arrow::datatypes::Field;
use datafusion_physical_expr::PhysicalExpr;

/// An expression with the field it yields and the text that people and fingerprints see.
#[derive(Clone)]
pub struct ScalarExpr {
    /// Evaluates over a record batch of the input's schema.
    pub expr: Arc<dyn PhysicalExpr>,
    /// Name, type and nullability of the result.
    pub field: Field,
    /// Canonical text: equal texts over equal inputs mean equal results.
    pub text: String,
}

impl fmt::Debug for ScalarExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} AS {}: {}",
            self.text,
            self.field.name(),
            self.field.data_type()
        )
    }
}
