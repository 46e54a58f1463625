mod commands;
mod folders;
mod life;
mod places;
mod scene;
mod switching;
