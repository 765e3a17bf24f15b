//! Sources and sinks. [`source`] and [`sink`] say what a connector is to the engine; each
//! connector has its own module; [`registry`] finds a connector by the `connector` option.

pub mod abandoned;
pub mod catalog;
pub mod datagen;
pub mod discard;
#[cfg(test)]
mod documented;
pub mod filesystem;
pub mod generated;
mod generator_options;
pub mod kafka;
mod nearest;
pub mod nexmark;
pub mod registry;
pub mod sink;
pub mod source;
