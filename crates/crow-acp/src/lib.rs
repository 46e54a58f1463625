//! The Agent Client Protocol over any product.
