//! Date patterns in Java's notation (`yyyy-MM-dd HH:mm:ss.SSS`): writing and reading.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike, Utc};

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    resolution: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// A letter and how often it is repeated.
    Field(char, usize),
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

impl Pattern {
    /// Compiles a pattern, or says which part of it is not known.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let mut parts: Vec<Part> = vec![];
        let literal = |parts: &mut Vec<Part>, c: char| match parts.last_mut() {
            Some(Part::Literal(text)) => text.push(c),
            _ => parts.push(Part::Literal(c.to_string())),
        };
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\'' => {
                    if chars.peek() == Some(&'\'') {
                        chars.next();
                        literal(&mut parts, '\'');
                        continue;
                    }
                    loop {
                        match chars.next() {
                            None => return Err(format!("a quote is not closed in '{text}'")),
                            Some('\'') if chars.peek() == Some(&'\'') => {
                                chars.next();
                                literal(&mut parts, '\'');
                            }
                            Some('\'') => break,
                            Some(c) => literal(&mut parts, c),
                        }
                    }
                }
                c if c.is_ascii_alphabetic() => {
                    if !"GyuYMLdDEeHhKkmsSanwQqXxzZ".contains(c) {
                        return Err(format!("the letter {c} means nothing in '{text}'"));
                    }
                    if "GYwqXxzZK".contains(c) {
                        return Err(format!("the letter {c} in '{text}' is not supported yet"));
                    }
                    let mut count = 1;
                    while chars.peek() == Some(&c) {
                        chars.next();
                        count += 1;
                    }
                    parts.push(Part::Field(c, count));
                }
                c => literal(&mut parts, c),
            }
        }
        let resolution = parts.iter().map(resolution_of).min().unwrap_or(DAY);
        Ok(Pattern { parts, resolution })
    }

    /// A length in milliseconds within which all times, counted from its multiples, are
    /// written alike.
    pub(super) fn resolution_millis(&self) -> i64 {
        self.resolution
    }

    /// Writes a local time in milliseconds; false if it is beyond the calendar.
    pub(super) fn format(&self, millis: i64, nanos_below: u32, out: &mut String) -> bool {
        let Some(time) = DateTime::<Utc>::from_timestamp_millis(millis) else {
            return false;
        };
        let time = time.naive_utc();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Field(letter, count) => write_field(*letter, *count, &time, nanos_below, out),
            }
        }
        true
    }

    /// Reads a local time in milliseconds. The whole text must match.
    pub(super) fn parse(&self, text: &str) -> Option<i64> {
        let mut fields = Fields::default();
        let mut rest = text;
        for (i, part) in self.parts.iter().enumerate() {
            match part {
                Part::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Part::Field(letter, count) => {
                    // Fields without anything between them have exactly their width.
                    let adjacent = matches!(self.parts.get(i + 1), Some(Part::Field(_, _)));
                    rest = fields.read(*letter, *count, adjacent, rest)?;
                }
            }
        }
        if !rest.is_empty() {
            return None;
        }
        fields.millis()
    }
}

const DAY: i64 = 86_400_000;

fn resolution_of(part: &Part) -> i64 {
    match part {
        Part::Field('S' | 'n', _) => 1,
        Part::Field('s', _) => 1_000,
        Part::Field('m', _) => 60_000,
        Part::Field('H' | 'h' | 'k' | 'a', _) => 3_600_000,
        _ => DAY,
    }
}

fn push_number(number: u32, width: usize, out: &mut String) {
    let mut digits = [b'0'; 10];
    let mut start = digits.len();
    let mut rest = number;
    while rest > 0 || start == digits.len() {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    start = start.min(digits.len().saturating_sub(width));
    out.extend(digits[start..].iter().map(|digit| char::from(*digit)));
}

fn write_field(
    letter: char,
    count: usize,
    time: &NaiveDateTime,
    nanos_below: u32,
    out: &mut String,
) {
    let month = time.month() as usize - 1;
    let weekday = time.weekday();
    let day_name = DAYS[weekday.num_days_from_monday() as usize];
    let number = match letter {
        'y' | 'u' => {
            let year = time.year();
            if count == 2 {
                push_number(year.rem_euclid(100) as u32, 2, out);
            } else {
                if year < 0 {
                    out.push('-');
                }
                push_number(year.unsigned_abs(), count, out);
            }
            return;
        }
        'M' | 'L' => match count {
            1 | 2 => month as u32 + 1,
            3 => return out.push_str(&MONTHS[month][..3]),
            _ => return out.push_str(MONTHS[month]),
        },
        'E' => match count {
            1..=3 => return out.push_str(&day_name[..3]),
            _ => return out.push_str(day_name),
        },
        'a' => return out.push_str(if time.hour() < 12 { "AM" } else { "PM" }),
        'S' => {
            let nanos = time.nanosecond() + nanos_below;
            let digits = format!("{nanos:09}");
            return out.extend(digits.chars().chain(std::iter::repeat('0')).take(count));
        }
        'n' => time.nanosecond() + nanos_below,
        'd' => time.day(),
        'D' => time.ordinal(),
        'e' => weekday.num_days_from_sunday() + 1,
        'Q' => time.month0() / 3 + 1,
        'H' => time.hour(),
        'k' => match time.hour() {
            0 => 24,
            hour => hour,
        },
        'h' => match time.hour() % 12 {
            0 => 12,
            hour => hour,
        },
        'm' => time.minute(),
        _ => time.second(),
    };
    push_number(number, count, out);
}

/// What has been read so far.
#[derive(Default)]
struct Fields {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    ordinal: Option<u32>,
    hour: Option<u32>,
    minute: u32,
    second: u32,
    nanos: u32,
    afternoon: Option<bool>,
}

impl Fields {
    fn read<'t>(
        &mut self,
        letter: char,
        count: usize,
        adjacent: bool,
        text: &'t str,
    ) -> Option<&'t str> {
        match (letter, count) {
            ('M' | 'L', 3..) => {
                let (month, length) = MONTHS.iter().enumerate().find_map(|(i, name)| {
                    let name = if count == 3 { &name[..3] } else { name };
                    let head = text.get(..name.len())?;
                    head.eq_ignore_ascii_case(name)
                        .then_some((i as u32 + 1, name.len()))
                })?;
                self.month = Some(month);
                return Some(&text[length..]);
            }
            ('E', _) => {
                let length = DAYS.iter().find_map(|name| {
                    let name = if count <= 3 { &name[..3] } else { name };
                    let head = text.get(..name.len())?;
                    head.eq_ignore_ascii_case(name).then_some(name.len())
                })?;
                return Some(&text[length..]);
            }
            ('a', _) => {
                let head = text.get(..2)?;
                self.afternoon = Some(match head.to_ascii_uppercase().as_str() {
                    "AM" => false,
                    "PM" => true,
                    _ => return None,
                });
                return Some(&text[2..]);
            }
            _ => {}
        }
        let longest = match letter {
            'S' => count.clamp(1, 9),
            'y' | 'u' if !adjacent => count.max(4),
            _ if adjacent => count,
            'D' => 3,
            'n' => 9,
            _ => count.max(2),
        };
        let length = text
            .bytes()
            .take(longest)
            .take_while(u8::is_ascii_digit)
            .count();
        // Two letters want two digits, except that a single one may be written short.
        let least = if matches!(letter, 'y' | 'u') && count >= 3 {
            count.min(4)
        } else if count >= 2 && letter != 'S' {
            count.min(2)
        } else {
            1
        };
        if length < least {
            return None;
        }
        let number: u32 = text[..length].parse().ok()?;
        match letter {
            'y' | 'u' if count == 2 => self.year = Some(2000 + number as i32),
            'y' | 'u' => self.year = Some(number as i32),
            'M' | 'L' => self.month = Some(number),
            'd' => self.day = Some(number),
            'D' => self.ordinal = Some(number),
            'H' => self.hour = Some(number),
            'k' => self.hour = Some(number % 24),
            'h' => {
                if !(1..=12).contains(&number) {
                    return None;
                }
                self.hour = Some(number % 12);
                self.afternoon.get_or_insert(false);
            }
            'm' => self.minute = number,
            's' => self.second = number,
            'S' => self.nanos = number * 10u32.pow(9 - length as u32),
            'n' => self.nanos = number,
            _ => return None,
        }
        Some(&text[length..])
    }

    fn millis(&self) -> Option<i64> {
        let year = self.year.unwrap_or(1970);
        let date = match self.ordinal {
            Some(ordinal) => NaiveDate::from_yo_opt(year, ordinal)?,
            None => NaiveDate::from_ymd_opt(year, self.month.unwrap_or(1), self.day.unwrap_or(1))?,
        };
        let hour = self.hour.unwrap_or(0) + if self.afternoon == Some(true) { 12 } else { 0 };
        let time = NaiveTime::from_hms_nano_opt(hour, self.minute, self.second, self.nanos)?;
        Some(NaiveDateTime::new(date, time).and_utc().timestamp_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2020-02-29 13:04:05.678, a Saturday.
    const TIME: i64 = 1_582_981_445_678;

    #[test]
    fn patterns_write_fields() {
        for (pattern, expected) in [
            ("yyyy-MM-dd HH:mm:ss.SSS", "2020-02-29 13:04:05.678"),
            ("HH:mm", "13:04"),
            ("yy/M/d h:mm a", "20/2/29 1:04 PM"),
            ("EEE, dd MMM yyyy", "Sat, 29 Feb 2020"),
            ("EEEE MMMM", "Saturday February"),
            ("yyyy'T'DDD''", "2020T060'"),
            ("ssSSSSSS", "05678000"),
        ] {
            let mut out = String::new();
            assert!(Pattern::new(pattern).unwrap().format(TIME, 0, &mut out));
            assert_eq!(out, expected, "{pattern}");
        }
        assert!(Pattern::new("yyyy-bb").is_err());
        assert!(Pattern::new("yyyy'T").is_err());
    }

    #[test]
    fn patterns_read_what_they_write() {
        for (pattern, text, expected) in [
            (
                "yyyy-MM-dd HH:mm:ss.SSS",
                "2020-02-29 13:04:05.678",
                Some(TIME),
            ),
            ("yyyyMMddHHmmss", "20200229130405", Some(TIME - 678)),
            (
                "dd MMM yyyy hh:mm:ss a",
                "29 Feb 2020 01:04:05 PM",
                Some(TIME - 678),
            ),
            ("yyyy-MM-dd", "2020-02-30", None),
            ("yyyy-MM-dd", "2020-02-29x", None),
            ("yyyy-MM-dd", "20-02-29", None),
            ("HH:mm", "25:00", None),
        ] {
            assert_eq!(
                Pattern::new(pattern).unwrap().parse(text),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
