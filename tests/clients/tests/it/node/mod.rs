//! Pods that really run, as kubectl sees them, on each runtime. What a runtime does below the agent is
//! tested in crates/node.

mod behaviours;
mod cri;
mod house;
mod join;
mod kubectl;
mod owners;
mod readme;
mod streams;
