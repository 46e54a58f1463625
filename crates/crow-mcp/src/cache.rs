//! A cache of tool lists, so that a session need not wait for its servers.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use crow_core::mcp::{McpServerConfig, McpTransport};
use serde::{Deserialize, Serialize};

use crate::listed::{MOST_TOOLS, ToolListing};

/// The largest file that is read.
const LARGEST: u64 = 1024 * 1024;
/// Another number is another form.
const VERSION: u32 = 1;

/// A folder that keeps what servers listed. Whoever writes there decides what models are told of tools.
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
    /// Keeps files in this folder, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns what the server listed the last time, if that is known. Blocks.
    pub(crate) fn load(&self, server: &McpServerConfig) -> Option<ToolListing> {
        let file = fs::File::open(self.file(server)?).ok()?;
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text).ok()?;
        let entry: ToolCacheEntry = serde_json::from_str(&text).ok()?;
        let fits = entry.version == VERSION && entry.listed.tools.len() <= MOST_TOOLS;
        fits.then_some(entry.listed)
    }

    /// Keeps what the server listed, if it can be found again. Blocks.
    pub(crate) fn store(&self, server: &McpServerConfig, listed: &ToolListing) -> io::Result<()> {
        let Some(path) = self.file(server) else { return Ok(()) };
        fs::create_dir_all(&self.folder)?;
        let entry = ToolCacheEntry { version: VERSION, listed: listed.clone() };
        // Only the user may read it, and nobody sees half of it.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&serde_json::to_vec(&entry)?)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    fn file(&self, server: &McpServerConfig) -> Option<PathBuf> {
        key(server).map(|key| Path::new(&self.folder).join(format!("{key}.json")))
    }
}

/// Names a server by all that it is configured with. The name tells no secret. One that is gone with its connection has none:
/// another connection may have another server of the same name.
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
    fn what_was_kept_comes_back_for_the_same_server_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cache = SchemaCache::new(folder.path().join("mcp"));
        assert_eq!(cache.load(&server("a")), None);
        cache.store(&server("a"), &listed()).unwrap();
        assert_eq!(cache.load(&server("a")), Some(listed()));
        assert_eq!(cache.load(&server("b")), None);
    }

    #[test]
    fn neither_name_nor_content_of_a_file_tells_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let cache = SchemaCache::new(folder.path());
        cache.store(&server("hunter2"), &listed()).unwrap();
        let path = cache.file(&server("hunter2")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!path.display().to_string().contains("hunter2") && !text.contains("hunter2"));
    }

    #[test]
    fn a_file_that_is_broken_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = SchemaCache::new(folder.path());
        for text in ["", "{", r#"{"version":2,"listed":{"tools":[],"left_out":0}}"#] {
            fs::write(cache.file(&server("a")).unwrap(), text).unwrap();
            assert_eq!(cache.load(&server("a")), None, "{text}");
        }
    }
}
