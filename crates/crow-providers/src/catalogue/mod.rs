//! What is known about models without asking anybody: window, limits, abilities and price.

mod lookup;
mod table;

#[cfg(test)]
pub(crate) use lookup::FREE;
pub(crate) use lookup::{KnownModel, Vendor};
