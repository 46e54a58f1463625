//! Configuration in layers: what the program ships, what the user says, what a trusted project says, and what stands on
//! the command line. Tables are merged key by key before anybody understands them, and every value knows where it stands.
//!
//! A layer is a tree of small files, in a folder or in memory. Nothing is read before it is asked for, and a file that
//! cannot be read hurts only what it describes.

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
