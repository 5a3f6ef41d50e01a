//! Certificates of one cluster: two authorities, the serving and client certificates, the key that signs
//! ServiceAccount tokens.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::LabError;
use super::network::Addresses;

/// Who connects to the API server: file name, user name, group.
pub const USERS: [(&str, &str, Option<&str>); 7] = [
    ("admin", "admin", Some("system:masters")),
    ("kubelet-client", "apiserver-kubelet-client", Some("system:masters")),
    ("kcm", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("proxy", "system:kube-proxy", None),
    ("coredns", "lab:coredns", Some("system:masters")),
    ("node", "system:node:", Some("system:nodes")),
];

/// The API server's certificate for a test that renews it.
const NEXT: &str = "apiserver-next";

/// Puts another certificate of the same authority where the API server has its own.
///
/// # Errors
/// The files; it can be done once.
pub fn renew(folder: &Path) -> Result<(), LabError> {
    for end in ["key", "crt"] {
        fs::rename(folder.join(format!("{NEXT}.{end}")), folder.join(format!("apiserver.{end}")))?;
    }
    Ok(())
}

/// Writes every certificate and key of the cluster `name` into `folder`, as `NAME.crt` and `NAME.key`.
pub fn write(folder: &Path, name: &str, addresses: &Addresses) -> Result<(), LabError> {
    fs::create_dir_all(folder)?;
    let ca = authority(folder, "ca")?;
    let front = authority(folder, "front")?;
    let mut names = vec![addresses.node(), addresses.service(1), "127.0.0.1".into(), "localhost".into()];
    names.extend(
        ["", ".default", ".default.svc", ".default.svc.cluster.local"]
            .map(|rest| format!("kubernetes{rest}")),
    );
    for file in ["apiserver", NEXT] {
        leaf(folder, file, &ca, &Subject { user: "kube-apiserver", group: None, names: names.clone() })?;
    }
    let names = vec![addresses.node(), name.to_string()];
    leaf(folder, "node-serving", &ca, &Subject { user: name, group: None, names })?;
    leaf(
        folder,
        "front-client",
        &front,
        &Subject { user: "front-proxy-client", group: None, names: vec![] },
    )?;
    for (file, user, group) in USERS {
        let user = if file == "node" { format!("{user}{name}") } else { user.to_string() };
        leaf(folder, file, &ca, &Subject { user: &user, group, names: vec![] })?;
    }
    let tokens = KeyPair::generate()?;
    write_private(&folder.join("sa.key"), &tokens.serialize_pem())?;
    fs::write(folder.join("sa.pub"), tokens.public_key_pem())?;
    Ok(())
}

/// Writes an authority and a certificate of it for a server of these names into `folder`: `ca` and `server`, `.crt` and
/// `.key` each.
pub fn for_server(folder: &Path, names: &[&str]) -> Result<(), LabError> {
    fs::create_dir_all(folder)?;
    let ca = authority(folder, "ca")?;
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    leaf(folder, "server", &ca, &Subject { user: "server", group: None, names })
}

/// What a certificate says; with `names` it is for serving, without for a client.
struct Subject<'a> {
    user: &'a str,
    group: Option<&'a str>,
    names: Vec<String>,
}

fn authority(folder: &Path, name: &str) -> Result<Issuer<'static, KeyPair>, LabError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    fs::write(folder.join(format!("{name}.crt")), params.self_signed(&key)?.pem())?;
    write_private(&folder.join(format!("{name}.key")), &key.serialize_pem())?;
    Ok(Issuer::new(params, key))
}

fn leaf(
    folder: &Path,
    file: &str,
    issuer: &Issuer<'_, KeyPair>,
    subject: &Subject<'_>,
) -> Result<(), LabError> {
    let mut params = CertificateParams::new(subject.names.clone())?;
    params.distinguished_name.remove(DnType::CommonName);
    if let Some(group) = subject.group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.distinguished_name.push(DnType::CommonName, subject.user);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let usage = if subject.names.is_empty() {
        ExtendedKeyUsagePurpose::ClientAuth
    } else {
        ExtendedKeyUsagePurpose::ServerAuth
    };
    params.insert_extended_key_usage(usage);
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    fs::write(folder.join(format!("{file}.crt")), params.signed_by(&key, issuer)?.pem())?;
    write_private(&folder.join(format!("{file}.key")), &key.serialize_pem())
}

fn write_private(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(0o600))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_and_server_has_a_certificate_and_a_private_key_of_its_own() {
        let folder = std::env::temp_dir().join(format!("petri-certs-{}", std::process::id()));
        write(&folder, "one", &Addresses::new(7)).unwrap();
        let mut keys = std::collections::BTreeSet::new();
        let servers = ["ca", "front", "apiserver", NEXT, "node-serving", "front-client"];
        for name in USERS.map(|(name, ..)| name).iter().chain(&servers) {
            let certificate = fs::read_to_string(folder.join(format!("{name}.crt"))).unwrap();
            assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"), "{name}");
            let path = folder.join(format!("{name}.key"));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
            assert!(keys.insert(fs::read_to_string(path).unwrap()), "{name} shares its key");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
