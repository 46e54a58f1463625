//! Model providers: HTTP, event streams, the wire formats of the vendors, and what is known about their models.

mod codec;
