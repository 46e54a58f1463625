//! Output of a call while it runs.

use std::sync::Arc;

/// Receives output of a call while it runs. All of it is shown, up to a limit; the result contains everything.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(String) + Send + Sync>>);

impl Progress {
    /// Reports to `sink`, which must not block.
    pub fn new(sink: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Reports some output.
    pub fn report(&self, output: impl Into<String>) {
        if let Some(sink) = &self.0 {
            sink(output.into());
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}
