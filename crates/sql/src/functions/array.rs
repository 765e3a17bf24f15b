//! Functions of arrays.
//!
//! A function decides which elements its result has; the elements themselves are copied by
//! one `take` per evaluation, whatever their type.

mod lists;

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, ListArray, StringBuilder, new_empty_array},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, Int32Type},
    row::{OwnedRow, Rows},
};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::ColumnarValue;

use super::{
    call::Call,
    cast::{Rules, cast_array},
    registry::{
        Definition,
        Kind::{Any, Array as List, Boolean, Integer, String as Str},
        Nulls, Returns,
    },
};
use crate::{
    bind::{Assignment, common_type},
    flink_type::type_name,
};
use lists::Lists;

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("$ARRAY", &[Any], Returns::Computed(array_types), make_array)
        .optional(1)
        .variadic()
        .nulls(Nulls::Never),
    Definition::new(
        "CARDINALITY",
        &[Any],
        Returns::Computed(cardinality_types),
        cardinality,
    ),
    Definition::new(
        "$ELEMENT_AT",
        &[List, Integer],
        Returns::Computed(element_types),
        element_at,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "ELEMENT",
        &[List],
        Returns::Computed(element_types),
        element,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "ARRAY_CONTAINS",
        &[List, Any],
        Returns::Computed(|t, _| with_element(t, DataType::Boolean)),
        contains,
    ),
    Definition::new(
        "ARRAY_POSITION",
        &[List, Any],
        Returns::Computed(|t, _| with_element(t, DataType::Int32)),
        position,
    ),
    Definition::new(
        "ARRAY_APPEND",
        &[List, Any],
        Returns::Computed(|t, _| with_element_list(t)),
        append,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "ARRAY_PREPEND",
        &[List, Any],
        Returns::Computed(|t, _| with_element_list(t)),
        prepend,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "ARRAY_REMOVE",
        &[List, Any],
        Returns::Computed(|t, _| with_element_list(t)),
        remove,
    )
    .nulls(Nulls::Possible),
    Definition::new("ARRAY_REVERSE", &[List], Returns::Argument(0), reverse),
    Definition::new("ARRAY_DISTINCT", &[List], Returns::Argument(0), distinct),
    Definition::new(
        "ARRAY_SORT",
        &[List, Boolean, Boolean],
        Returns::Argument(0),
        sort,
    )
    .optional(2),
    Definition::new(
        "ARRAY_SLICE",
        &[List, Integer, Integer],
        Returns::Argument(0),
        slice,
    )
    .optional(1),
    Definition::new(
        "ARRAY_CONCAT",
        &[List],
        Returns::Computed(same_lists),
        concat_all,
    )
    .variadic(),
    Definition::new(
        "ARRAY_UNION",
        &[List, List],
        Returns::Computed(same_lists),
        |call| combine(call, Set::Union),
    ),
    Definition::new(
        "ARRAY_INTERSECT",
        &[List, List],
        Returns::Computed(same_lists),
        |call| combine(call, Set::Intersect),
    ),
    Definition::new(
        "ARRAY_EXCEPT",
        &[List, List],
        Returns::Computed(same_lists),
        |call| combine(call, Set::Except),
    ),
    Definition::new(
        "ARRAY_MAX",
        &[List],
        Returns::Computed(element_types),
        |call| extreme(call, true),
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "ARRAY_MIN",
        &[List],
        Returns::Computed(element_types),
        |call| extreme(call, false),
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "ARRAY_JOIN",
        &[List, Str, Str],
        Returns::Computed(join_types),
        join,
    )
    .optional(1),
];

type Types = Result<(Vec<DataType>, DataType), String>;

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", element, true)))
}

fn element_of(list: &DataType) -> DataType {
    match list {
        DataType::List(element) => element.data_type().clone(),
        _ => DataType::Null,
    }
}

fn common(types: &[DataType]) -> Result<DataType, String> {
    let mut common = DataType::Null;
    for data_type in types {
        common = common_type(&common, data_type, Assignment::Combine).ok_or_else(|| {
            format!(
                "{} and {} have no common type",
                type_name(&common),
                type_name(data_type)
            )
        })?;
    }
    Ok(common)
}

fn array_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let common = common(types)?;
    if common == DataType::Null {
        return Err("the elements have no type; CAST one of them".into());
    }
    Ok((vec![common.clone(); types.len()], list_of(common)))
}

fn cardinality_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    match types[0] {
        DataType::List(_) | DataType::Map(_, _) => Ok((types.to_vec(), DataType::Int32)),
        _ => Err("the argument must be an ARRAY or MAP".into()),
    }
}

fn element_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    Ok((types.to_vec(), element_of(&types[0])))
}

/// A list and a value of its elements' type.
fn with_element(types: &[DataType], result: DataType) -> Types {
    let element = common(&[element_of(&types[0]), types[1].clone()])?;
    Ok((vec![list_of(element.clone()), element], result))
}

fn with_element_list(types: &[DataType]) -> Types {
    let (types, _) = with_element(types, DataType::Null)?;
    let list = types[0].clone();
    Ok((types, list))
}

fn same_lists(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let elements: Vec<DataType> = types.iter().map(element_of).collect();
    let list = list_of(common(&elements)?);
    Ok((vec![list.clone(); types.len()], list))
}

fn join_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    if element_of(&types[0]) != DataType::Utf8 {
        return Err("the elements must be STRINGs".into());
    }
    Ok((types.to_vec(), DataType::Utf8))
}

fn make_array(call: &Call) -> Result<ColumnarValue> {
    let DataType::List(element) = call.result else {
        return internal_err!("an ARRAY of type {}", call.result);
    };
    let rows = call.row_count();
    if call.len() == 0 {
        let empty = new_empty_array(element.data_type());
        let list = ListArray::try_new(
            Arc::clone(element),
            OffsetBuffer::from_lengths(vec![0; rows]),
            empty,
            None,
        )?;
        return call.finish(Arc::new(list));
    }
    let plain: Vec<usize> = (0..call.len()).collect();
    let lists = Lists::of(call, &[], &plain)?;
    lists.make(call, |row, out| {
        out.extend(
            plain
                .iter()
                .map(|argument| lists.plain(*argument, row) as u32),
        );
        Ok(true)
    })
}

fn cardinality(call: &Call) -> Result<ColumnarValue> {
    let array = call.array(0)?;
    let length: Box<dyn Fn(usize) -> i32> = match (array.as_list_opt::<i32>(), array.as_map_opt()) {
        (Some(list), _) => Box::new(|row| list.value_length(row)),
        (_, Some(map)) => Box::new(|row| map.value_length(row)),
        _ => return internal_err!("CARDINALITY of {}", array.data_type()),
    };
    call.make::<Int32Type>(|row| Ok((!array.is_null(row)).then(|| length(row))))
}

/// From 1; null beyond the end.
fn element_at(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[])?;
    let index = call.longs(1)?;
    lists.pick(call, |row| {
        let (Some(elements), Some(index)) = (lists.elements(0, row), index.get(row)) else {
            return Ok(None);
        };
        if index < 1 {
            return exec_err!(
                "array elements count from 1, not {index}; NULLIF(index, 0) gives NULL for 0"
            );
        }
        Ok(elements
            .into_iter()
            .nth(usize::try_from(index - 1).unwrap_or(usize::MAX)))
    })
}

fn element(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[])?;
    lists.pick(call, |row| match lists.elements(0, row) {
        Some(elements) if elements.len() > 1 => {
            exec_err!(
                "ELEMENT takes an array of at most one element, not {}",
                elements.len()
            )
        }
        Some(mut elements) => Ok(elements.next()),
        None => Ok(None),
    })
}

/// Position of a value among elements, nulls equal.
fn find(lists: &Lists, rows: &Rows, row: usize) -> Option<Option<usize>> {
    let elements = lists.elements(0, row)?;
    let wanted = rows.row(lists.plain(0, row));
    Some(
        elements
            .into_iter()
            .position(|element| rows.row(element) == wanted),
    )
}

fn contains(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[1])?;
    let rows = lists.rows()?;
    call.make_booleans(|row| Ok(find(&lists, &rows, row).map(|found| found.is_some())))
}

fn position(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[1])?;
    let rows = lists.rows()?;
    call.make::<Int32Type>(|row| {
        Ok(find(&lists, &rows, row).map(|found| found.map_or(0, |at| at as i32 + 1)))
    })
}

fn extend(out: &mut Vec<u32>, elements: impl IntoIterator<Item = usize>) {
    out.extend(elements.into_iter().map(|element| element as u32));
}

fn append(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[1])?;
    lists.make(call, |row, out| {
        let Some(elements) = lists.elements(0, row) else {
            return Ok(false);
        };
        extend(out, elements.chain([lists.plain(0, row)]));
        Ok(true)
    })
}

fn prepend(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[1])?;
    lists.make(call, |row, out| {
        let Some(elements) = lists.elements(0, row) else {
            return Ok(false);
        };
        extend(out, std::iter::once(lists.plain(0, row)).chain(elements));
        Ok(true)
    })
}

fn remove(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[1])?;
    let rows = lists.rows()?;
    lists.make(call, |row, out| {
        let Some(elements) = lists.elements(0, row) else {
            return Ok(false);
        };
        let unwanted = rows.row(lists.plain(0, row));
        extend(
            out,
            elements.filter(|element| rows.row(*element) != unwanted),
        );
        Ok(true)
    })
}

fn reverse(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[])?;
    lists.make(call, |row, out| {
        let Some(elements) = lists.elements(0, row) else {
            return Ok(false);
        };
        extend(out, elements.rev());
        Ok(true)
    })
}

fn distinct(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[])?;
    let rows = lists.rows()?;
    lists.make(call, |row, out| {
        let Some(elements) = lists.elements(0, row) else {
            return Ok(false);
        };
        let mut seen = std::collections::HashSet::new();
        extend(
            out,
            elements.filter(|element| seen.insert(rows.row(*element))),
        );
        Ok(true)
    })
}

/// Ascending with nulls first, unless told otherwise; descending puts them last by default.
fn sort(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[])?;
    let rows = lists.rows()?;
    let ascending = if call.len() > 1 {
        Some(call.booleans(1)?)
    } else {
        None
    };
    let nulls_first = if call.len() > 2 {
        Some(call.booleans(2)?)
    } else {
        None
    };
    lists.make(call, |row, out| {
        let ascending = ascending.as_ref().map_or(Some(true), |flag| flag.get(row));
        let (Some(elements), Some(ascending)) = (lists.elements(0, row), ascending) else {
            return Ok(false);
        };
        let Some(nulls_first) = nulls_first
            .as_ref()
            .map_or(Some(ascending), |flag| flag.get(row))
        else {
            return Ok(false);
        };
        let (nulls, mut values): (Vec<usize>, Vec<usize>) =
            elements.partition(|element| lists.pool.is_null(*element));
        values.sort_by(|a, b| {
            let order = rows.row(*a).cmp(&rows.row(*b));
            if ascending { order } else { order.reverse() }
        });
        if nulls_first {
            extend(out, nulls.into_iter().chain(values));
        } else {
            extend(out, values.into_iter().chain(nulls));
        }
        Ok(true)
    })
}

/// From 1, both ends included; negative positions count from the end.
fn slice(call: &Call) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[])?;
    let start = call.longs(1)?;
    let end = if call.len() > 2 {
        Some(call.longs(2)?)
    } else {
        None
    };
    lists.make(call, |row, out| {
        let end = end.as_ref().map_or(Some(-1), |end| end.get(row));
        let (Some(elements), Some(start), Some(end)) =
            (lists.elements(0, row), start.get(row), end)
        else {
            return Ok(false);
        };
        let length = elements.len() as i64;
        let place = |position: i64| {
            if position < 0 {
                length + position + 1
            } else {
                position
            }
        };
        let (first, last) = (place(start).max(1), place(end).min(length));
        if first <= last {
            let (first, last) = ((first - 1) as usize, last as usize);
            extend(out, elements.skip(first).take(last - first));
        }
        Ok(true)
    })
}

fn concat_all(call: &Call) -> Result<ColumnarValue> {
    let arguments: Vec<usize> = (0..call.len()).collect();
    let lists = Lists::of(call, &arguments, &[])?;
    lists.make(call, |row, out| {
        for argument in &arguments {
            let Some(elements) = lists.elements(*argument, row) else {
                return Ok(false);
            };
            extend(out, elements);
        }
        Ok(true)
    })
}

#[derive(Clone, Copy)]
enum Set {
    Union,
    Intersect,
    Except,
}

/// Set operations, without duplicates, in order of first occurrence.
fn combine(call: &Call, set: Set) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0, 1], &[])?;
    let rows = lists.rows()?;
    lists.make(call, |row, out| {
        let (Some(left), Some(right)) = (lists.elements(0, row), lists.elements(1, row)) else {
            return Ok(false);
        };
        let other: std::collections::HashSet<OwnedRow> = right
            .clone()
            .map(|element| rows.row(element).owned())
            .collect();
        let mut seen = std::collections::HashSet::new();
        let candidates: Box<dyn Iterator<Item = usize>> = match set {
            Set::Union => Box::new(left.chain(right)),
            _ => Box::new(left),
        };
        extend(
            out,
            candidates.filter(|element| {
                let value = rows.row(*element).owned();
                let wanted = match set {
                    Set::Union => true,
                    Set::Intersect => other.contains(&value),
                    Set::Except => !other.contains(&value),
                };
                wanted && seen.insert(value)
            }),
        );
        Ok(true)
    })
}

fn extreme(call: &Call, largest: bool) -> Result<ColumnarValue> {
    let lists = Lists::of(call, &[0], &[])?;
    let rows = lists.rows()?;
    lists.pick(call, |row| {
        let Some(elements) = lists.elements(0, row) else {
            return Ok(None);
        };
        let values = elements.filter(|element| !lists.pool.is_null(*element));
        let order = |a: &usize, b: &usize| rows.row(*a).cmp(&rows.row(*b));
        Ok(if largest {
            values.max_by(order)
        } else {
            values.min_by(order)
        })
    })
}

/// Nulls are left out, or replaced by the third argument.
fn join(call: &Call) -> Result<ColumnarValue> {
    let array = call.array(0)?;
    let lists = array.as_list::<i32>();
    let separator = call.strings(1)?;
    let replacement = if call.len() > 2 {
        Some(call.strings(2)?)
    } else {
        None
    };
    let mut builder = StringBuilder::new();
    let rules = Rules {
        zone: call.context.zone,
        lenient: true,
    };
    for row in 0..call.row_count() {
        let replacement = match &replacement {
            Some(replacement) => match replacement.get(row) {
                Some(text) => Some(text),
                None => {
                    builder.append_null();
                    continue;
                }
            },
            None => None,
        };
        match (array.is_null(row), separator.get(row)) {
            (false, Some(separator)) => {
                let elements = cast_array(&lists.value(row), &DataType::Utf8, &rules)?;
                let parts: Vec<&str> = elements
                    .as_string::<i32>()
                    .iter()
                    .filter_map(|element| element.or(replacement))
                    .collect();
                builder.append_value(parts.join(separator));
            }
            _ => builder.append_null(),
        }
    }
    call.finish(Arc::new(builder.finish()))
}
