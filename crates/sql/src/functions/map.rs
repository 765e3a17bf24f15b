//! Maps and rows: making them and taking them apart.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, ListArray, MapArray, MapFieldNames, StructArray, UInt32Array,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::{concat, take},
    datatypes::{DataType, Field, Fields},
    row::{RowConverter, SortField},
};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::ColumnarValue;

use super::{
    call::Call,
    registry::{
        Definition,
        Kind::{Any, Array as List, Map},
        Nulls, Returns,
    },
};
use crate::{
    bind::{Assignment, common_type},
    flink_type::{map_type, type_name},
};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("$MAP", &[Any, Any], Returns::Computed(map_types), make_map)
        .variadic()
        .nulls(Nulls::Never),
    Definition::new(
        "$MAP_VALUE",
        &[Map, Any],
        Returns::Computed(value_types),
        value,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "MAP_KEYS",
        &[Map],
        Returns::Computed(|t, _| side(t, 0)),
        |call| entries_side(call, 0),
    ),
    Definition::new(
        "MAP_VALUES",
        &[Map],
        Returns::Computed(|t, _| side(t, 1)),
        |call| entries_side(call, 1),
    ),
    Definition::new(
        "MAP_ENTRIES",
        &[Map],
        Returns::Computed(entries_types),
        entries,
    ),
    Definition::new(
        "MAP_FROM_ARRAYS",
        &[List, List],
        Returns::Computed(from_arrays_types),
        from_arrays,
    ),
    Definition::new("MAP_UNION", &[Map], Returns::Computed(union_types), union).variadic(),
    Definition::new("ROW", &[Any], Returns::Computed(row_types), make_row)
        .variadic()
        .nulls(Nulls::Never),
];

type Types = Result<(Vec<DataType>, DataType), String>;

/// Names of a map's parts, as in [`map_type`].
pub(super) fn field_names() -> MapFieldNames {
    MapFieldNames {
        entry: "entries".into(),
        key: "key".into(),
        value: "value".into(),
    }
}

/// Key and value type of a map.
fn parts(map: &DataType) -> Option<(DataType, DataType)> {
    let DataType::Map(entries, _) = map else {
        return None;
    };
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 => {
            Some((fields[0].data_type().clone(), fields[1].data_type().clone()))
        }
        _ => None,
    }
}

fn common<'t>(types: impl Iterator<Item = &'t DataType>) -> Result<DataType, String> {
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

fn map_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    if !types.len().is_multiple_of(2) {
        return Err("every key needs a value".into());
    }
    let key = common(types.iter().step_by(2))?;
    let value = common(types.iter().skip(1).step_by(2))?;
    if key == DataType::Null || value == DataType::Null {
        return Err("keys or values have no type; CAST one of them".into());
    }
    let coerced = (0..types.len())
        .map(|i| {
            if i % 2 == 0 {
                key.clone()
            } else {
                value.clone()
            }
        })
        .collect();
    Ok((coerced, map_type(key, value)))
}

fn value_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let Some((key, value)) = parts(&types[0]) else {
        return Err("the first argument must be a MAP".into());
    };
    match common([&key, &types[1]].into_iter())? {
        common if common == key => Ok((vec![types[0].clone(), key], value)),
        _ => Err(format!("the key must be {}", type_name(&key))),
    }
}

fn side(types: &[DataType], at: usize) -> Types {
    let Some((key, value)) = parts(&types[0]) else {
        return Err("the argument must be a MAP".into());
    };
    let element = if at == 0 { key } else { value };
    let list = DataType::List(Arc::new(Field::new("item", element, true)));
    Ok((types.to_vec(), list))
}

fn entries_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let Some((key, value)) = parts(&types[0]) else {
        return Err("the argument must be a MAP".into());
    };
    let entry = DataType::Struct(entry_fields(key, value));
    let list = DataType::List(Arc::new(Field::new("item", entry, true)));
    Ok((types.to_vec(), list))
}

fn entry_fields(key: DataType, value: DataType) -> Fields {
    vec![
        Field::new("key", key, true),
        Field::new("value", value, true),
    ]
    .into()
}

fn from_arrays_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    match (&types[0], &types[1]) {
        (DataType::List(keys), DataType::List(values)) => Ok((
            types.to_vec(),
            map_type(keys.data_type().clone(), values.data_type().clone()),
        )),
        _ => Err("both arguments must be ARRAYs".into()),
    }
}

fn union_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    if types.iter().any(|map| map != &types[0]) {
        return Err("all maps must have the same type".into());
    }
    Ok((types.to_vec(), types[0].clone()))
}

fn row_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    if types.contains(&DataType::Null) {
        return Err("a NULL in a row has no type; CAST it".into());
    }
    let fields: Fields = types
        .iter()
        .enumerate()
        .map(|(i, data_type)| Field::new(format!("EXPR${i}"), data_type.clone(), true))
        .collect();
    Ok((types.to_vec(), DataType::Struct(fields)))
}

fn make_row(call: &Call) -> Result<ColumnarValue> {
    let DataType::Struct(fields) = call.result else {
        return internal_err!("a ROW of type {}", call.result);
    };
    let columns = (0..call.len())
        .map(|i| call.array(i))
        .collect::<Result<Vec<_>>>()?;
    call.finish(Arc::new(StructArray::try_new(
        fields.clone(),
        columns,
        None,
    )?))
}

/// A map array from entries by row; of equal keys the last counts.
fn build(
    call: &Call,
    keys: ArrayRef,
    values: ArrayRef,
    rows: Vec<Option<Vec<(u32, u32)>>>,
) -> Result<ColumnarValue> {
    let DataType::Map(entries_field, sorted) = call.result else {
        return internal_err!("a MAP of type {}", call.result);
    };
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let comparable = converter.convert_columns(&[Arc::clone(&keys)])?;
    let (mut key_indices, mut value_indices, mut lengths, mut valid) =
        (vec![], vec![], vec![], vec![]);
    for entries in rows {
        valid.push(entries.is_some());
        let mut kept: Vec<(u32, u32)> = vec![];
        for (key, value) in entries.unwrap_or_default() {
            if keys.is_null(key as usize) {
                return exec_err!("a key of a MAP is null; give it a value with COALESCE");
            }
            let same = |other: &&mut (u32, u32)| {
                comparable.row(other.0 as usize) == comparable.row(key as usize)
            };
            match kept.iter_mut().find(same) {
                Some(known) => known.1 = value,
                None => kept.push((key, value)),
            }
        }
        lengths.push(kept.len());
        key_indices.extend(kept.iter().map(|(key, _)| *key));
        value_indices.extend(kept.iter().map(|(_, value)| *value));
    }
    let DataType::Struct(fields) = entries_field.data_type() else {
        return internal_err!("entries of type {}", entries_field.data_type());
    };
    let keys = take(&keys, &UInt32Array::from(key_indices), None)?;
    let values = take(&values, &UInt32Array::from(value_indices), None)?;
    let map = MapArray::try_new(
        Arc::clone(entries_field),
        OffsetBuffer::from_lengths(lengths),
        StructArray::try_new(fields.clone(), vec![keys, values], None)?,
        Some(NullBuffer::from(valid)),
        *sorted,
    )?;
    call.finish(Arc::new(map))
}

fn concat_arrays(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let parts: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(concat(&parts)?)
}

fn make_map(call: &Call) -> Result<ColumnarValue> {
    let rows = call.row_count();
    let arrays = (0..call.len())
        .map(|i| call.array(i))
        .collect::<Result<Vec<_>>>()?;
    let keys: Vec<ArrayRef> = arrays.iter().step_by(2).cloned().collect();
    let values: Vec<ArrayRef> = arrays.iter().skip(1).step_by(2).cloned().collect();
    let entries = (0..rows)
        .map(|row| {
            let entry = |pair: usize| (pair * rows + row) as u32;
            Some(
                (0..keys.len())
                    .map(|pair| (entry(pair), entry(pair)))
                    .collect(),
            )
        })
        .collect();
    build(
        call,
        concat_arrays(&keys)?,
        concat_arrays(&values)?,
        entries,
    )
}

fn from_arrays(call: &Call) -> Result<ColumnarValue> {
    let (keys, values) = (call.array(0)?, call.array(1)?);
    let (keys, values) = (keys.as_list::<i32>(), values.as_list::<i32>());
    let mut rows = vec![];
    for row in 0..call.row_count() {
        if keys.is_null(row) || values.is_null(row) {
            rows.push(None);
            continue;
        }
        let range = |list: &ListArray| {
            list.value_offsets()[row] as u32..list.value_offsets()[row + 1] as u32
        };
        let (keys, values) = (range(keys), range(values));
        if keys.len() != values.len() {
            return exec_err!(
                "MAP_FROM_ARRAYS gets {} keys and {} values",
                keys.len(),
                values.len()
            );
        }
        rows.push(Some(keys.zip(values).collect()));
    }
    build(
        call,
        Arc::clone(keys.values()),
        Arc::clone(values.values()),
        rows,
    )
}

fn union(call: &Call) -> Result<ColumnarValue> {
    let arrays = (0..call.len())
        .map(|i| call.array(i))
        .collect::<Result<Vec<_>>>()?;
    let maps: Vec<&MapArray> = arrays.iter().map(|array| array.as_map()).collect();
    let mut starts = vec![];
    let mut length = 0;
    for map in &maps {
        starts.push(length);
        length += map.keys().len() as u32;
    }
    let keys: Vec<ArrayRef> = maps.iter().map(|map| Arc::clone(map.keys())).collect();
    let values: Vec<ArrayRef> = maps.iter().map(|map| Arc::clone(map.values())).collect();
    let rows = (0..call.row_count())
        .map(|row| {
            let mut entries = vec![];
            for (map, start) in maps.iter().zip(&starts) {
                if map.is_null(row) {
                    return None;
                }
                let offsets = map.value_offsets();
                entries.extend(
                    (offsets[row] as u32..offsets[row + 1] as u32).map(|i| (start + i, start + i)),
                );
            }
            Some(entries)
        })
        .collect();
    build(call, concat_arrays(&keys)?, concat_arrays(&values)?, rows)
}

fn value(call: &Call) -> Result<ColumnarValue> {
    let (array, wanted) = (call.array(0)?, call.array(1)?);
    let map = array.as_map();
    let converter = RowConverter::new(vec![SortField::new(wanted.data_type().clone())])?;
    let keys = converter.convert_columns(&[Arc::clone(map.keys())])?;
    let wanted_rows = converter.convert_columns(&[Arc::clone(&wanted)])?;
    let mut indices: Vec<Option<u32>> = vec![];
    for row in 0..call.row_count() {
        if array.is_null(row) || wanted.is_null(row) {
            indices.push(None);
            continue;
        }
        let offsets = map.value_offsets();
        let mut entries = offsets[row] as usize..offsets[row + 1] as usize;
        let found = entries.find(|entry| keys.row(*entry) == wanted_rows.row(row));
        indices.push(found.map(|entry| entry as u32));
    }
    call.finish(take(map.values(), &UInt32Array::from(indices), None)?)
}

fn entries_side(call: &Call, at: usize) -> Result<ColumnarValue> {
    let array = call.array(0)?;
    let map = array.as_map();
    let values = Arc::clone(map.entries().column(at));
    let list = ListArray::try_new(
        Arc::new(Field::new("item", values.data_type().clone(), true)),
        map.offsets().clone(),
        values,
        map.nulls().cloned(),
    )?;
    call.finish(Arc::new(list))
}

fn entries(call: &Call) -> Result<ColumnarValue> {
    let array = call.array(0)?;
    let map = array.as_map();
    let columns = map.entries().columns().to_vec();
    let fields = entry_fields(
        columns[0].data_type().clone(),
        columns[1].data_type().clone(),
    );
    let values = StructArray::try_new(fields, columns, None)?;
    let list = ListArray::try_new(
        Arc::new(Field::new("item", values.data_type().clone(), true)),
        map.offsets().clone(),
        Arc::new(values),
        map.nulls().cloned(),
    )?;
    call.finish(Arc::new(list))
}
