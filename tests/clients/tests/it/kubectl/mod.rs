//! kubectl, unchanged, as a person would type it. Outputs are asserted as kubectl prints them.

mod changes;
mod kinds;
mod reads;
mod runner;
mod version;

use runner::Kubectl;
use version::Documented;
