//! How long the driver waits for a server.

use std::time::Duration;

use reqwest::Url;

/// How long the driver waits for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Without a single byte, before the answer begins and in its middle.
    pub silence: Duration,
    /// Without a part of the reply, whatever else is sent to keep the connection alive.
    pub progress: Duration,
    /// Without a part of the reply, before it is told that nothing comes.
    pub notice: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            silence: Duration::from_mins(2),
            progress: Duration::from_mins(10),
            notice: Duration::from_secs(10),
        }
    }
}

impl Timeouts {
    /// Returns how long the server at an address is waited for. One on this machine may first load a model or read a long
    /// prompt.
    pub fn at(address: &str) -> Self {
        let long = Duration::from_mins(30);
        match Url::parse(address) {
            Ok(url) if is_loopback(&url) => {
                Self { silence: long, progress: long, ..Self::default() }
            }
            Ok(_) | Err(_) => Self::default(),
        }
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    address.map_or_else(
        |_| host == "localhost" || host.ends_with(".localhost"),
        |address| address.is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_machine_is_waited_for_longer() {
        for address in ["http://127.0.0.1:8080/v1", "http://[::1]:1", "http://localhost:11434"] {
            let timeouts = Timeouts::at(address);
            let long = Duration::from_mins(30);
            assert_eq!((timeouts.silence, timeouts.progress), (long, long), "{address}");
        }
        for address in ["https://api.anthropic.com", "http://10.0.0.1", "nothing"] {
            assert_eq!(Timeouts::at(address), Timeouts::default(), "{address}");
        }
    }
}
