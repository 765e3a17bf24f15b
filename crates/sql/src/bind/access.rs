//! Columns, fields of rows, and elements of arrays and maps.

use arrow::datatypes::DataType;
use datafusion_common::{Column, Span as ColumnSpan};
use datafusion_expr::Expr;
use datafusion_expr::sqlparser::{
    ast::{AccessExpr, Expr as Ast, Ident, Spanned, Subscript},
    tokenizer::Span,
};

use super::{Binder, Bound, Scope, refuse};
use crate::{
    diagnostic::{Diagnostic, Outcome, did_you_mean, fail, or_span},
    flink_type::type_name,
    functions::FieldAccess,
};

impl Binder {
    pub(super) fn bind_access(&self, ast: &Ast, scope: &Scope, span: Span) -> Outcome<Bound> {
        match ast {
            Ast::Identifier(name) => self.bind_path(std::slice::from_ref(name), scope, span),
            Ast::CompoundIdentifier(path) => self.bind_path(path, scope, span),
            Ast::CompoundFieldAccess { root, access_chain } => {
                // `t.a[1].b` comes with the root `t`: as many names as possible make the path.
                let mut path = match root.as_ref() {
                    Ast::Identifier(name) => vec![name.clone()],
                    Ast::CompoundIdentifier(names) => names.clone(),
                    _ => vec![],
                };
                let mut rest = access_chain.as_slice();
                let mut bound = if path.is_empty() {
                    self.bind(root, scope, span)?
                } else {
                    while let [AccessExpr::Dot(Ast::Identifier(name)), more @ ..] = rest {
                        path.push(name.clone());
                        rest = more;
                    }
                    self.bind_path(&path, scope, span)?
                };
                for access in rest {
                    bound = self.bind_step(bound, access, scope, span)?;
                }
                Ok(bound)
            }
            _ => refuse(span, "this access"),
        }
    }

    fn bind_step(
        &self,
        bound: Bound,
        access: &AccessExpr,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        match access {
            AccessExpr::Dot(Ast::Identifier(name)) => field(bound, name),
            AccessExpr::Subscript(Subscript::Index { index }) => {
                let index = self.bind(index, scope, span)?;
                let name = match bound.data_type {
                    DataType::List(_) => "$ELEMENT_AT",
                    DataType::Map(_, _) => "$MAP_VALUE",
                    ref other => {
                        return fail(
                            "type-mismatch",
                            span,
                            format!("[…] needs an ARRAY or MAP, not {}", type_name(other)),
                        );
                    }
                };
                self.call_by_name(name, vec![bound, index], span)
            }
            other => refuse(or_span(other.span(), span), "this access"),
        }
    }

    /// `column`, `table.column`, each followed by fields.
    fn bind_path(&self, path: &[Ident], scope: &Scope, span: Span) -> Outcome<Bound> {
        let first = &path[0];
        if let [qualifier, column, fields @ ..] = path
            && let Some(index) = scope.find(Some(&qualifier.value), &column.value)
        {
            return fields.iter().try_fold(column_at(scope, index, span), field);
        }
        if let Some(index) = scope.find(None, &first.value) {
            return path[1..]
                .iter()
                .try_fold(column_at(scope, index, span), field);
        }
        let same_name = scope
            .columns
            .iter()
            .filter(|column| column.name == first.value);
        if same_name.count() > 1 {
            return fail(
                "ambiguous-column",
                first.span,
                format!(
                    "the column `{}` is in several tables; write table.column",
                    first.value
                ),
            );
        }
        match path {
            [qualifier, column, ..] if scope.has_qualifier(&qualifier.value) => {
                scope.unknown(&column.value, column.span)
            }
            _ => scope.unknown(&first.value, first.span),
        }
    }
}

/// The column at a position of the scope's input.
pub(super) fn column_at(scope: &Scope, index: usize, span: Span) -> Bound {
    let column = &scope.input.columns[index];
    let mut reference = Column::new_unqualified(column.name.clone());
    if let Some(span) = ColumnSpan::try_from_sqlparser_span(span) {
        reference.spans.add_span(span);
    }
    Bound {
        expr: Expr::Column(reference),
        data_type: column.data_type.clone(),
        nullable: column.nullable,
        span,
    }
}

/// A field of a row.
fn field(row: Bound, name: &Ident) -> Outcome<Bound> {
    let DataType::Struct(fields) = &row.data_type else {
        return fail(
            "type-mismatch",
            name.span,
            format!(
                "`{}` is asked of a {}, which has no fields",
                name.value,
                type_name(&row.data_type)
            ),
        );
    };
    let Some((index, definition)) = fields.find(&name.value) else {
        let hint = did_you_mean(
            &name.value,
            fields.iter().map(|field| field.name().as_str()),
        );
        return Err(Box::new(
            Diagnostic::error(
                "unknown-column",
                name.span,
                format!("the row has no field `{}`", name.value),
            )
            .with_optional_hint(hint),
        ));
    };
    let nullable = row.nullable || definition.is_nullable();
    let data_type = definition.data_type().clone();
    let function = FieldAccess::new(index, definition);
    let span = row.span;
    Ok(Bound::call(function, vec![row], data_type, nullable, span))
}
