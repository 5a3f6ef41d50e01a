//! The programs a cluster is made of, and how each is started.

use super::home::Home;
use super::network::Addresses;

/// One program of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Name of the program, also of its log.
    pub name: &'static str,
    /// Its arguments.
    pub args: Vec<String>,
}

/// Names of all components, in the order they are started.
pub const NAMES: [&str; 8] = [
    "etcd",
    "containerd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "coredns",
];

/// The component `name` of a lab; `None` when there is none of that name.
pub fn component(name: &str, home: &Home, addresses: &Addresses) -> Option<Component> {
    let name = *NAMES.iter().find(|known| **known == name)?;
    let args = match name {
        "etcd" => etcd(home),
        "containerd" => vec![format!("--config={}", home.text("conf/containerd.toml"))],
        "kube-apiserver" => apiserver(home, addresses),
        "kube-controller-manager" => controller_manager(home, addresses),
        "kube-scheduler" => {
            with_kubeconfig(home, "scheduler", &["--leader-elect=false", "--bind-address=127.0.0.1"])
        }
        "kubelet" => vec![
            format!("--config={}", home.text("conf/kubelet.yaml")),
            format!("--kubeconfig={}", home.text("conf/node.kubeconfig")),
            format!("--hostname-override={}", home.name()),
            format!("--node-ip={}", addresses.node()),
            format!("--root-dir={}", home.text("kubelet")),
            format!("--cert-dir={}", home.text("kubelet/certs")),
        ],
        "kube-proxy" => vec![format!("--config={}", home.text("conf/proxy.yaml"))],
        _ => vec!["-conf".into(), home.text("conf/Corefile")],
    };
    Some(Component { name, args })
}

fn etcd(home: &Home) -> Vec<String> {
    let (client, peer) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    vec![
        format!("--data-dir={}", home.text("etcd")),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // A lab does not outlive the machine's power.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ]
}

fn apiserver(home: &Home, addresses: &Addresses) -> Vec<String> {
    let pki = |flag: &str, file: &str| format!("--{flag}={}", home.text(&format!("pki/{file}")));
    let mut args = vec![
        "--etcd-servers=http://127.0.0.1:2379".into(),
        "--bind-address=0.0.0.0".into(),
        format!("--advertise-address={}", addresses.node()),
        "--secure-port=6443".into(),
        format!("--service-cluster-ip-range={}", addresses.services()),
        pki("tls-cert-file", "apiserver.crt"),
        pki("tls-private-key-file", "apiserver.key"),
        pki("client-ca-file", "ca.crt"),
        pki("kubelet-client-certificate", "kubelet-client.crt"),
        pki("kubelet-client-key", "kubelet-client.key"),
        pki("kubelet-certificate-authority", "ca.crt"),
        "--kubelet-preferred-address-types=InternalIP".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        pki("service-account-key-file", "sa.pub"),
        pki("service-account-signing-key-file", "sa.key"),
        pki("requestheader-client-ca-file", "front.crt"),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        pki("proxy-client-cert-file", "front-client.crt"),
        pki("proxy-client-key-file", "front-client.key"),
    ];
    args.extend([
        format!("--cert-dir={}", home.text("pki/apiserver")),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--allow-privileged=true".into(),
        format!("--audit-policy-file={}", home.text("conf/audit.yaml")),
        format!("--audit-log-path={}", home.text("audit/audit.log")),
        // Never moved aside, or whoever follows it would lose what comes after; in megabytes.
        "--audit-log-maxsize=1000000".into(),
    ]);
    args
}

fn controller_manager(home: &Home, addresses: &Addresses) -> Vec<String> {
    let pki = |flag: &str, file: &str| format!("--{flag}={}", home.text(&format!("pki/{file}")));
    let mut args = with_kubeconfig(home, "kcm", &["--leader-elect=false", "--bind-address=127.0.0.1"]);
    args.extend([
        format!("--cluster-cidr={}", addresses.pods()),
        "--allocate-node-cidrs=true".into(),
        format!("--service-cluster-ip-range={}", addresses.services()),
        pki("root-ca-file", "ca.crt"),
        pki("service-account-private-key-file", "sa.key"),
        pki("cluster-signing-cert-file", "ca.crt"),
        pki("cluster-signing-key-file", "ca.key"),
        "--use-service-account-credentials=true".into(),
        // It makes an account per controller before it starts any: at its usual rate that takes five seconds.
        "--kube-api-qps=500".into(),
        "--kube-api-burst=500".into(),
    ]);
    args
}

fn with_kubeconfig(home: &Home, user: &str, more: &[&str]) -> Vec<String> {
    let path = home.text(&format!("conf/{user}.kubeconfig"));
    let flags = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"];
    let mut args: Vec<_> = flags.iter().map(|flag| format!("--{flag}={path}")).collect();
    args.push(format!("--cert-dir={}", home.text(&format!("pki/{user}"))));
    args.extend(more.iter().map(ToString::to_string));
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::gobuild;

    #[test]
    fn every_component_is_a_program_the_lab_builds() {
        let home = Home::new("test").unwrap();
        for name in NAMES {
            assert!(gobuild::program(name).is_some(), "{name} is not built");
            assert!(!component(name, &home, &Addresses::new(1)).unwrap().args.is_empty());
        }
        assert_eq!(component("docker", &home, &Addresses::new(1)), None);
    }
}
