//! The API server from the outside, in process: one module per part of the specification.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test says what it means and fails loudly"
)]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod access;
mod accounts;
mod admission;
mod aggregated_objects;
mod aggregation;
mod apply;
mod attacks;
mod audit;
mod authorization;
mod autoscaling;
mod certificates;
mod collecting;
mod collections;
mod config;
mod conformance;
mod connect;
mod controllers;
mod conversion;
mod create;
mod custom;
mod custom_documents;
mod custom_rules;
mod delete;
mod discovery;
mod downward;
mod endings;
mod events;
mod every_kind;
mod finalizers;
mod hostile_rules;
mod house;
mod http;
mod invalid_fields;
mod legacy_tokens;
mod limits;
mod list;
mod lives;
mod members;
mod mutating_policies;
mod namespaces;
mod node;
mod node_restriction;
mod opting_in;
mod own;
mod owner_permissions;
mod ownership;
mod paging;
mod paper;
mod patch;
mod permits;
mod plugins;
mod policies;
mod policy_parameters;
mod protobuf;
mod races;
mod reference;
mod refusals;
mod resource_claims;
mod review_answers;
mod reviews;
mod services;
mod status;
mod subresources;
mod tables;
mod tokens;
mod update;
mod volumes;
mod watch;
mod watch_cut;
mod webhooks;
