//! Names that the adapter derives from custom resources.

use super::furniture::target;
use crate::deployer::payload::{ComponentPayload, HelmSource, Payload};
use petri_crds::{EnvironmentTemplateSpec, Ingress};
use petri_machines::names::{ComponentName, EnvironmentName, NamespaceName, ReleaseName, Uid};

/// Gives the payload of an undeploy Job: it needs the release's name and no template.
pub fn undeploy_payload(
    owner: &Uid,
    release: &ReleaseName,
    namespace: &NamespaceName,
    component: &ComponentName,
    serial: u64,
) -> Payload {
    Payload {
        owner_uid: owner.to_string(),
        namespace: namespace.to_string(),
        release_name: release.to_string(),
        serial,
        component: ComponentPayload {
            name: component.to_string(),
            helm: HelmSource::default(),
            values: serde_json::Map::new(),
        },
    }
}

/// Gives the host of an environment: one label under the template's domain. The label fits, since an environment whose
/// name is longer than a release's, or holds a dot, has no valid plan.
pub fn host(environment: &EnvironmentName, ingress: &Ingress) -> Option<String> {
    Some(format!("{environment}.{}", ingress.domain)).filter(|_| !ingress.domain.is_empty())
}

/// Gives the address of an environment; `None` when nothing says which component gets the requests.
pub fn url(environment: &EnvironmentName, template: &EnvironmentTemplateSpec) -> Option<String> {
    let ingress = template.ingress.as_ref().filter(|_| target(template).is_some())?;
    let scheme = if ingress.tls_secret_name.is_empty() { "http" } else { "https" };
    host(environment, ingress).map(|host| format!("{scheme}://{host}"))
}
