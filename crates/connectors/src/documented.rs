//! Holds the pages about options against the options that there are.

use std::{collections::BTreeSet, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use millrace_dataflow::{ChangelogMode, TableOptions};
use millrace_formats::FormatSpec;
use millrace_sql::ConnectorCatalog;

use crate::{catalog::Connectors, datagen, filesystem, kafka, nexmark};

const CONNECTORS: &str = include_str!("../../../docs/connectors.md");
const FILESYSTEM: &str = include_str!("../../../docs/filesystem.md");
const KAFKA: &str = include_str!("../../../docs/kafka.md");
const FORMATS: &str = include_str!("../../../docs/formats.md");

/// A row of a table of options.
struct Documented {
    section: String,
    option: String,
    example: String,
}

/// What stands between the only backticks of a cell.
fn code(cell: &str) -> String {
    let inner = cell
        .trim()
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'));
    inner
        .unwrap_or_else(|| panic!("`{cell}` is not code"))
        .to_owned()
}

fn documented(page: &str) -> Vec<Documented> {
    let mut section = String::new();
    let mut in_options = false;
    let mut found = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.to_owned();
        }
        let Some(row) = line.strip_prefix('|') else {
            in_options = false;
            continue;
        };
        let cells: Vec<&str> = row
            .trim_end_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if cells.first() == Some(&"option") {
            assert_eq!(cells, ["option", "type", "default", "meaning", "example"]);
            in_options = true;
        } else if in_options && !cells[0].starts_with("---") {
            assert!(
                cells.len() == 5 && cells.iter().all(|cell| !cell.is_empty()),
                "name, type, default, meaning and example are wanted: {line}"
            );
            found.push(Documented {
                section: section.clone(),
                option: code(cells[0]),
                example: code(cells[4]),
            });
        }
    }
    found
}

fn names(page: &str, section: Option<&str>) -> BTreeSet<String> {
    let all = documented(page).into_iter();
    let rows: Vec<String> = all
        .filter(|row| section.is_none_or(|section| row.section == section))
        .map(|row| row.option)
        .collect();
    let set: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(set.len(), rows.len(), "an option is there twice: {rows:?}");
    set
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_option_is_documented_and_no_other() {
    assert_eq!(names(FILESYSTEM, None), owned(filesystem::OPTIONS));
    assert_eq!(names(KAFKA, None), owned(kafka::OPTIONS));
    assert_eq!(names(CONNECTORS, Some("nexmark")), owned(nexmark::OPTIONS));
    let mut of_datagen = owned(datagen::TABLE_OPTIONS);
    of_datagen.extend(datagen::FIELD_OPTIONS.map(|option| format!("fields.COLUMN.{option}")));
    assert_eq!(names(CONNECTORS, Some("datagen")), of_datagen);
    let everywhere = names(CONNECTORS, Some("Every source"));
    assert_eq!(
        everywhere,
        owned(["connector", "scan.watermark.idle-timeout"])
    );
    assert!(
        everywhere
            .iter()
            .all(|key| crate::generator_options::belongs_to_every_source(key))
    );
    let of_formats: BTreeSet<String> = FormatSpec::option_names().into_iter().collect();
    assert_eq!(names(FORMATS, None), of_formats);
}

#[test]
fn every_connector_is_documented() {
    let known = crate::registry::SOURCES
        .iter()
        .chain(&crate::registry::SINKS);
    for connector in known {
        assert!(
            CONNECTORS
                .lines()
                .any(|line| line.starts_with('|') && line.contains(&format!("`{connector}`"))),
            "{connector}"
        );
    }
}

fn column(data_type: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("COLUMN", data_type, true)]))
}

/// Columns that the option is for.
fn schema_for(option: &str) -> SchemaRef {
    if matches!(option, "key.fields-prefix" | "value.fields-include") {
        let names = ["COLUMN", "key_COLUMN"];
        let fields = names.map(|name| Field::new(name, DataType::Int64, true));
        return Arc::new(Schema::new(fields.to_vec()));
    }
    column(match option {
        "fields.COLUMN.length" | "fields.COLUMN.var-len" => DataType::Utf8,
        "fields.COLUMN.max-past" => DataType::Timestamp(TimeUnit::Millisecond, None),
        _ if option.starts_with("raw.") => DataType::Utf8,
        _ => DataType::Int64,
    })
}

/// A table with the option, and whatever has to go with it.
fn table(connector: &str, row: &Documented) -> TableOptions {
    let mut options = TableOptions::from([("connector".to_owned(), connector.to_owned())]);
    let mut set = |key: &str, value: &str| options.insert(key.to_owned(), value.to_owned());
    if connector == "filesystem" {
        set("path", "/data");
        let format = match row.option.split_once('.') {
            Some((format, _)) if FORMATS.contains(&format!("\n## {format}\n")) => format,
            _ => "json",
        };
        set("format", format);
    }
    if connector == "kafka" {
        set("properties.bootstrap.servers", "localhost:9092");
        set("properties.group.id", "g");
        let same = match row.option.as_str() {
            "topic-pattern" => "topic",
            "value.format" => "format",
            _ => "",
        };
        for (key, value) in [("topic", "t"), ("format", "json")] {
            if key != same {
                set(key, value);
            }
        }
    }
    match row.option.as_str() {
        "key.format" | "key.fields" => {
            set("key.format", "raw");
            set("key.fields", "COLUMN");
        }
        "key.fields-prefix" | "value.fields-include" => {
            set("key.format", "raw");
            set("key.fields", "key_COLUMN");
            set("value.fields-include", "EXCEPT_KEY");
        }
        "scan.startup.timestamp-millis" => {
            set("scan.startup.mode", "timestamp");
        }
        "scan.startup.specific-offsets" => {
            set("scan.startup.mode", "specific-offsets");
        }
        "scan.bounded.timestamp-millis" => {
            set("scan.bounded.mode", "timestamp");
        }
        "scan.bounded.specific-offsets" => {
            set("scan.bounded.mode", "specific-offsets");
        }
        "dead-letter.path" => {
            set("on-error", "dead-letter");
        }
        "fields.COLUMN.start" | "fields.COLUMN.end" => {
            set("fields.COLUMN.kind", "sequence");
            set("fields.COLUMN.start", "1");
            set("fields.COLUMN.end", "1");
        }
        _ => {}
    }
    let example = match row.option.as_str() {
        "key.fields" => "COLUMN",
        _ => &row.example,
    };
    options.insert(row.option.clone(), example.to_owned());
    options
}

#[test]
fn every_example_is_valid() {
    let of_kafka: BTreeSet<String> = names(KAFKA, None);
    let connector_of = |row: &Documented| match row.section.as_str() {
        "Options" if of_kafka.contains(&row.option) => "kafka",
        "nexmark" => "nexmark",
        "datagen" | "Every source" => "datagen",
        _ => "filesystem",
    };
    let pages = [CONNECTORS, FILESYSTEM, KAFKA, FORMATS];
    let rows: Vec<Documented> = pages.into_iter().flat_map(documented).collect();
    assert!(rows.len() > 60, "{}", rows.len());
    for row in &rows {
        let connector = connector_of(row);
        let schema = match connector {
            "nexmark" => nexmark::nexmark_schema(),
            _ => schema_for(&row.option),
        };
        let options = table(connector, row);
        let written_only = row.option.starts_with("debezium-json.");
        let read_only = row.option == "topic-pattern";
        if !written_only {
            let read = Connectors.check_source("t", &options, &schema, &[]);
            assert_eq!(read, Ok(()), "{} = {}", row.option, row.example);
        }
        if matches!(connector, "filesystem" | "kafka") && !read_only {
            let written = Connectors.check_sink("t", &options, &schema, &[], ChangelogMode::Append);
            assert!(
                written.is_ok(),
                "{} = {}: {written:?}",
                row.option,
                row.example
            );
        }
    }
}
