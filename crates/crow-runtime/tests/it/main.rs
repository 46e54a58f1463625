//! Tests of the runtime's behaviour.

mod answers;
mod children;
mod observers;
mod outside;
mod processes;
mod runtime;
mod schedules;
mod sessions;
mod shutdown;
mod support;
