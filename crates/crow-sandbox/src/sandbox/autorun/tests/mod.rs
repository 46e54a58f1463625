//! The guard as commands meet it, and passes that are left out.

mod guard;
mod nested;
mod pass_record;
mod rebases;
