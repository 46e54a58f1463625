//! The Agent Client Protocol over any product.

mod view;
