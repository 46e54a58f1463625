//! Whether a call may run.
//!
//! A [`PermissionPolicy`] decides from a call's plan. Only its decision, or an answered question, makes the
//! [`Permit`] without which no tool runs.

mod grant;
mod permit;
mod policy;

pub use grant::{Grant, GrantOffer};
pub use permit::{Ask, Denial, DenialSource, Permit};
pub use policy::{CallFacts, Decision, PermissionMode, PermissionPolicy};
