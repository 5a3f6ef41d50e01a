//! Every version the lab runs on, in one place.
//!
//! A changed pin is a new cache key (see [`super::cache`]): what was built for the old one stays usable.

/// Kubernetes: API server, controller manager, scheduler, kubelet, kube-proxy and kubectl.
pub const KUBERNETES: &str = "1.37.2";
/// etcd, the store of the API server.
pub const ETCD: &str = "3.6.16";
/// containerd with its runc shim and `ctr`; Debian's 1.6 is too old for this kubelet.
pub const CONTAINERD: &str = "2.4.2";
/// CoreDNS, the cluster's name service.
pub const COREDNS: &str = "1.15.0";
/// Helm, run by the deployer.
pub const HELM: &str = "4.3.1";
/// The OpenTelemetry collector, assembled from its core modules.
pub const COLLECTOR: &str = "0.165.0";
/// Gateway API, of which only the definitions are used; 1.7 wants a newer Go.
pub const GATEWAY_API: &str = "1.6.0";
/// Prometheus' operator, of which only the definitions are used.
pub const PROMETHEUS_OPERATOR: &str = "0.83.0";
/// Language version written into the small Go modules that hold the pins for the Go tool.
pub const GO_LANGUAGE: &str = "1.26.0";

/// Debian release of the images' root file systems; Rust binaries built on it run there as they are.
pub const DEBIAN_SUITE: &str = "bookworm";
/// PostgreSQL major version, as Debian packages it.
pub const POSTGRES: &str = "15";

/// Debian packages the lab itself needs on the machine, with a path that shows each is there.
pub const HOST_PACKAGES: &[(&str, &str)] = &[
    ("runc", "/usr/sbin/runc"),
    ("containernetworking-plugins", "/usr/lib/cni/bridge"),
    ("iptables", "/usr/sbin/iptables"),
    ("iproute2", "/usr/sbin/ip"),
    ("mmdebstrap", "/usr/bin/mmdebstrap"),
    ("busybox-static", "/usr/share/doc/busybox-static"),
    ("binutils", "/usr/bin/strip"),
];

/// Minor version of Kubernetes, which its binaries are stamped with.
pub fn kubernetes_minor() -> &'static str {
    KUBERNETES.split('.').nth(1).unwrap_or_default()
}

/// Version of the staging modules (`k8s.io/api` and its like) that belong to [`KUBERNETES`].
pub fn kubernetes_staging() -> String {
    format!("v0.{}", KUBERNETES.trim_start_matches("1."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_exact() {
        for pin in [
            KUBERNETES,
            ETCD,
            CONTAINERD,
            COREDNS,
            HELM,
            COLLECTOR,
            GATEWAY_API,
            PROMETHEUS_OPERATOR,
            GO_LANGUAGE,
        ] {
            let numbers: Vec<_> = pin.split('.').map(str::parse::<u32>).collect();
            assert_eq!(numbers.len(), 3, "{pin} has not three parts");
            assert!(numbers.iter().all(Result::is_ok), "{pin} is not made of numbers");
        }
    }

    #[test]
    fn staging_modules_follow_the_kubernetes_release() {
        assert!(KUBERNETES.starts_with("1."));
        assert_eq!(format!("v0{}", &KUBERNETES[1..]), kubernetes_staging());
        assert!(KUBERNETES.starts_with(&format!("1.{}.", kubernetes_minor())));
    }
}
