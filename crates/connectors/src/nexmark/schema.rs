//! The schema of a Nexmark table, and which of its columns a query wants.
//!
//! Invariant: pruning never changes the schema. A column that is not wanted is there and
//! null, so plans refer to columns the same way with and without pruning.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use millrace_formats::sql_type_name;

use super::NexmarkError;

pub(crate) const PERSON_FIELDS: [(&str, FieldType); 8] = [
    ("id", FieldType::Long),
    ("name", FieldType::Text),
    ("emailAddress", FieldType::Text),
    ("creditCard", FieldType::Text),
    ("city", FieldType::Text),
    ("state", FieldType::Text),
    ("dateTime", FieldType::Time),
    ("extra", FieldType::Text),
];
pub(crate) const AUCTION_FIELDS: [(&str, FieldType); 10] = [
    ("id", FieldType::Long),
    ("itemName", FieldType::Text),
    ("description", FieldType::Text),
    ("initialBid", FieldType::Long),
    ("reserve", FieldType::Long),
    ("dateTime", FieldType::Time),
    ("expires", FieldType::Time),
    ("seller", FieldType::Long),
    ("category", FieldType::Long),
    ("extra", FieldType::Text),
];
pub(crate) const BID_FIELDS: [(&str, FieldType); 7] = [
    ("auction", FieldType::Long),
    ("bidder", FieldType::Long),
    ("price", FieldType::Long),
    ("channel", FieldType::Text),
    ("url", FieldType::Text),
    ("dateTime", FieldType::Time),
    ("extra", FieldType::Text),
];

/// The types that fields of events have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldType {
    Long,
    Text,
    /// `TIMESTAMP(3)`.
    Time,
}

impl FieldType {
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Long => DataType::Int64,
            Self::Text => DataType::Utf8,
            Self::Time => DataType::Timestamp(TimeUnit::Millisecond, None),
        }
    }
}

pub(crate) fn fields(of: &[(&str, FieldType)]) -> Fields {
    of.iter()
        .map(|(name, field_type)| Field::new(*name, field_type.data_type(), true))
        .collect()
}

/// `event_type INT` (0 person, 1 auction, 2 bid) and the rows `person`, `auction` and `bid`,
/// of which exactly one is not null.
pub fn nexmark_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("event_type", DataType::Int32, true),
        Field::new("person", DataType::Struct(fields(&PERSON_FIELDS)), true),
        Field::new("auction", DataType::Struct(fields(&AUCTION_FIELDS)), true),
        Field::new("bid", DataType::Struct(fields(&BID_FIELDS)), true),
    ]))
}

/// Checks the physical columns that a table declares: any of the four, in any order, each of
/// the type that is generated.
pub fn check_declared(declared: &Schema) -> Result<(), NexmarkError> {
    let generated = nexmark_schema();
    for field in declared.fields() {
        let Some((_, own)) = generated.fields().find(field.name()) else {
            return Err(NexmarkError::Column(field.name().clone()));
        };
        if !same_type(own.data_type(), field.data_type()) {
            return Err(NexmarkError::ColumnType {
                column: field.name().clone(),
                declared: sql_type_name(field.data_type()),
                generated: sql_type_name(own.data_type()),
            });
        }
    }
    Ok(())
}

/// Whether two types are the same but for what fields of rows say about nulls.
fn same_type(left: &DataType, right: &DataType) -> bool {
    match (left, right) {
        (DataType::Struct(left), DataType::Struct(right)) => {
            let mut pairs = left.iter().zip(right);
            left.len() == right.len()
                && pairs.all(|(left, right)| {
                    left.name() == right.name() && left.data_type() == right.data_type()
                })
        }
        (left, right) => left == right,
    }
}

/// A set of fields of one kind of event, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldSet(u16);

impl FieldSet {
    const ALL: Self = Self(u16::MAX);
    const NONE: Self = Self(0);

    pub(crate) fn has(self, position: usize) -> bool {
        self.0 >> position & 1 == 1
    }

    fn add(&mut self, of: &[(&str, FieldType)], name: Option<&str>) -> bool {
        let Some(name) = name else {
            *self = Self::ALL;
            return true;
        };
        let position = of.iter().position(|(field, _)| *field == name);
        if let Some(position) = position {
            self.0 |= 1 << position;
        }
        position.is_some()
    }
}

/// The columns that a query reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NexmarkProjection {
    pub(crate) event_type: bool,
    pub(crate) person: FieldSet,
    pub(crate) auction: FieldSet,
    pub(crate) bid: FieldSet,
}

impl NexmarkProjection {
    /// Every column.
    pub fn all() -> Self {
        Self {
            event_type: true,
            person: FieldSet::ALL,
            auction: FieldSet::ALL,
            bid: FieldSet::ALL,
        }
    }

    /// The columns named by paths such as `event_type`, `bid` (with all its fields) and
    /// `bid.price`.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Self, NexmarkError> {
        let mut projection = Self {
            event_type: false,
            person: FieldSet::NONE,
            auction: FieldSet::NONE,
            bid: FieldSet::NONE,
        };
        for path in paths {
            let (column, field) = match path.split_once('.') {
                Some((column, field)) => (column, Some(field)),
                None => (path, None),
            };
            let known = match column {
                "event_type" => {
                    projection.event_type = true;
                    field.is_none()
                }
                "person" => projection.person.add(&PERSON_FIELDS, field),
                "auction" => projection.auction.add(&AUCTION_FIELDS, field),
                "bid" => projection.bid.add(&BID_FIELDS, field),
                _ => false,
            };
            if !known {
                return Err(NexmarkError::Column(path.to_owned()));
            }
        }
        Ok(projection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_columns_and_fields() {
        let projection =
            NexmarkProjection::of(["event_type", "bid.price", "bid.dateTime", "person"]);
        assert!(projection.is_ok_and(|projection| {
            projection.event_type
                && projection.bid == FieldSet(0b10_0100)
                && projection.person == FieldSet::ALL
                && projection.auction == FieldSet::NONE
        }));
        for wrong in ["bids", "bid.amount", "event_type.x", ""] {
            assert!(NexmarkProjection::of([wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn declared_columns_must_be_those_generated() {
        let schema = |fields: Vec<Field>| Schema::new(fields);
        let time = FieldType::Time.data_type();
        let bid = |of: &[(&str, FieldType)]| Field::new("bid", DataType::Struct(fields(of)), false);
        let event_type = Field::new("event_type", DataType::Int32, false);
        assert!(check_declared(&nexmark_schema()).is_ok());
        assert!(check_declared(&schema(vec![bid(&BID_FIELDS), event_type])).is_ok());
        for (wrong, message) in [
            (Field::new("bids", time.clone(), true), "no column 'bids'"),
            (
                bid(&BID_FIELDS[..3]),
                "declared as ROW<auction BIGINT, bidder BIGINT, price BIGINT>",
            ),
            (
                Field::new("event_type", DataType::Int64, true),
                "declared as BIGINT, but holds INT",
            ),
        ] {
            let error = check_declared(&schema(vec![wrong])).map_err(|error| error.to_string());
            assert!(
                error.as_ref().is_err_and(|text| text.contains(message)),
                "{error:?}"
            );
        }
    }
}
