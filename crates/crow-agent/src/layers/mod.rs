//! Configuration in layers: that of the program, of the user, of a trusted project, and of the command line. Tables
//! are merged key by key before they are deserialised, and every value has its origin.
//!
//! A layer is a tree of small files, in a folder or in memory. Files are read on demand, and a file that cannot be
//! read affects only what it describes.

mod layer;
mod node;
mod read;

pub(crate) use layer::stays_inside;
pub use layer::{ConfigLayer, LayerKind, Layers, parse};
pub use node::{Node, SourceFile, TableEntry, Value, ValueOrigin};
