//! Recording and undoing the file changes of calls.

mod adversity;
mod background;
mod chosen_paths;
mod crashes;
mod exact;
mod fixture;
mod journal;
mod laws;
mod own_tools;
mod path_model;
mod put_back;
mod recording;
mod roots;
mod sequences;
mod sessions;
