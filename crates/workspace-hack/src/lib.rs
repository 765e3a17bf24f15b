//! Holds no code: see Cargo.toml for why this package exists.
