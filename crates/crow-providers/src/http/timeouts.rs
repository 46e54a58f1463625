//! Timeouts of the driver.

use std::time::Duration;

use reqwest::Url;

/// Timeouts of the driver for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time without a byte, before the answer and within it.
    pub silence: Duration,
    /// Maximum time without a part of the reply, with or without keep-alives.
    pub progress: Duration,
    /// Time without a part of the reply after which that is reported.
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
    /// Returns the timeouts for the server at an address. One on this machine may first load a model or read a long
    /// prompt, so both limits are 30 minutes.
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

/// Returns true if an address is that of this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
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
    fn a_server_on_this_machine_has_longer_timeouts() {
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
