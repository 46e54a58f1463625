//! A cache of tool lists, so that a session need not wait for its servers.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use crow_core::mcp::{McpServerConfig, McpTransport};
use serde::{Deserialize, Serialize};

use crate::listed::{MOST_TOOLS, ToolListing};

/// Maximum size of a cache file in bytes. A larger file is cut, so it fails to parse.
const LARGEST: u64 = 4 * 1024 * 1024;
/// Version of the file format. Files of other versions are ignored.
const VERSION: u32 = 1;

/// Directory with one file of listed tools per server configuration. Its files become tool descriptions that models
/// read, so writing there must stay a privilege of the user.
#[derive(Debug, Clone)]
pub struct SchemaCache {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolCacheEntry {
    version: u32,
    listed: ToolListing,
}

impl SchemaCache {
    /// Keeps files in this directory, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the last listing of this server, if a readable one is stored. Blocks.
    pub(crate) fn load(&self, server: &McpServerConfig) -> Option<ToolListing> {
        let file = fs::File::open(self.file(server)?).ok()?;
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text).ok()?;
        let entry: ToolCacheEntry = serde_json::from_str(&text).ok()?;
        let fits = entry.version == VERSION && entry.listed.tools.len() <= MOST_TOOLS;
        fits.then_some(entry.listed)
    }

    /// Stores the listing; does nothing for a server without a stable key. Blocks.
    pub(crate) fn store(&self, server: &McpServerConfig, listed: &ToolListing) -> io::Result<()> {
        let Some(path) = self.file(server) else { return Ok(()) };
        fs::create_dir_all(&self.folder)?;
        let entry = ToolCacheEntry { version: VERSION, listed: listed.clone() };
        // A temporary file is readable for the user only, and renaming it makes the write atomic.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&serde_json::to_vec(&entry)?)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    fn file(&self, server: &McpServerConfig) -> Option<PathBuf> {
        key(server).map(|key| Path::new(&self.folder).join(format!("{key}.json")))
    }
}

/// Derives the file name of a server from its whole configuration. It is a hash, so it reveals no secret. None for a
/// server that the client serves: it ends with its connection, and another connection may have another server of the
/// same name.
fn key(server: &McpServerConfig) -> Option<String> {
    let mut hasher = blake3::Hasher::new_derive_key("crow-mcp schemas of a server");
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    add(&server.name);
    match &server.transport {
        McpTransport::Stdio { command, args, env, cwd } => {
            add("stdio");
            add(command);
            for arg in args {
                add(arg);
            }
            add("env");
            for (name, value) in env {
                add(name);
                add(value);
            }
            add(&cwd.as_ref().map(|cwd| cwd.display().to_string()).unwrap_or_default());
        }
        McpTransport::Http { url, headers } => {
            add("http");
            add(url);
            for (name, value) in headers {
                add(name);
                add(value);
            }
        }
        McpTransport::Client(_) => return None,
    }
    Some(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::listed::ListedTool;

    fn server(token: &str) -> McpServerConfig {
        McpServerConfig {
            name: "x".to_owned(),
            transport: McpTransport::Http {
                url: "http://a".to_owned(),
                headers: BTreeMap::from([("authorization".to_owned(), token.to_owned())]),
            },
        }
    }

    fn listed() -> ToolListing {
        let tool = ListedTool {
            name: "a".to_owned(),
            description: "d".to_owned(),
            schema: json!({"type": "object"}),
        };
        ToolListing { tools: vec![tool], ..ToolListing::default() }
    }

    #[test]
    fn a_stored_listing_is_loaded_for_the_same_configuration_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = SchemaCache::new(folder.path().join("mcp"));
        assert_eq!(cache.load(&server("a")), None);
        cache.store(&server("a"), &listed()).unwrap();
        assert_eq!(cache.load(&server("a")), Some(listed()));
        assert_eq!(cache.load(&server("b")), None);
    }

    #[test]
    fn file_name_and_content_contain_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let cache = SchemaCache::new(folder.path());
        cache.store(&server("hunter2"), &listed()).unwrap();
        let path = cache.file(&server("hunter2")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!path.display().to_string().contains("hunter2") && !text.contains("hunter2"));
    }

    #[test]
    fn a_broken_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let cache = SchemaCache::new(folder.path());
        for text in ["", "{", r#"{"version":2,"listed":{"tools":[],"left_out":0}}"#] {
            fs::write(cache.file(&server("a")).unwrap(), text).unwrap();
            assert_eq!(cache.load(&server("a")), None, "{text}");
        }
    }
}
