//! `VALUES` and the single row of a SELECT without FROM.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use datafusion_common::ScalarValue;
use datafusion_expr::sqlparser::{ast::Values, tokenizer::Span};

use super::Planner;
use crate::{
    bind::{Assignment, Bound, Scope, cast_implicitly, common_type, literal_text},
    diagnostic::{Diagnostic, Outcome, fail},
    flink_type::type_name,
    rel::{Column, Rel, RelKind},
};

impl Planner<'_> {
    pub(super) fn plan_values(&self, values: &Values, span: Span) -> Outcome<Rel> {
        let nothing = single_row();
        let scope = Scope::of(&nothing, "VALUES");
        // The dummy column of the single row is not for expressions.
        let scope = Scope {
            columns: vec![],
            ..scope
        };
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut columns: Vec<Vec<Bound>> = vec![vec![]; width];
        for row in &values.rows {
            if row.content.len() != width {
                return fail(
                    "column-count",
                    span,
                    format!(
                        "rows of VALUES have {width} and {} values",
                        row.content.len()
                    ),
                );
            }
            for (column, expr) in columns.iter_mut().zip(&row.content) {
                column.push(self.binder.bind(expr, &scope, span)?);
            }
        }
        let mut arrays = vec![];
        let mut described = vec![];
        for (i, column) in columns.into_iter().enumerate() {
            let (array, column) = self.values_column(i, column)?;
            arrays.push(array);
            described.push(column);
        }
        let schema = Schema::new(described.iter().map(Column::field).collect::<Vec<_>>());
        match RecordBatch::try_new(Arc::new(schema), arrays) {
            Ok(rows) => Ok(Rel {
                kind: RelKind::Values(rows),
                columns: described,
                updating: None,
            }),
            Err(error) => fail("internal", span, error.to_string()),
        }
    }

    fn values_column(&self, index: usize, values: Vec<Bound>) -> Outcome<(ArrayRef, Column)> {
        let mut data_type = DataType::Null;
        for value in &values {
            match common_type(&data_type, &value.data_type, Assignment::Combine) {
                Some(common) => data_type = common,
                None => {
                    return fail(
                        "type-mismatch",
                        value.span,
                        format!(
                            "column {} of VALUES has {} and {}",
                            index + 1,
                            type_name(&data_type),
                            type_name(&value.data_type)
                        ),
                    );
                }
            }
        }
        let mut scalars = vec![];
        let mut nullable = false;
        let mut span = Span::empty();
        for value in values {
            span = value.span;
            let value = if data_type == DataType::Null {
                value
            } else {
                cast_implicitly(self.binder, value, &data_type)?
            };
            match self.binder.fold(&value) {
                Ok(scalar) => {
                    nullable |= scalar.is_null();
                    scalars.push(scalar);
                }
                Err(why) => {
                    return Err(Box::new(Diagnostic::error(
                        "invalid-value",
                        span,
                        format!("this value cannot be computed: {why}"),
                    )));
                }
            }
        }
        let lineage = format!(
            "VALUES column {}: {}",
            index + 1,
            scalars.first().map(literal_text).unwrap_or_default()
        );
        match ScalarValue::iter_to_array(scalars) {
            Ok(array) => {
                let name = format!("EXPR${index}");
                let data_type = array.data_type().clone();
                Ok((array, Column::plain(name, data_type, nullable, lineage)))
            }
            Err(error) => fail("internal", span, error.to_string()),
        }
    }
}

/// One row with one column that no expression sees.
pub(super) fn single_row() -> Rel {
    let schema = Schema::new(vec![Field::new("\u{0}one", DataType::Boolean, false)]);
    let rows = RecordBatch::try_new(
        Arc::new(schema.clone()),
        vec![Arc::new(BooleanArray::from(vec![true]))],
    )
    .unwrap_or_else(|_| RecordBatch::new_empty(Arc::new(schema)));
    Rel {
        kind: RelKind::Values(rows),
        columns: vec![Column::plain("\u{0}one", DataType::Boolean, false, "one")],
        updating: None,
    }
}
