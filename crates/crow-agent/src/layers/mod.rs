//! Configuration in layers: that of the program, of the user, of a trusted project, and of the command line. Tables
//! are merged key by key before they are deserialised, and every value has its origin.
//!
//! A layer is a tree of small files, in a folder or in memory. Files are read on demand, and a file that cannot be
//! read affects only what it describes.

mod layer;
mod merge;
mod node;
mod origin;
mod read;
mod tree;

pub(crate) use layer::stays_inside;
pub use layer::{ConfigLayer, LayerKind};
pub use node::{Node, TableEntry, Value};
pub use origin::{SourceFile, ValueOrigin};
pub use tree::{Layers, parse};
