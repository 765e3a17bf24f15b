//! Whole workers over real connections, driven as a control plane would.

mod control;
mod jobs;
