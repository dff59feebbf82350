//! kubectl, unchanged, as a person would type it. Outputs are asserted as kubectl prints them.

mod changes;
mod kinds;
mod reads;
mod runner;

use runner::Kubectl;
