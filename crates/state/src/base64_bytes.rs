//! Lists of byte strings as base64 in JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serializer, de};

pub(crate) fn serialize<S: Serializer>(
    items: &[Vec<u8>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(|item| STANDARD.encode(item)))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Vec<u8>>, D::Error> {
    Vec::<String>::deserialize(deserializer)?
        .iter()
        .map(|item| STANDARD.decode(item).map_err(de::Error::custom))
        .collect()
}
