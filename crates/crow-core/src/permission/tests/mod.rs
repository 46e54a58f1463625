//! Decisions of the policy.

mod call;
mod commands;
mod extents;
mod hostile;
mod hosts;
mod json;
mod laws;
mod modes;
mod offers;
mod order;
mod paths;
mod places;
