//! Classification of IP addresses: public, or of this machine and the networks around it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 ranges without public hosts, as address and prefix length.
const NOT_PUBLIC: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::UNSPECIFIED, 8),           // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared by a provider's customers
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local: the metadata of clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocols
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // examples
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // relays of 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // laboratories
    (Ipv4Addr::new(198, 51, 100, 0), 24), // examples
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // examples
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved
    (Ipv4Addr::BROADCAST, 32),
];
/// Non-public ranges within the global IPv6 range.
const NOT_PUBLIC_6: [(Ipv6Addr, u32); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocols: Teredo among them
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // examples
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // examples
];
/// Global unicast range of IPv6; all others are local, reserved or embed IPv4.
const PUBLIC_6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// NAT64 prefix, by which IPv6-only networks reach IPv4 hosts.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Returns true if an address is a public one of the internet: neither of this machine nor of a network
/// around it, and no IPv6 form that embeds such an address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) => is_public_6(address),
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    let is_in = |(base, length): &(Ipv4Addr, u32)| (bits ^ base.to_bits()) >> (32 - length) == 0;
    !NOT_PUBLIC.iter().any(is_in)
}

fn is_public_6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    let is_in = |(base, length): (Ipv6Addr, u32)| (bits ^ base.to_bits()) >> (128 - length) == 0;
    let [_, one, two, .., six, seven] = address.segments();
    let embedded =
        |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    if address.to_ipv4_mapped().is_some() || is_in(NAT64) {
        return is_public_4(embedded(six, seven));
    }
    if address.segments().first() == Some(&0x2002) {
        return is_public_4(embedded(one, two));
    }
    is_in(PUBLIC_6) && !NOT_PUBLIC_6.into_iter().any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "128.0.0.1",
            "169.253.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "2001:200::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn local_addresses_are_not_public_in_any_form() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::808:808",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2002:c0a8:101::1",
            "2001::1",
            "2001:db8::1",
            "100::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }
}
