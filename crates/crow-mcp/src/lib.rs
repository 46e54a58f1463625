//! Servers of the Model Context Protocol: their tools as ordinary tools.
