//! Text tables: columns as wide as their widest cell, numbers to the right.

/// Widest cell; longer ones are cut.
const MAX_CELL: usize = 80;

/// Lays out rows under headers. Every row has as many cells as there are headers.
pub(crate) fn layout(headers: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| shown(cell)).collect())
        .collect();
    let mut widths: Vec<usize> = headers.iter().map(|header| width(header)).collect();
    let mut numeric = vec![!rows.is_empty(); headers.len()];
    for row in &rows {
        for (column, cell) in row.iter().enumerate().take(headers.len()) {
            widths[column] = widths[column].max(width(cell));
            numeric[column] &= is_number(cell);
        }
    }
    let mut text = String::new();
    let header: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
    for row in std::iter::once(&header).chain(&rows) {
        text.push_str(&line(row, &widths, &numeric));
        text.push('\n');
    }
    text
}

/// One line of cells under given widths.
pub(crate) fn line(cells: &[String], widths: &[usize], right: &[bool]) -> String {
    let mut text = String::new();
    for (column, cell) in cells.iter().enumerate() {
        let cell = shown(cell);
        let space = widths
            .get(column)
            .copied()
            .unwrap_or(0)
            .saturating_sub(width(&cell));
        if column > 0 {
            text.push_str("  ");
        }
        if right.get(column).copied().unwrap_or(false) {
            text.push_str(&" ".repeat(space));
            text.push_str(&cell);
        } else {
            text.push_str(&cell);
            text.push_str(&" ".repeat(space));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Characters of a cell.
pub(crate) fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// A cell in one line, cut if it is long.
fn shown(cell: &str) -> String {
    let mut text: String = cell
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_CELL + 1)
        .collect();
    if width(&text) > MAX_CELL {
        text = text.chars().take(MAX_CELL - 1).collect();
        text.push('…');
    }
    text
}

fn is_number(cell: &str) -> bool {
    cell.is_empty() || cell == "-" || cell.parse::<f64>().is_ok()
}

/// Bytes for people: `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right() {
        let rows = vec![
            vec!["a".into(), "5".into()],
            vec!["long".into(), "1234".into()],
        ];
        assert_eq!(
            layout(&["NAME", "ROWS"], &rows),
            "NAME  ROWS\na        5\nlong  1234\n"
        );
    }

    #[test]
    fn cells_stay_in_one_line_and_are_cut() {
        let text = layout(&["A"], &[vec![format!("x\ny{}", "z".repeat(100))]]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("x y") && text.contains('…'), "{text}");
    }

    #[test]
    fn bytes_have_units() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
