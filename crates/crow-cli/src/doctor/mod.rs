//! The command `doctor`: reports the effective sandbox, configuration, keys and model. Its only requests go to model
//! servers on this machine, like those of `models`.

mod configuration;
mod machine;
mod models;
mod report;
mod sandbox;

pub(crate) use report::{doctor, doctor_text};
