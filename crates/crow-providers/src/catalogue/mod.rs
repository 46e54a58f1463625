//! What is known about models without asking anybody: window, limits, abilities and price.

mod lookup;
mod table;

pub(crate) use lookup::{KnownModel, Vendor};
