//! Prints the rows of a job: JSON objects or text tables.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde_json::value::RawValue;

use crate::{args::OutputFormat, table};

/// Rows of a text table that decide how wide its columns are.
const SAMPLE_ROWS: usize = 20;

/// One row as it comes from the job.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) table: String,
    /// `+I`, `-U`, `+U` or `-D`.
    pub(crate) kind: String,
    /// The columns as a JSON object, in their order.
    pub(crate) row: Box<RawValue>,
}

/// What to print besides the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Results change, so each row says what becomes of it.
    pub(crate) updating: bool,
    /// Rows of several tables, so each says whose it is.
    pub(crate) several: bool,
}

/// Prints rows to a writer.
pub(crate) struct RowPrinter<W> {
    out: W,
    format: OutputFormat,
    shape: Shape,
    /// Table form: rows waiting for the widths of their columns.
    sample: Vec<Vec<String>>,
    layout: Option<Layout>,
}

/// How the current text table is laid out.
struct Layout {
    table: String,
    headers: Vec<String>,
    widths: Option<(Vec<usize>, Vec<bool>)>,
}

impl<W: Write> RowPrinter<W> {
    pub(crate) fn new(out: W, format: OutputFormat, shape: Shape) -> Self {
        RowPrinter {
            out,
            format,
            shape,
            sample: Vec::new(),
            layout: None,
        }
    }

    /// Prints a row, or keeps it until the widths of the columns are known.
    pub(crate) fn row(&mut self, row: &Row) -> io::Result<()> {
        match self.format {
            OutputFormat::Json => self.json(row),
            OutputFormat::Table => self.table(row),
        }
    }

    /// Prints what is kept. Called when no row has come for a while, and at the end.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.settle()?;
        self.out.flush()
    }

    fn json(&mut self, row: &Row) -> io::Result<()> {
        let columns = row.row.get();
        let Shape { updating, several } = self.shape;
        if !updating && !several {
            return writeln!(self.out, "{columns}");
        }
        self.out.write_all(b"{")?;
        if several {
            let name = serde_json::Value::from(row.table.as_str());
            write!(self.out, "\"table\":{name},")?;
        }
        if updating {
            write!(self.out, "\"op\":\"{}\",", row.kind)?;
        }
        writeln!(self.out, "\"row\":{columns}}}")
    }

    fn table(&mut self, row: &Row) -> io::Result<()> {
        let (headers, cells) = self.cells(row);
        let same = self
            .layout
            .as_ref()
            .is_some_and(|layout| layout.table == row.table && layout.headers == headers);
        if !same {
            self.settle()?;
            self.layout = Some(Layout {
                table: row.table.clone(),
                headers,
                widths: None,
            });
        }
        self.sample.push(cells);
        let settled = self
            .layout
            .as_ref()
            .is_some_and(|layout| layout.widths.is_some());
        if settled || self.sample.len() >= SAMPLE_ROWS {
            self.settle()
        } else {
            Ok(())
        }
    }

    fn cells(&self, row: &Row) -> (Vec<String>, Vec<String>) {
        let mut headers = Vec::new();
        let mut cells = Vec::new();
        if self.shape.updating {
            headers.push("op".to_owned());
            cells.push(row.kind.clone());
        }
        for (name, value) in columns(&row.row) {
            headers.push(name);
            cells.push(value);
        }
        (headers, cells)
    }

    /// Prints the rows that wait, after the header if it is not there yet.
    fn settle(&mut self) -> io::Result<()> {
        let Some(layout) = &mut self.layout else {
            return Ok(());
        };
        let rows = std::mem::take(&mut self.sample);
        if layout.widths.is_none() && !rows.is_empty() {
            let widths: Vec<usize> = layout
                .headers
                .iter()
                .enumerate()
                .map(|(column, header)| {
                    rows.iter()
                        .map(|row| table::width(&row[column]))
                        .chain([table::width(header)])
                        .max()
                        .unwrap_or(0)
                        .min(60)
                })
                .collect();
            let right: Vec<bool> = (0..layout.headers.len())
                .map(|column| rows.iter().all(|row| row[column].parse::<f64>().is_ok()))
                .collect();
            if self.shape.several {
                writeln!(self.out, "\n{}:", layout.table)?;
            }
            writeln!(
                self.out,
                "{}",
                table::line(&layout.headers, &widths, &right)
            )?;
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            writeln!(self.out, "{}", rule.join("  "))?;
            layout.widths = Some((widths, right));
        }
        if let Some((widths, right)) = &layout.widths {
            for row in &rows {
                writeln!(self.out, "{}", table::line(row, widths, right))?;
            }
        }
        Ok(())
    }
}

/// The columns of a row in their order, values as text.
fn columns(row: &RawValue) -> Vec<(String, String)> {
    /// Reads an object's entries in their order.
    struct Entries(Vec<(String, Box<RawValue>)>);
    impl<'de> serde::Deserialize<'de> for Entries {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Entries;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<Entries, A::Error> {
                    let mut entries = Vec::new();
                    while let Some(entry) = map.next_entry()? {
                        entries.push(entry);
                    }
                    Ok(Entries(entries))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    match serde_json::from_str::<Entries>(row.get()) {
        Ok(Entries(entries)) => entries
            .into_iter()
            .map(|(name, value)| (name, cell(value.get())))
            .collect(),
        // Not an object: shown as it is.
        Err(_) => vec![("row".to_owned(), row.get().to_owned())],
    }
}

/// A JSON value as a cell: texts without quotes, null as NULL.
fn cell(json: &str) -> String {
    match json {
        "null" => "NULL".to_owned(),
        text if text.starts_with('"') => {
            serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned())
        }
        other => other.to_owned(),
    }
}

/// Which of the tables' results change.
pub(crate) fn shape(tables: &BTreeMap<String, bool>) -> Shape {
    Shape {
        updating: tables.values().any(|updating| *updating),
        several: tables.len() > 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(table: &str, kind: &str, json: &str) -> Row {
        Row {
            table: table.to_owned(),
            kind: kind.to_owned(),
            row: RawValue::from_string(json.to_owned()).unwrap(),
        }
    }

    fn print(format: OutputFormat, updating: bool, several: bool, rows: &[Row]) -> String {
        let mut out = Vec::new();
        let mut printer = RowPrinter::new(&mut out, format, Shape { updating, several });
        for row in rows {
            printer.row(row).unwrap();
        }
        printer.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_lines_keep_numbers_and_order() {
        let json = r#"{"z":12345678901234567890.10,"a":null}"#;
        let rows = [row("t", "+U", json)];
        assert_eq!(
            print(OutputFormat::Json, false, false, &rows),
            format!("{json}\n")
        );
        assert_eq!(
            print(OutputFormat::Json, true, true, &rows),
            format!("{{\"table\":\"t\",\"op\":\"+U\",\"row\":{json}}}\n")
        );
    }

    #[test]
    fn a_table_has_its_header_once() {
        let rows: Vec<Row> = (0..30)
            .map(|i| row("t", "+I", &format!("{{\"name\":\"n{i}\",\"count\":{i}}}")))
            .collect();
        let text = print(OutputFormat::Table, false, false, &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 32);
        assert_eq!(lines[..3], ["name  count", "----  -----", "n0        0"]);
        assert_eq!(lines[31], "n29      29");
    }

    #[test]
    fn tables_of_several_sinks_take_turns() {
        let rows = [
            row("a", "+I", r#"{"x":1}"#),
            row("b", "-D", r#"{"y":null}"#),
            row("a", "+I", r#"{"x":2}"#),
        ];
        let text = print(OutputFormat::Table, true, true, &rows);
        assert_eq!(text.matches("\na:\n").count(), 2, "{text}");
        assert!(text.contains("-D  NULL"), "{text}");
    }
}
