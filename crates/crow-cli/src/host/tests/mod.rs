mod commands;
mod figures;
mod folders;
mod life;
mod places;
mod scene;
mod switching;
