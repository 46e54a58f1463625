//! Pages that were read lately.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Time for which a page counts as current.
const LIFETIME: Duration = Duration::from_mins(15);
/// Maximum number of pages.
const PAGES: usize = 32;
/// Maximum bytes of all texts together.
const BYTES: usize = 8 << 20;

/// The text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageText {
    /// The address after redirects.
    pub(super) address: String,
    /// The title, if it has one.
    pub(super) title: Option<String>,
    pub(super) text: String,
    /// True if the page was longer than what is read.
    pub(super) is_cut: bool,
    /// True if a later call may be answered with it. Without this only the rest of a long page is.
    pub(super) may_be_kept: bool,
}

/// The pages read last, by the address that was asked for. Shared by all sessions of a program: a page looks the same for
/// everyone, since no request has credentials.
#[derive(Debug, Default)]
pub(super) struct PageCache(Mutex<VecDeque<CachedPage>>);

#[derive(Debug)]
struct CachedPage {
    asked: String,
    page: Arc<PageText>,
    read: Instant,
}

impl PageCache {
    /// Returns a page that was read lately, and how long ago.
    pub(super) fn get(&self, asked: &str) -> Option<(Arc<PageText>, Duration)> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|cached| cached.read.elapsed() < LIFETIME);
        let found = pages.iter().find(|cached| cached.asked == asked)?;
        Some((Arc::clone(&found.page), found.read.elapsed()))
    }

    /// Adds a page, and drops the oldest ones beyond the limits.
    pub(super) fn insert(&self, asked: String, page: Arc<PageText>) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|cached| cached.asked != asked);
        pages.push_back(CachedPage { asked, page, read: Instant::now() });
        let mut bytes: usize = pages.iter().map(|cached| cached.page.text.len()).sum();
        while pages.len() > PAGES || bytes > BYTES {
            let Some(oldest) = pages.pop_front() else { break };
            bytes -= oldest.page.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_keeps_the_newest_pages_within_its_limits() {
        let cache = PageCache::default();
        let page = |bytes: usize| {
            let text = "x".repeat(bytes);
            Arc::new(PageText {
                address: String::new(),
                title: None,
                text,
                is_cut: false,
                may_be_kept: true,
            })
        };
        for number in 0..PAGES + 2 {
            cache.insert(number.to_string(), page(10));
        }
        assert!(cache.get("1").is_none() && cache.get("2").is_some());
        cache.insert("long".to_owned(), page(BYTES - 15));
        assert!(
            cache.get("2").is_none() && cache.get("33").is_some() && cache.get("long").is_some()
        );
        cache.insert("too long".to_owned(), page(BYTES + 1));
        assert!(cache.get("too long").is_none());
    }
}
