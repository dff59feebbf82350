//! Pods that really run, as kubectl sees them, on each runtime. What a runtime does below the agent is
//! tested in crates/node.

mod aggregated;
mod behaviours;
mod certificates;
mod cri;
mod ending;
mod hooks;
mod house;
mod images;
mod jobs;
mod join;
mod kubectl;
mod log_sockets;
mod owners;
mod readme;
mod said;
mod services;
mod stateful_sets;
mod streams;
mod suite;
mod volumes;
