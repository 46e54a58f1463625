mod commands;
#[cfg(target_os = "linux")]
mod figures;
mod folders;
mod hooks;
mod life;
mod places;
mod scene;
mod servers;
mod switching;
