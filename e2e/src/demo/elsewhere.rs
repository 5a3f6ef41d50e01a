//! The demo on a cluster that is there already.

use std::path::PathBuf;

use futures::future::BoxFuture;
use petri_crds::EnvironmentTemplate;

use super::{TEMPLATE, example, heading, lives};
use crate::cluster::Cluster;
use crate::lab::{self, Progress, image};
use crate::petri::{Error, MANAGEMENT, Petri};

/// Which cluster, and where its nodes find the images.
pub struct Elsewhere {
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// One of its contexts; its current one when absent.
    pub context: Option<String>,
    /// The registry that the images were pushed to, with its path; none when the nodes were given them.
    pub registry: Option<String>,
    /// Leaves Petri installed.
    pub keep: bool,
}

/// Installs Petri there, lives the lives of the demo, and removes Petri again.
///
/// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
pub fn run_elsewhere(elsewhere: Elsewhere) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        let Elsewhere { kubeconfig, context, registry, keep } = elsewhere;
        let progress = Progress::new();
        let cluster = Cluster::new(kubeconfig, context).await?;
        let version = cluster.client().apiserver_version().await?;
        for name in ["kubectl", "helm"] {
            lab::provide(name, &progress).await?;
        }
        let images = image::build(&progress).await?;
        let archive = image::archive(&images).await?;
        progress.clear();
        println!("Kubernetes {} answers.", version.git_version);
        tell_images(&images, &archive.display().to_string(), registry.as_deref());
        let petri = Petri { lab: &cluster };
        let told = tell(&petri, registry.as_deref()).await;
        if let Err(error) = &told {
            let log = petri.operator_log().await.unwrap_or_default();
            eprintln!("{error}\nthe operator said last:{log}");
            eprintln!("An image that cannot be pulled is the usual cause: see above which the nodes need.");
        }
        if keep {
            println!("\nPetri stays installed in namespace {MANAGEMENT}.");
            return told;
        }
        let removed = petri.uninstall().await;
        told?;
        removed?;
        println!("Petri is removed.");
        Ok(())
    })
}

/// Says which images the nodes must be able to run, and how they get them.
fn tell_images(images: &[image::Image], archive: &str, registry: Option<&str>) {
    heading("0. Images");
    for image in images {
        match registry {
            None => println!("{}", image.name),
            Some(registry) => println!("{} as {}", image.name, moved(image.name, registry)),
        }
    }
    match registry {
        None => println!(
            "The nodes must have these. They are in the OCI archive\n  {archive}\n\
             which `kind load image-archive`, `k3d image import` and `ctr -n k8s.io images import` take.\n\
             For nodes that only pull: push them to a registry and say --registry HOST/PATH."
        ),
        Some(_) => println!(
            "They must have been pushed there from the OCI archive\n  {archive}\n\
             for example by `skopeo copy oci-archive:ARCHIVE:NAME docker://NEW-NAME`."
        ),
    }
}

/// The name of an image in another registry.
fn moved(name: &str, registry: &str) -> String {
    let short = name.rsplit_once('/').map_or(name, |(_, short)| short);
    format!("{}/{short}", registry.trim_end_matches('/'))
}

async fn tell(petri: &Petri<'_, Cluster>, registry: Option<&str>) -> Result<(), Error> {
    let repositories = registry.map(|registry| {
        let registry = registry.trim_end_matches('/');
        [
            ("image.repository", format!("{registry}/operator")),
            ("deployer.image.repository", format!("{registry}/deployer")),
        ]
    });
    let values: Vec<(&str, &str)> =
        repositories.iter().flatten().map(|(key, value)| (*key, value.as_str())).collect();
    petri.helm_upgrade(&values).await?;
    heading("1. One template, two environments of it");
    petri.apply_object(&petri.templates(), &template(registry)?).await?;
    println!("applied e2e/examples/{TEMPLATE}");
    lives(petri).await
}

/// The example's template, with the images of its charts from the registry.
fn template(registry: Option<&str>) -> Result<EnvironmentTemplate, Error> {
    let path = example(TEMPLATE);
    let text = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
    let mut template: EnvironmentTemplate =
        serde_saphyr::from_str(&text).map_err(|error| Error::Wrong(error.to_string()))?;
    if let Some(registry) = registry {
        for component in &mut template.spec.components {
            let image = if component.name == "postgres" { image::POSTGRES } else { image::WORKLOAD };
            let repository = moved(image, registry);
            let repository = repository.rsplit_once(':').map_or(repository.as_str(), |(name, _)| name);
            if let Some(helm) = &mut component.helm {
                helm.values.insert("image.repository".to_owned(), repository.to_owned());
            }
        }
    }
    Ok(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_replaces_what_stands_before_the_name_in_images_and_charts() {
        assert_eq!(
            moved(image::OPERATOR, "registry.example.com/team/"),
            "registry.example.com/team/operator:dev"
        );
        let template = template(Some("registry.example.com/team")).unwrap();
        let repository = |at: usize| {
            let helm = template.spec.components[at].helm.as_ref().unwrap();
            helm.values["image.repository"].clone()
        };
        assert_eq!(repository(0), "registry.example.com/team/postgres");
        assert_eq!(repository(1), "registry.example.com/team/workload");
    }
}
