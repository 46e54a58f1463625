//! Built-in data about models, available offline: window, limits, abilities and price.

mod lookup;
mod table;

#[cfg(test)]
pub(crate) use lookup::FREE;
pub(crate) use lookup::{KnownModel, Vendor};
