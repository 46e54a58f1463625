//! The environment of the agent's commands: variables that development needs, without those that may contain a secret.
//!
//! It is an allow list, since the names of all secrets cannot be known. A variable passes if its name or the beginning
//! of its name is listed, and neither its name nor its value suggests a secret. The user may add names and prefixes;
//! only an added full name is exempt from the check for secrets. A provider's key never passes.

use std::{collections::BTreeMap, path::Path};

use crow_runtime::ChildEnvironment;

use crate::environment::ProcessEnvironment;

/// Variable with further names and prefixes to pass on: `CROW_AGENT_CHILD_ENV=SSH_AUTH_SOCK,ACME_*`.
const ADDED: &str = "CROW_AGENT_CHILD_ENV";

/// Names of variables that are passed on, in upper case.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    // The user, directories and the terminal.
    "PATH", "HOME", "USER", "LOGNAME", "USERNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME", "LANG", "LANGUAGE", "TZ",
    "TMPDIR", "TMP", "TEMP", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
    "EDITOR", "VISUAL", "PAGER", "LESS", "MANPATH", "INFOPATH", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
    "CI", "DEBIAN_FRONTEND", "SOURCE_DATE_EPOCH", "IN_NIX_SHELL", "WSL_DISTRO_NAME", "WSLENV",
    // Compilers and linkers.
    "CC", "CXX", "CPP", "AR", "AS", "LD", "NM", "RANLIB", "STRIP", "OBJCOPY", "FC", "F77",
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "FFLAGS", "FCFLAGS", "ARFLAGS", "LDLIBS", "LIBS",
    "LD_LIBRARY_PATH", "LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH",
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "CLANG_PATH", "ACLOCAL_PATH", "PROTOC",
    "PROTOC_INCLUDE", "SDKROOT", "DEVELOPER_DIR", "MACOSX_DEPLOYMENT_TARGET", "IPHONEOS_DEPLOYMENT_TARGET",
    // Go has no prefix of its own.
    "GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "GOENV", "GOFLAGS", "GOPROXY", "GONOPROXY", "GOPRIVATE",
    "GONOSUMDB", "GOSUMDB", "GOINSECURE", "GOVCS", "GOOS", "GOARCH", "GOARM", "GOARM64", "GOAMD64", "GOTOOLCHAIN",
    "GOWORK", "GOMAXPROCS", "GODEBUG", "GOGC", "GOMEMLIMIT", "GOTMPDIR", "GOEXPERIMENT", "GO111MODULE",
    "GOTRACEBACK", "GORACE", "GOCOVERDIR",
    // Other tools.
    "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PERL5LIB", "PERL5OPT", "OPAMROOT", "OPAMSWITCH", "N_PREFIX", "M2", "R_HOME",
    "R_LIBS", "R_LIBS_USER", "SQLX_OFFLINE", "SQLX_OFFLINE_DIR", "PLAYWRIGHT_BROWSERS_PATH",
    "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD",
    // Certificates and proxies.
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY",
    // Git, except the variables that select a repository: commands work in several.
    "GIT_EDITOR", "GIT_PAGER", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_TEMPLATE_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
    "GIT_LFS_SKIP_SMUDGE", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT",
];

/// Prefixes of names that are passed on, in upper case.
#[rustfmt::skip]
const PREFIXES: &[&str] = &[
    "LC_", "XDG_", "GIT_AUTHOR_", "GIT_COMMITTER_",
    "CARGO_", "RUSTUP_", "RUST", "CGO_", "CMAKE_", "PKG_CONFIG", "MAKE", "NINJA_", "MESON_", "BAZEL_", "VCPKG_", "CONAN_",
    "CCACHE_", "SCCACHE_", "LLVM_", "LIBCLANG_", "BINDGEN_", "OPENSSL_", "CUDA_", "ROCM_",
    "JAVA_", "JDK_", "MAVEN_", "MVN_", "M2_", "GRADLE_", "KOTLIN_", "SBT_", "ANT_", "ANDROID_",
    "NODE_", "NVM_", "NPM_CONFIG_", "PNPM_", "YARN_", "BUN_", "DENO_", "VOLTA_", "FNM_", "COREPACK_",
    "PYTHON", "CONDA_", "MAMBA_", "PYENV_", "UV_", "PIP_", "PIPX_", "PIPENV_", "POETRY_", "PDM_", "HATCH_", "PYTEST_",
    "GEM_", "RBENV_", "BUNDLE_", "RUBY", "RVM_", "PHP_", "COMPOSER_", "PERL_", "DOTNET_", "NUGET_", "MSBUILD",
    "SWIFT_", "ZIG_", "OCAML", "GHCUP_", "STACK_", "CABAL_", "ERL_", "MIX_", "HEX_", "JULIA_", "FLUTTER_", "DART_", "PUB_",
    "NIX_", "GUIX_", "HOMEBREW_", "SDKMAN_", "ASDF_", "MISE_",
];

/// Words in the names of variables and options that contain secrets.
#[rustfmt::skip]
const SECRET_WORDS: &[&str] = &[
    "KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "PWD", "CREDENTIAL",
    "CREDENTIALS", "AUTH", "PAT", "COOKIE", "LOGIN", "SIG",
];
/// Endings of words with the same meaning: `APIKEY`, `PGPASSWORD`.
const SECRET_ENDS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
/// Exceptions: names with such a word that contain no secret. The last is an option in `MAKEFLAGS`.
const NO_SECRETS: [&str; 3] = ["PWD", "OLDPWD", "JOBSERVER-AUTH"];

/// Filter of variables: the built-in lists with the user's additions and the providers' keys.
#[derive(Debug, Clone)]
struct ChildVariableFilter {
    /// Names that the user added; they pass whatever they contain.
    names: Vec<String>,
    /// Prefixes that the user added, without `*`.
    prefixes: Vec<String>,
    /// Variables with keys of providers; they never pass.
    keys: Vec<String>,
}

impl ProcessEnvironment {
    /// Returns the environment of the processes that the agent starts: the variables that development needs, without
    /// those that contain a secret by their name or value, or are among `keys`. If the agent was not started from a
    /// shell (`SHLVL` is not set), the user's login shell supplies further variables before the first process starts.
    pub fn child_environment(&self, keys: &[String]) -> ChildEnvironment {
        let sieve = ChildVariableFilter::new(&self.var(ADDED).unwrap_or_default(), keys);
        let environment = ChildEnvironment::from(self.filtered(&sieve));
        let is_from_shell = self.is_set("SHLVL");
        match self.var("SHELL").filter(|shell| !is_from_shell && Path::new(shell).is_absolute()) {
            Some(shell) => environment
                .with_login_shell(shell, move |name, value| sieve.lets_through(name, value)),
            None => environment,
        }
    }

    fn filtered(&self, sieve: &ChildVariableFilter) -> BTreeMap<String, String> {
        let variables =
            self.utf8_variables().filter(|(name, value)| sieve.lets_through(name, value));
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

impl ChildVariableFilter {
    fn new(added: &str, keys: &[String]) -> Self {
        let added = added.split(',').map(str::trim).filter(|name| !name.is_empty());
        let (prefixes, names): (Vec<_>, Vec<_>) = added.partition(|name| name.ends_with('*'));
        let prefixes = prefixes.into_iter().map(|prefix| prefix.trim_end_matches('*').to_owned());
        let names = names.into_iter().map(str::to_owned).collect();
        Self { names, prefixes: prefixes.collect(), keys: keys.to_vec() }
    }

    /// Returns true if a variable is passed on.
    fn lets_through(&self, name: &str, value: &str) -> bool {
        if self.keys.iter().any(|key| key == name) || name == ADDED {
            return false;
        }
        if self.names.iter().any(|added| added == name) {
            return true;
        }
        let upper = name.to_ascii_uppercase();
        let is_listed = NAMES.contains(&upper.as_str())
            || PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix));
        is_listed && !is_secret(&upper) && !contains_secret(&upper, value)
    }
}

/// Returns true if a name, in upper case, suggests a secret. Bundler names the credentials of a server after it, with
/// its dots written as two underscores.
pub(crate) fn is_secret(upper: &str) -> bool {
    let is_secret_word = |word: &str| {
        SECRET_WORDS.contains(&word) || SECRET_ENDS.iter().any(|end| word.ends_with(end))
    };
    let mut words = upper.split(|c: char| !c.is_ascii_alphanumeric());
    let is_bundler_server = upper.starts_with("BUNDLE_") && upper.contains("__");
    !NO_SECRETS.contains(&upper) && (is_bundler_server || words.any(is_secret_word))
}

/// Prefixes of the tokens of well-known services, and of private keys.
const TOKENS: [&str; 14] = [
    "sk-",
    "sk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "npm_",
    "pypi-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "-----BEGIN",
];

/// Returns true if a value contains a secret: in a URL, among options, or as a whole.
pub(crate) fn contains_secret(upper: &str, value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    // A proxy's address may have no scheme.
    (upper.ends_with("_PROXY") && value.contains('@'))
        || names_a_secret(value)
        || TOKENS.iter().any(|beginning| value.trim_start().starts_with(beginning))
        || lower.match_indices("://").any(|(at, mark)| {
            let (before, after) = lower.split_at(at);
            let after = after.strip_prefix(mark).unwrap_or(after);
            let host =
                after.split(['/', '?', '#', ',', '|', ';', ' ', '\t', '\n', '"', '\'']).next();
            let user = host.and_then(|host| host.rsplit_once('@')).map(|(user, _)| user);
            // The user of an ssh URL is not a secret; any other user may be a token.
            user.is_some_and(|user| !before.ends_with("ssh") || user.contains(':'))
        })
}

/// Returns true if the name before a `=` suggests a secret: that of an option, a property or a query parameter.
fn names_a_secret(value: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    value.match_indices('=').any(|(at, _)| {
        let before = value.split_at(at).0.trim_end();
        let name = before.rsplit(|c| !is_part(c)).next().unwrap_or_default();
        is_secret(&name.trim_start_matches('-').to_ascii_uppercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(sieve: &ChildVariableFilter, variable: &str) -> bool {
        let (name, value) = variable.split_once('=').unwrap();
        sieve.lets_through(name, value)
    }

    #[test]
    fn variables_of_development_pass() {
        let sieve = ChildVariableFilter::new("", &[]);
        for variable in [
            "PATH=/bin",
            "HOME=/h",
            "PWD=/p",
            "LANG=C",
            "LC_ALL=C",
            "TZ=UTC",
            "XDG_CACHE_HOME=/c",
            "TMPDIR=/t",
            "CARGO_HOME=/c",
            "RUSTUP_TOOLCHAIN=stable",
            "RUSTFLAGS=-g",
            "RUST_BACKTRACE=1",
            "GOPATH=/g",
            "GOFLAGS=-v",
            "GOPROXY=https://proxy.example,direct",
            "CGO_ENABLED=0",
            "JAVA_HOME=/j",
            "MAVEN_OPTS=-Xmx1g",
            "NODE_OPTIONS=--x",
            "NVM_DIR=/n",
            "npm_config_registry=https://registry.example/",
            "NPM_CONFIG_CACHE=/c",
            "PNPM_HOME=/p",
            "PYTHONPATH=/p",
            "VIRTUAL_ENV=/v",
            "CONDA_PREFIX=/c",
            "UV_CACHE_DIR=/u",
            "PIP_INDEX_URL=https://pypi.example/simple",
            "GEM_HOME=/g",
            "BUNDLE_PATH=/b",
            "COMPOSER_HOME=/c",
            "CC=clang",
            "CFLAGS=-O2",
            "MAKEFLAGS=-j2",
            "CMAKE_GENERATOR=Ninja",
            "PKG_CONFIG_PATH=/p",
            "LD_LIBRARY_PATH=/l",
            "SSL_CERT_FILE=/s",
            "http_proxy=http://proxy.example:3128",
            "HTTPS_PROXY=proxy.example:3128",
            "no_proxy=localhost",
            "GIT_AUTHOR_NAME=Ann",
            "GIT_COMMITTER_EMAIL=ann@example.org",
            "CI=true",
            "DISPLAY=:0",
            "NIX_PATH=nixpkgs=/n",
            "HOMEBREW_PREFIX=/h",
            "DOTNET_ROOT=/d",
            "CARGO_NET_GIT_FETCH_WITH_CLI=true",
            "CARGO_REGISTRIES_MINE_INDEX=ssh://git@example.org/index",
        ] {
            assert!(passes(&sieve, variable), "{variable}");
        }
    }

    #[test]
    fn unlisted_and_secret_variables_do_not_pass() {
        let sieve = ChildVariableFilter::new("", &["JAVA_MODEL".to_owned()]);
        for variable in [
            // Not listed.
            "ACME_LOGIN=x",
            "AWS_PROFILE=x",
            "DATABASE_URL=x",
            "SSH_AUTH_SOCK=/s",
            "KUBECONFIG=/k",
            "GOOGLE_CLOUD_PROJECT=x",
            "DBUS_SESSION_BUS_ADDRESS=x",
            "LD_PRELOAD=/x.so",
            "GIT_DIR=/g",
            "GIT_CONFIG_VALUE_0=x",
            "CROW_CALL=x",
            "CROW_AGENT_CHILD_ENV=x",
            "BASH_ENV=/x",
            // The name suggests a secret.
            "OPENAI_API_KEY=x",
            "CARGO_REGISTRY_TOKEN=x",
            "CARGO_REGISTRIES_MINE_TOKEN=x",
            "NPM_CONFIG__AUTH=x",
            "npm_config_//registry.example/:_authToken=x",
            "NODE_AUTH_TOKEN=x",
            "UV_PUBLISH_PASSWORD=x",
            "UV_INDEX_MINE_PASSWORD=x",
            "POETRY_HTTP_BASIC_MINE_PASSWORD=x",
            "POETRY_PYPI_TOKEN_PYPI=x",
            "BUNDLE_GITHUB__COM_KEY=x",
            "COMPOSER_AUTH=x",
            "HOMEBREW_GITHUB_API_TOKEN=x",
            "MISE_GITHUB_TOKEN=x",
            "HEX_API_KEY=x",
            "CONAN_PASSWORD=x",
            "GRADLE_ENCRYPTION_KEY=x",
            "NUGET_APIKEY=x",
            "PIP_PASS=x",
            // The value contains a secret.
            "PIP_INDEX_URL=https://ann:pw@pypi.example/simple",
            "PIP_EXTRA_INDEX_URL=https://a.example https://tok@b.example/",
            "GOPROXY=https://ann:pw@proxy.example,direct",
            "http_proxy=http://ann:pw@proxy.example:3128",
            "HTTPS_PROXY=http://ann@proxy.example",
            "ALL_PROXY=ann:pw@proxy.example",
            "JAVA_TOOL_OPTIONS=-Da.Password=x",
            "GIT_AUTHOR_NAME=https://x:y@z",
            "CARGO_REGISTRIES_MINE_INDEX=ssh://git:pw@example.org/index",
            "CARGO_HTTP_PROXY=ann:pw@proxy.example",
            // A provider's key.
            "JAVA_MODEL=x",
        ] {
            assert!(!passes(&sieve, variable), "{variable}");
        }
    }

    #[test]
    fn the_user_adds_names_and_prefixes_but_never_a_providers_key() {
        let keys = ["ACME_MODEL_KEY".to_owned()];
        let sieve =
            ChildVariableFilter::new(" SSH_AUTH_SOCK, ACME_*,GITHUB_TOKEN,,ACME_MODEL_KEY", &keys);
        for (variable, expected) in [
            ("SSH_AUTH_SOCK=/s", true),
            ("ACME_HOME=/a", true),
            // A full name passes unchecked; a prefix does not exempt from the check for secrets.
            ("GITHUB_TOKEN=x", true),
            ("ACME_TOKEN=x", false),
            ("ACME_MODEL_KEY=x", false),
            ("ssh_auth_sock=/s", false),
            ("OTHER=x", false),
        ] {
            assert_eq!(passes(&sieve, variable), expected, "{variable}");
        }
    }

    #[test]
    fn documented_secrets_of_tools_do_not_pass() {
        let sieve = ChildVariableFilter::new("", &[]);
        let leaked: Vec<_> = [
            // Tokens under any name.
            "CARGO_G=sk-ant-api03-x",
            "CARGO_G=ghp_abcdefghijklmnop",
            "CARGO_G=AKIAIOSFODNN7EXAMPLE",
            "CARGO_G=-----BEGIN RSA PRIVATE KEY-----",
            // Bundler: credentials of a gem server.
            "BUNDLE_ENTERPRISE__CONTRIBSYS__COM=ab12cd34:5678ef90",
            "BUNDLE_RUBYGEMS__PKG__GITHUB__COM=me:ghp_abcdefghijklmnop",
            // Nix: tokens for flakes.
            "NIX_CONFIG=access-tokens = github.com=ghp_abcdefghijklmnop",
            // sccache and vcpkg: the key of a storage account, a signed address.
            "SCCACHE_AZURE_CONNECTION_STRING=DefaultEndpointsProtocol=https;AccountName=a;AccountKey=c2VjcmV0",
            "VCPKG_BINARY_SOURCES=clear;x-azblob,https://a.blob.core.windows.net/c,sv=2023&sig=c2VjcmV0,readwrite",
            // Properties of a JVM.
            "JAVA_TOOL_OPTIONS=-Daws.secretKey=c2VjcmV0",
            "MAVEN_OPTS=-Dsonar.login=c2VjcmV0",
            "GRADLE_OPTS=-Dorg.gradle.project.signing.passphrase=c2VjcmV0",
            // Paths to keys, and a socket that gives the same access.
            "GNUPGHOME=/h/.gnupg",
            "GIT_SSH_COMMAND=ssh -i /h/key",
            "DOCKER_HOST=unix:///run/user/1000/docker.sock",
        ]
        .into_iter()
        .filter(|variable| passes(&sieve, variable))
        .collect();
        assert_eq!(leaked, Vec::<&str>::new());
    }

    #[test]
    fn build_settings_in_variables_pass() {
        let sieve = ChildVariableFilter::new("", &[]);
        let missing: Vec<_> = [
            "PROTOC=/opt/protoc",
            "OPENSSL_DIR=/opt/ssl",
            "LIBCLANG_PATH=/opt/llvm",
            "BINDGEN_EXTRA_CLANG_ARGS=-I/opt",
            "SDKROOT=/opt/sdk",
            "DEVELOPER_DIR=/opt/xcode",
            "MACOSX_DEPLOYMENT_TARGET=12.0",
            "ACLOCAL_PATH=/opt",
            "SQLX_OFFLINE=true",
            "PLAYWRIGHT_BROWSERS_PATH=/opt/b",
            "MAKEFLAGS=-j4 --jobserver-auth=fifo:/tmp/make",
            "NIX_CONFIG=experimental-features = flakes",
            "BUNDLE_JOBS=4",
        ]
        .into_iter()
        .filter(|variable| !passes(&sieve, variable))
        .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
