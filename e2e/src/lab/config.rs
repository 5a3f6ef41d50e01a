//! Configuration files of the cluster's components.

use std::fs;

use serde_json::{Value, json};

use super::certs::USERS;
use super::home::Home;
use super::network::Addresses;
use super::{LabError, image};

/// Writes every configuration file below the lab's folder; the certificates must be there.
pub fn write(home: &Home, addresses: &Addresses) -> Result<(), LabError> {
    for folder in ["conf/registries/_default", "cni/net.d", "log", "pods", "audit"] {
        fs::create_dir_all(home.at(folder))?;
    }
    for (user, ..) in USERS {
        fs::write(
            home.at(&format!("conf/{user}.kubeconfig")),
            kubeconfig(home, addresses, user).to_string(),
        )?;
    }
    fs::write(home.at("conf/audit.yaml"), audit_policy().to_string())?;
    fs::write(home.at("cni/net.d/10-bridge.conflist"), cni(home, addresses).to_string())?;
    fs::write(home.at("conf/containerd.toml"), containerd(home))?;
    fs::write(home.at("conf/registries/_default/hosts.toml"), "server = \"http://127.0.0.1:1\"\n")?;
    fs::write(home.at("conf/resolv.conf"), format!("nameserver {}\n", addresses.dns()))?;
    fs::write(home.at("conf/kubelet.yaml"), kubelet(home, addresses).to_string())?;
    fs::write(home.at("conf/proxy.yaml"), proxy(home, addresses).to_string())?;
    fs::write(home.at("conf/Corefile"), corefile(home, addresses))?;
    Ok(())
}

// JSON is YAML, so kubectl and every component read these as they are.
fn kubeconfig(home: &Home, addresses: &Addresses, user: &str) -> Value {
    let cluster = json!({ "server": addresses.server(), "certificate-authority": home.at("pki/ca.crt") });
    let user = json!({
        "client-certificate": home.at(&format!("pki/{user}.crt")),
        "client-key": home.at(&format!("pki/{user}.key")),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "lab", "cluster": cluster }],
        "users": [{ "name": "lab", "user": user }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
        "current-context": "lab",
    })
}

/// Every request with its user and time. Bodies only where a fault test reads them: the preconditions of a
/// service account's deletes, and both sides of its status writes, which tell a write that changed nothing.
fn audit_policy() -> Value {
    let accounts = json!(["system:serviceaccounts"]);
    let petri = json!([{ "group": "core.petri.run", "resources": ["*/status"] }]);
    // When a container ended, a Job was complete and a workload available, for the figures of reaction.
    let workload = json!([
        { "group": "", "resources": ["pods/status"] },
        { "group": "batch", "resources": ["jobs", "jobs/status"] },
        { "group": "apps", "resources": ["deployments/status"] },
    ]);
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            { "level": "RequestResponse", "verbs": ["update", "patch"], "userGroups": accounts, "resources": petri },
            { "level": "Request", "verbs": ["delete"], "userGroups": accounts },
            { "level": "Request", "verbs": ["create", "update", "patch"], "resources": workload },
            { "level": "Metadata" },
        ],
    })
}

fn cni(home: &Home, addresses: &Addresses) -> Value {
    let ipam = json!({
        "type": "host-local",
        "dataDir": home.at("cni/data"),
        "ranges": [[{ "subnet": addresses.node_pods() }]],
        "routes": [{ "dst": "0.0.0.0/0" }],
    });
    let bridge = json!({
        "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": ipam,
    });
    let portmap = json!({ "type": "portmap", "capabilities": { "portMappings": true } });
    json!({ "cniVersion": "1.0.0", "name": home.outside_name(), "plugins": [bridge, portmap] })
}

/// Without `restrict_oom_score_adj` runc dies with "can't get final child's PID from pipe" where the
/// machine lacks the capability to lower an OOM score. The pods' network namespaces lie below the state
/// folder, so that they end with the lab and with no other. There is no registry to be reached: a pull is
/// sent to a closed port and fails at once, where a name that cannot be looked up would hang for a minute.
/// The Node Resource Interface listens at one path of the whole machine: of two labs that start at once,
/// the one that comes second would die of "address already in use". Nothing here has a use for it.
fn containerd(home: &Home) -> String {
    let root = home.root().display();
    let pause = image::PAUSE;
    format!(
        "version = 3\n\
         root = \"{root}/containerd/root\"\n\
         state = \"{root}/containerd/state\"\n\
         [grpc]\n\
         address = \"{root}/containerd.sock\"\n\
         [plugins.'io.containerd.nri.v1.nri']\n\
         disable = true\n\
         [plugins.'io.containerd.cri.v1.images'.pinned_images]\n\
         sandbox = \"{pause}\"\n\
         [plugins.'io.containerd.cri.v1.images'.registry]\n\
         config_path = \"{root}/conf/registries\"\n\
         [plugins.'io.containerd.cri.v1.runtime']\n\
         restrict_oom_score_adj = true\n\
         netns_mounts_under_state_dir = true\n\
         [plugins.'io.containerd.cri.v1.runtime'.cni]\n\
         bin_dirs = [\"/usr/lib/cni\"]\n\
         conf_dir = \"{root}/cni/net.d\"\n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n\
         runtime_type = \"io.containerd.runc.v2\"\n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n\
         SystemdCgroup = false\n\
         Root = \"{root}/runc\"\n"
    )
}

fn kubelet(home: &Home, addresses: &Addresses) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        // Its own, or two labs clean up each other's pods.
        "cgroupRoot": format!("/{}", home.outside_name()),
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "containerRuntimeEndpoint": format!("unix://{}", home.text("containerd.sock")),
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": home.at("pki/ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": home.at("pki/node-serving.crt"),
        "tlsPrivateKeyFile": home.at("pki/node-serving.key"),
        "clusterDNS": [addresses.dns()],
        "clusterDomain": "cluster.local",
        "resolvConf": home.at("conf/resolv.conf"),
        "podLogsDir": home.at("pods"),
        "volumePluginDir": home.at("kubelet/volumeplugins"),
        "evictionHard": { "memory.available": "100Mi" },
        "imageGCHighThresholdPercent": 100,
        // An image that was loaded is used, even if a pull of it was tried before.
        "imagePullCredentialsVerificationPolicy": "NeverVerify",
        "serializeImagePulls": false,
        "maxPods": 250,
    })
}

fn proxy(home: &Home, addresses: &Addresses) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": { "kubeconfig": home.at("conf/proxy.kubeconfig") },
        "clusterCIDR": addresses.pods(),
        "hostnameOverride": home.name(),
        // The limit is the machine's, not the namespace's: leave it alone.
        "conntrack": { "maxPerCore": 0 },
    })
}

fn corefile(home: &Home, addresses: &Addresses) -> String {
    format!(
        ".:53 {{\n  bind {}\n  errors\n  kubernetes cluster.local in-addr.arpa {{\n    kubeconfig {}\n    \
         pods insecure\n  }}\n  cache 5\n}}\n",
        addresses.dns(),
        home.text("conf/coredns.kubeconfig"),
    )
}
