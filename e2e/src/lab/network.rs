//! The cluster's own network: a namespace, a link to the host, and an address block per lab.
//!
//! Nothing of a cluster touches the host's own tables: the bridge, the pods and kube-proxy's rules are in
//! the namespace, and the host reaches the API server over a pair of linked devices.

use std::net::SocketAddr;

use super::LabError;
use super::command::{command, run};

/// Number of address blocks, so of labs that can run side by side; blocks are numbered from 1.
pub const INDEX_MAX: u8 = 50;

/// Addresses of the lab with the given block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    index: u8,
}

impl Addresses {
    /// Addresses of block `index`, 1 to [`INDEX_MAX`].
    pub fn new(index: u8) -> Self {
        Addresses { index }
    }

    /// Number of the block.
    pub fn index(&self) -> u8 {
        self.index
    }

    /// The host's end of the link.
    pub fn host(&self) -> String {
        format!("10.99.{}.1", self.index)
    }

    /// The node, and the API server on it.
    pub fn node(&self) -> String {
        format!("10.99.{}.2", self.index)
    }

    /// Address number `last` of the Services' range.
    pub fn service(&self, last: u8) -> String {
        format!("10.{}.0.{last}", 180 + u16::from(self.index))
    }

    /// Range of the Services, as CIDR.
    pub fn services(&self) -> String {
        format!("{}/24", self.service(0))
    }

    /// The cluster's name service.
    pub fn dns(&self) -> String {
        self.service(10)
    }

    /// Range of the pods, as CIDR.
    pub fn pods(&self) -> String {
        format!("10.{}.0.0/16", 100 + u16::from(self.index))
    }

    /// The part of the pods' range that the only node hands out: room for 1,000 pods.
    pub fn node_pods(&self) -> String {
        format!("10.{}.0.0/22", 100 + u16::from(self.index))
    }

    /// Where the API server listens.
    pub fn api(&self) -> SocketAddr {
        SocketAddr::from(([10, 99, self.index, 2], 6443))
    }

    /// URL of the API server.
    pub fn server(&self) -> String {
        format!("https://{}", self.api())
    }

    /// Name of the link's end on the host; the kernel allows 15 characters.
    pub fn link(&self) -> String {
        format!("petri{}", self.index)
    }
}

/// Makes the namespace `netns` and links it to the host.
pub async fn create(netns: &str, addresses: &Addresses) -> Result<(), LabError> {
    let (link, host, node) = (addresses.link(), addresses.host() + "/30", addresses.node() + "/30");
    let dns = addresses.dns() + "/32";
    ip(&["netns", "add", netns]).await?;
    ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", netns]).await?;
    ip(&["addr", "add", &host, "dev", &link]).await?;
    ip(&["link", "set", &link, "up"]).await?;
    ip(&["-n", netns, "addr", "add", &node, "dev", "eth0"]).await?;
    ip(&["-n", netns, "link", "set", "eth0", "up"]).await?;
    ip(&["-n", netns, "link", "set", "lo", "up"]).await?;
    // The name service answers here; pods reach it through their gateway.
    ip(&["-n", netns, "addr", "add", &dns, "dev", "lo"]).await?;
    ip(&["-n", netns, "route", "add", "default", "via", &addresses.host()]).await?;
    let inside = format!("--net=/run/netns/{netns}");
    run(command("nsenter").args([&inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])).await?;
    Ok(())
}

async fn ip(args: &[&str]) -> Result<(), LabError> {
    run(command("ip").args(args)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_blocks_share_an_address_or_a_link() {
        let mut seen = std::collections::BTreeSet::new();
        for addresses in (1..=INDEX_MAX).map(Addresses::new) {
            for text in
                [addresses.host(), addresses.node(), addresses.services(), addresses.pods(), addresses.link()]
            {
                assert!(seen.insert(text.clone()), "{text} twice");
            }
            assert!(addresses.link().len() <= 15);
        }
    }

    #[test]
    fn every_part_of_an_address_fits_a_byte() {
        let last = Addresses::new(INDEX_MAX);
        for text in [last.host(), last.node(), last.dns(), last.services(), last.pods()] {
            let address = text.split('/').next().unwrap();
            assert!(address.parse::<std::net::Ipv4Addr>().is_ok(), "{text}");
        }
    }
}
