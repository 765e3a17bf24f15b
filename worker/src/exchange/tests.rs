//! The exchange over real connections, and its frames.

mod frames;
mod links;
