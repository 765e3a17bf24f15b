//! Tables of steps and results for the operators. Every case runs clean, restored from a
//! snapshot after every step, and rescaled over and over, and must give the same result.

mod calc;
mod group;
mod harness;
pub(super) mod nodes;
mod random;
mod session;
mod session_pressure;
pub(super) mod text;
mod window;
mod window_memory;
