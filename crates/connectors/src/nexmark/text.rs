//! The texts of Nexmark rows: the fixed word lists, the table of channels with their urls,
//! the one long string that every `extra` is cut from, and the drawn strings.
//!
//! Invariant: everything here is ASCII, so lengths in bytes are lengths in characters. The
//! table and the long string are made once per process from fixed seeds of their own; a
//! row's texts depend on the generator's draws alone.

use std::sync::OnceLock;

use super::price::PriceTable;
use super::random::{Bound, SplittableRandom};

/// Seed of the channel table, of the sample stream that the tests compare with.
const CHANNELS_SEED: u64 = 4242;
/// Seed of the long string behind `extra`.
const EXTRA_SEED: u64 = 424_242;
/// Characters of the long string.
const EXTRA_SOURCE_LEN: usize = 1 << 20;
/// Channels other than the hot ones.
pub(crate) const COLD_CHANNELS: u32 = 10_000;
/// The shortest string [`push_string`] draws (before trimming).
const MIN_STRING_LEN: u32 = 3;

pub(crate) const HOT_CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];
pub(crate) const FIRST_NAMES: [&str; 11] = [
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
];
pub(crate) const LAST_NAMES: [&str; 9] = [
    "Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris",
];
pub(crate) const CITIES: [&str; 10] = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
];
pub(crate) const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];

/// A text in a field of fixed width, so that it is copied without a loop over its length.
/// The last byte of the field holds the length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Padded<const WIDTH: usize>([u8; WIDTH]);

impl<const WIDTH: usize> Padded<WIDTH> {
    /// `text` must be shorter than the field; what is over is cut off.
    fn new(text: &str) -> Self {
        let mut field = [0; WIDTH];
        let len = text.len().min(WIDTH - 1);
        field[..len].copy_from_slice(&text.as_bytes()[..len]);
        field[WIDTH - 1] = len as u8;
        Self(field)
    }

    /// The field, of which the given number of bytes is text.
    #[inline]
    pub(crate) fn field(&self) -> (&[u8; WIDTH], usize) {
        (&self.0, usize::from(self.0[WIDTH - 1]))
    }
}

/// Width of a channel's name: `channel-9999` and the length.
const NAME_WIDTH: usize = 16;
/// Width of a url: at most 77 bytes and the length.
const URL_WIDTH: usize = 80;
/// Width of an `extra` that is copied as a field of fixed width.
pub(crate) const EXTRA_WIDTH: usize = 96;

/// What all generators of a process share.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Names of the channels: the hot ones first, then the [`COLD_CHANNELS`] by number.
    pub(crate) names: Vec<Padded<NAME_WIDTH>>,
    /// Urls of the channels, in the same order.
    pub(crate) urls: Vec<Padded<URL_WIDTH>>,
    /// [`EXTRA_SOURCE_LEN`] characters, and [`EXTRA_WIDTH`] more that no `extra` reaches.
    extra_source: String,
    pub(crate) prices: PriceTable,
}

impl Tables {
    /// The tables, made on first use (a few milliseconds).
    pub(crate) fn shared() -> &'static Self {
        static TABLES: OnceLock<Tables> = OnceLock::new();
        TABLES.get_or_init(|| {
            let (names, urls) = make_channels(&mut SplittableRandom::new(CHANNELS_SEED));
            Self {
                names,
                urls,
                extra_source: make_extra_source(&mut SplittableRandom::new(EXTRA_SEED)),
                prices: PriceTable::new(),
            }
        })
    }

    /// The text of a drawn [`Extra`].
    #[inline]
    pub(crate) fn extra(&self, extra: Extra) -> &str {
        let start = extra.start as usize;
        &self.extra_source[start..start + extra.len as usize]
    }

    /// An [`Extra`] of at most [`EXTRA_WIDTH`] bytes, with what follows it.
    #[inline]
    pub(crate) fn extra_field(&self, extra: Extra) -> (&[u8; EXTRA_WIDTH], usize) {
        const NOTHING: &[u8; EXTRA_WIDTH] = &[0; EXTRA_WIDTH];
        let rest = &self.extra_source.as_bytes()[extra.start as usize..];
        match rest.first_chunk() {
            Some(field) => (field, extra.len as usize),
            None => (NOTHING, 0),
        }
    }
}

/// A piece of the long string: where it starts and how long it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// How long an `extra` may be, given what the rest of its row weighs: up to 20% around what
/// is missing to the wanted mean size of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExtraLen {
    shortest: u32,
    /// Bound of the draw that is added; none if there is nothing to vary.
    spread: Option<Bound>,
    /// The wanted mean is below what the row weighs already: always empty, without a draw.
    none: bool,
}

impl ExtraLen {
    /// `mean` and `current` are sizes of a whole row in bytes.
    pub(crate) fn new(mean: u32, current: u32) -> Self {
        let wanted = mean.saturating_sub(current);
        let delta = (f64::from(wanted) * 0.2 + 0.5).floor() as u32;
        Self {
            shortest: wanted - delta,
            spread: (delta > 0).then(|| Bound::new(2 * delta)),
            none: current > mean,
        }
    }

    #[inline]
    pub(crate) fn draw(self, random: &mut SplittableRandom) -> Extra {
        if self.none {
            return Extra::default();
        }
        let spread = self.spread.map_or(0, |bound| random.below(bound));
        let len = self.shortest + spread;
        let start = random.below_varying(EXTRA_SOURCE_LEN as u32 - len);
        Extra { start, len }
    }
}

/// Appends a string of lower-case letters, about one in 13 of them replaced by `special`,
/// of 3 to `max_len - 1` characters; `max_len` is at most 100. Spaces at the ends are dropped.
pub(crate) fn push_string(
    random: &mut SplittableRandom,
    max_len: u32,
    special: u8,
    to: &mut String,
) {
    const SPECIAL: Bound = Bound::new(13);
    const LETTER: Bound = Bound::new(26);
    // Working on copies keeps the state and the characters in registers and on the stack.
    let mut draws = *random;
    let mut drawn = [special; 100];
    let len = MIN_STRING_LEN + draws.below_varying(max_len - MIN_STRING_LEN);
    let drawn = &mut drawn[..len as usize];
    for character in &mut *drawn {
        if draws.below(SPECIAL) > 0 {
            *character = b'a' + draws.below(LETTER) as u8;
        }
    }
    *random = draws;
    // Only ASCII is drawn, so the text is always valid.
    if let Ok(text) = std::str::from_utf8(drawn.trim_ascii()) {
        to.push_str(text);
    }
}

fn push_base_url(random: &mut SplittableRandom, to: &mut String) {
    to.push_str("https://www.nexmark.com/");
    for _ in 0..3 {
        push_string(random, 5, b'_', to);
        to.push('/');
    }
    to.push_str("item.htm?query=1");
}

fn make_channels(
    random: &mut SplittableRandom,
) -> (Vec<Padded<NAME_WIDTH>>, Vec<Padded<URL_WIDTH>>) {
    let mut names: Vec<_> = HOT_CHANNELS.map(Padded::new).into();
    let mut urls = Vec::new();
    let mut url = String::new();
    for _ in HOT_CHANNELS {
        url.clear();
        push_base_url(random, &mut url);
        urls.push(Padded::new(&url));
    }
    for number in 0..COLD_CHANNELS {
        url.clear();
        push_base_url(random, &mut url);
        if random.below(Bound::new(10)) > 0 {
            let id = (number.reverse_bits() as i32).unsigned_abs();
            url.push_str(&format!("&channel_id={id}"));
        }
        names.push(Padded::new(&format!("channel-{number}")));
        urls.push(Padded::new(&url));
    }
    (names, urls)
}

/// The reference takes the remainder of a *signed* draw, so half of the characters lie below
/// `'a'`: capital letters from H on and the signs between the two alphabets.
fn make_extra_source(random: &mut SplittableRandom) -> String {
    let mut source = String::new();
    while source.len() < EXTRA_SOURCE_LEN + EXTRA_WIDTH {
        let mut rest = random.next_u32() as i32;
        for _ in 0..6 {
            source.push(char::from((i32::from(b'a') + rest % 26) as u8));
            rest /= 26;
        }
    }
    source
}
