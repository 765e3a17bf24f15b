//! Cursor pagination, the same for every listing.
//!
//! A cursor is opaque to clients: base64 of the listing's name and the key of the last item seen,
//! so that one listing's cursor is refused by another. Items that come or go between two pages
//! are neither repeated nor do they hide others, since the key is a position, not a count.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use millrace_types::{CheckpointId, ExecutionId, JobId, SavepointId, VersionNumber, WorkerId};
use serde::{Deserialize, Serialize};

use crate::problem::{Answer, Code, Problem};

/// Items of a page when the caller does not say.
const DEFAULT_LIMIT: u32 = 50;
/// Most items of a page.
const MAX_LIMIT: u32 = 500;

/// The key that a listing is ordered by.
pub(crate) trait CursorKey: Sized {
    fn write(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

macro_rules! cursor_keys {
    ($($id:ident => $parse:expr),+ $(,)?) => {
        $(impl CursorKey for $id {
            fn write(&self) -> String {
                self.to_string()
            }
            fn read(text: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(text)
            }
        })+
    };
}

cursor_keys! {
    JobId => |text| text.parse().ok(),
    ExecutionId => |text| text.parse().ok(),
    WorkerId => |text| text.parse().ok(),
    VersionNumber => |text| text.parse().ok().map(VersionNumber),
    CheckpointId => |text| text.parse().ok().map(CheckpointId),
    SavepointId => |text| text.parse().ok().map(SavepointId),
    u64 => |text| text.parse().ok(),
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The query parameters of every listing.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// `nextCursor` of the page before.
    pub(crate) cursor: Option<String>,
    /// Most items to return, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub(crate) limit: Option<u32>,
}

/// A checked request for one page of a listing with keys of type `K`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRequest<K> {
    listing: &'static str,
    pub(crate) after: Option<K>,
    limit: u32,
}

impl<K: CursorKey> PageRequest<K> {
    /// Reads the cursor of `listing` and bounds the limit.
    pub(crate) fn new(
        listing: &'static str,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Answer<Self> {
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Problem::parameter(
                "limit",
                format!("is {limit}, expected 1 to {MAX_LIMIT}"),
            ));
        }
        let after = cursor.map(|text| decode(listing, text)).transpose()?;
        Ok(PageRequest {
            listing,
            after,
            limit,
        })
    }

    pub(crate) fn of(listing: &'static str, query: &PageQuery) -> Answer<Self> {
        PageRequest::new(listing, query.cursor.as_deref(), query.limit)
    }

    /// How many items to fetch: one more than asked for shows whether there is another page.
    pub(crate) fn fetch(&self) -> u32 {
        self.limit + 1
    }

    /// Makes the page of what was fetched.
    pub(crate) fn page<R, T>(
        &self,
        mut fetched: Vec<R>,
        key: impl Fn(&R) -> K,
        view: impl FnMut(R) -> T,
    ) -> Page<T> {
        let more = fetched.len() > self.limit as usize;
        fetched.truncate(self.limit as usize);
        let next_cursor = match fetched.last() {
            Some(last) if more => Some(encode(self.listing, &key(last).write())),
            _ => None,
        };
        Page {
            items: fetched.into_iter().map(view).collect(),
            next_cursor,
        }
    }
}

fn encode(listing: &str, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{listing} {key}"))
}

fn decode<K: CursorKey>(listing: &str, cursor: &str) -> Answer<K> {
    let refuse = || {
        Problem::new(
            Code::InvalidCursor,
            format!("`cursor` is not one that the {listing} listing gave out"),
        )
        .with_hint(
            "pass `nextCursor` of the page before unchanged, or leave `cursor` out to start over",
        )
    };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refuse())?;
    let text = String::from_utf8(bytes).map_err(|_| refuse())?;
    let (name, key) = text.split_once(' ').ok_or_else(refuse)?;
    if name != listing {
        return Err(refuse());
    }
    K::read(key).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks a listing of `total` numbers page by page.
    fn walk(total: u64, limit: u32) -> Vec<Vec<u64>> {
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let request =
                PageRequest::<u64>::new("numbers", cursor.as_deref(), Some(limit)).unwrap();
            let from = request.after.map_or(0, |after| after + 1);
            let fetched: Vec<u64> = (from..total).take(request.fetch() as usize).collect();
            let page = request.page(fetched, |n| *n, |n| n);
            pages.push(page.items);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return pages,
            }
        }
    }

    #[test]
    fn pages_cover_a_listing_once() {
        assert_eq!(walk(5, 2), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(walk(4, 2), [vec![0, 1], vec![2, 3]]);
        assert_eq!(walk(0, 2), [Vec::<u64>::new()]);
    }

    #[test]
    fn foreign_and_broken_cursors_are_refused() {
        let foreign = encode("jobs", "7");
        for cursor in [
            foreign.as_str(),
            "",
            "!!",
            "bm90aGluZw",
            &encode("numbers", "x"),
        ] {
            let problem = PageRequest::<u64>::new("numbers", Some(cursor), None).unwrap_err();
            assert_eq!(problem.code, "invalid-cursor", "{cursor}");
        }
    }

    #[test]
    fn limits_are_bounded() {
        for limit in [0, 501, u32::MAX] {
            let problem = PageRequest::<u64>::new("numbers", None, Some(limit)).unwrap_err();
            assert_eq!(problem.code, "invalid-parameter", "{limit}");
        }
    }
}
