//! Drawing persons. The order of draws is that of the reference, whatever is wanted.

use std::fmt::Write as _;

use super::columns::RowSet;
use super::random::{Bound, SplittableRandom};
use super::text::{CITIES, ExtraLen, FIRST_NAMES, LAST_NAMES, STATES, Tables, push_string};

/// Appends the person with this id (as the row shows it) to row `row` of the batch.
pub(crate) fn draw_person(
    random: &mut SplittableRandom,
    tables: &Tables,
    mean_bytes: u32,
    (row, id, time_ms): (usize, i64, i64),
    scratch: &mut String,
    set: &mut RowSet,
) {
    const CARD_GROUP: Bound = Bound::new(10_000);
    set.start_row(row);
    set.long(0, id);

    scratch.clear();
    scratch.push_str(pick(random, &FIRST_NAMES));
    scratch.push(' ');
    scratch.push_str(pick(random, &LAST_NAMES));
    set.text(1, scratch);
    let mut bytes = 8 + scratch.len();

    scratch.clear();
    push_string(random, 7, b' ', scratch);
    scratch.push('@');
    push_string(random, 5, b' ', scratch);
    scratch.push_str(".com");
    set.text(2, scratch);
    bytes += scratch.len();

    scratch.clear();
    for group in 0..4 {
        if group > 0 {
            scratch.push(' ');
        }
        // Writing to a string cannot fail.
        let _ = write!(scratch, "{:04}", random.below(CARD_GROUP));
    }
    set.text(3, scratch);
    bytes += scratch.len();

    let city = pick(random, &CITIES);
    set.text(4, city);
    let state = pick(random, &STATES);
    set.text(5, state);
    set.long(6, time_ms);
    bytes += city.len() + state.len();
    let extra = ExtraLen::new(mean_bytes, bytes as u32).draw(random);
    set.text(7, tables.extra(extra));
}

fn pick<'a>(random: &mut SplittableRandom, from: &[&'a str]) -> &'a str {
    from[random.below(Bound::new(from.len() as u32)) as usize]
}
