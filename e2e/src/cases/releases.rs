//! What helm and others can leave of a release: the deployer goes on from each state, forward and back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::{Value, json};

use crate::outside::{self, Operation, Outside, Ran};
use crate::petri::{Error, Petri, checkout};
use crate::proxy::Side;

const NAMESPACE: &str = "releases";
const CHART: &str = "tiny";
const DEADLINE: Duration = Duration::from_secs(120);
/// Helm makes its record of a revision, in a form that shows no name, before anything else.
const RECORDED: &str = "POST secrets";
/// More than fits into a Secret, and nothing that could be compressed.
const TOO_MUCH: usize = 2 << 20;

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    outside::namespace(petri.lab, NAMESPACE).await?;
    let told = all(petri).await;
    outside::remove(petri.lab, NAMESPACE).await?;
    told
}

async fn all(petri: &Petri<'_>) -> Result<String, Error> {
    let mut releases = Vec::new();
    for name in [
        "first-failed",
        "pending-install",
        "pending-upgrade",
        "pending-rollback",
        "uninstalling",
        "lost",
        "taken",
        "too-large",
        "helm-three",
    ] {
        releases.push(Release { petri, name, line: Outside::start(petri.lab, NAMESPACE, name).await? });
    }
    let told = try_join_all(releases.iter().map(Release::lives)).await?;
    Ok(told.join("\n"))
}

/// One release on its way through a state.
struct Release<'a> {
    petri: &'a Petri<'a>,
    name: &'static str,
    line: Outside,
}

impl Release<'_> {
    async fn lives(&self) -> Result<String, Error> {
        let told = match self.name {
            "first-failed" => self.first_failed().await,
            "pending-install" => self.pending_install().await,
            "pending-upgrade" => self.pending_upgrade().await,
            "pending-rollback" => self.pending_rollback().await,
            "uninstalling" => self.uninstalling().await,
            "lost" => self.lost().await,
            "taken" => self.taken().await,
            "helm-three" => self.helm_three().await,
            _ => self.too_large().await,
        };
        let told = told.map_err(|error| Error::Wrong(format!("{}: {error}", self.name)))?;
        Ok(format!("{:17} {told}", self.name))
    }

    async fn act(
        &self,
        operation: Operation,
        values: Value,
        trap: Option<(&str, Side)>,
    ) -> Result<Ran, Error> {
        self.line.run(operation, self.name, CHART, &values, DEADLINE, trap).await
    }

    async fn deploy(&self, values: Value) -> Result<(), Error> {
        succeed(self.act(Operation::Deploy, values, None).await?)
    }

    /// Deploys and is killed there.
    async fn killed(&self, values: Value, what: &str) -> Result<(), Error> {
        self.dead(Operation::Deploy, values, what).await
    }

    async fn dead(&self, operation: Operation, values: Value, what: &str) -> Result<(), Error> {
        let ran = self.act(operation, values, Some((what, Side::After))).await?;
        let armed = self.line.trap.disarm();
        if armed || !ran.report.is_null() {
            return Err(Error::Wrong(format!("was not killed at {what}: {}\n{}", ran.report, ran.log)));
        }
        Ok(())
    }

    async fn status(&self) -> Result<String, Error> {
        let records = outside::records(self.petri.lab, NAMESPACE, self.name).await?;
        Ok(records.last().map(|(_, status)| status.clone()).unwrap_or_default())
    }

    async fn is(&self, status: &str) -> Result<(), Error> {
        let found = self.status().await?;
        if found == status { Ok(()) } else { Err(Error::Wrong(format!("{found:?} instead of {status}"))) }
    }

    /// Deploys once more, then removes; says from where.
    async fn ends(&self) -> Result<String, Error> {
        let from = self.status().await?;
        self.deploy(values(9)).await?;
        self.is("deployed").await?;
        let config_maps: Api<ConfigMap> = Api::namespaced(self.petri.lab.client(), NAMESPACE);
        config_maps.get(self.name).await?;
        self.removed().await?;
        Ok(format!("from {from:?} to deployed to gone"))
    }

    async fn removed(&self) -> Result<(), Error> {
        succeed(self.act(Operation::Undeploy, json!({}), None).await?)?;
        self.is("").await?;
        let config_maps: Api<ConfigMap> = Api::namespaced(self.petri.lab.client(), NAMESPACE);
        match config_maps.get_opt(self.name).await? {
            None => Ok(()),
            Some(_) => Err(Error::Wrong("an object is left".to_owned())),
        }
    }

    async fn first_failed(&self) -> Result<String, Error> {
        // A ClusterRole, which a namespace's admin may not even look for: helm ends before it records anything.
        let ran = self.act(Operation::Deploy, json!({"workload": false, "beyond": true}), None).await?;
        if ran.report["reason"] != "Forbidden" {
            return Err(Error::Wrong(format!("{}\n{}", ran.report, ran.log)));
        }
        self.is("").await?;
        // What only the API server finds to be wrong fails after helm's record was made.
        let wrong = json!({"workload": true, "image": {"pullPolicy": "Wrong"}});
        let ran = self.act(Operation::Deploy, wrong, None).await?;
        if ran.succeeded() {
            return Err(Error::Wrong(format!("a Deployment that is none was taken: {}", ran.report)));
        }
        self.is("failed").await?;
        self.ends().await
    }

    async fn pending_install(&self) -> Result<String, Error> {
        self.killed(values(1), RECORDED).await?;
        self.is("pending-install").await?;
        self.ends().await
    }

    async fn pending_upgrade(&self) -> Result<String, Error> {
        self.deploy(values(1)).await?;
        self.killed(values(2), RECORDED).await?;
        self.is("pending-upgrade").await?;
        self.ends().await
    }

    async fn pending_rollback(&self) -> Result<String, Error> {
        self.deploy(values(1)).await?;
        self.killed(values(2), RECORDED).await?;
        self.killed(values(3), RECORDED).await?;
        self.is("pending-rollback").await?;
        self.ends().await
    }

    async fn uninstalling(&self) -> Result<String, Error> {
        self.deploy(values(1)).await?;
        self.dead(Operation::Undeploy, json!({}), &format!("DELETE configmaps/{}", self.name)).await?;
        self.is("uninstalling").await?;
        let told = self.ends().await?;
        self.deploy(values(1)).await?;
        self.dead(Operation::Undeploy, json!({}), &format!("DELETE configmaps/{}", self.name)).await?;
        self.removed().await?;
        Ok(format!("{told}, and from there to gone"))
    }

    /// Somebody deleted helm's records: the objects are taken over by their labels.
    async fn lost(&self) -> Result<String, Error> {
        self.deploy(values(1)).await?;
        let secrets: Api<Secret> = Api::namespaced(self.petri.lab.client(), NAMESPACE);
        let own = ListParams::default().labels(&format!("owner=helm,name={}", self.name));
        secrets.delete_collection(&DeleteParams::default(), &own).await?;
        self.is("").await?;
        self.ends().await
    }

    /// Somebody else scaled the workload, by an apply of his own and by the scale of a Deployment: what the chart says
    /// holds again.
    async fn taken(&self) -> Result<String, Error> {
        self.deploy(json!({"workload": true})).await?;
        let deployments: Api<Deployment> = Api::namespaced(self.petri.lab.client(), NAMESPACE);
        let scaled =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0, "paused": true}});
        let other = PatchParams::apply("somebody-else").force();
        deployments.patch(self.name, &other, &Patch::Apply(&scaled)).await?;
        let image = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "tiny", "image": "docker.io/petri/other:dev"},
        ]}}}});
        let kubectl =
            PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
        deployments.patch(self.name, &kubectl, &Patch::Strategic(&image)).await?;
        self.deploy(json!({"workload": true, "again": 1})).await?;
        let pod = deployments.get(self.name).await?.spec.and_then(|spec| spec.template.spec);
        let image = pod.and_then(|pod| pod.containers.first()?.image.clone());
        if image.as_deref() != Some("docker.io/petri/workload:dev") {
            return Err(Error::Wrong(format!("the image is still {image:?}")));
        }
        self.removed().await?;
        Ok("what somebody else applied is the chart's again".to_owned())
    }

    /// HELM-10: helm 3 made it, with updates where helm 4 applies; `e2e/fixtures/helm3` is what it left.
    async fn helm_three(&self) -> Result<String, Error> {
        let path = checkout().join("e2e/fixtures/helm3/release.json");
        let text = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        let all: Vec<DynamicObject> =
            serde_json::from_str(&text).map_err(|error| Error::Wrong(error.to_string()))?;
        for object in all {
            let types = object.types.clone().unwrap_or_default();
            let kind = GroupVersionKind::try_from(&types).map_err(|error| Error::Wrong(error.to_string()))?;
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.petri.lab.client(), NAMESPACE, &ApiResource::from_gvk(&kind));
            let by_helm = PostParams { field_manager: Some("helm".to_owned()), ..PostParams::default() };
            api.create(&by_helm, &object).await?;
        }
        self.is("deployed").await?;
        // Who owns a field is asked only when its value changes.
        self.deploy(json!({"workload": true, "image": {"tag": "other"}})).await?;
        let deployments: Api<Deployment> = Api::namespaced(self.petri.lab.client(), NAMESPACE);
        let pod = deployments.get(self.name).await?.spec.and_then(|spec| spec.template.spec);
        let image = pod.and_then(|pod| pod.containers.first()?.image.clone());
        if image.as_deref() != Some("docker.io/petri/workload:other") {
            return Err(Error::Wrong(format!("the image is still {image:?}")));
        }
        Ok(format!("made by helm 3, {}", self.ends().await?))
    }

    /// A chart of more than a Secret holds says so at once.
    async fn too_large(&self) -> Result<String, Error> {
        let folder = Folder(std::env::temp_dir().join(format!("petri-too-large-{}", std::process::id())));
        large_chart(&folder.0).await?;
        let chart = folder.0.display().to_string();
        let ran = self.line.run(Operation::Deploy, self.name, &chart, &json!({}), DEADLINE, None).await?;
        if ran.report["reason"] != "ReleaseTooLarge" {
            return Err(Error::Wrong(format!("{}\n{}", ran.report, ran.log)));
        }
        Ok(ran.report["message"].as_str().unwrap_or_default().to_owned())
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn large_chart(folder: &Path) -> Result<(), Error> {
    let file = |source| Error::File { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder.join("templates")).map_err(file)?;
    std::fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: large\nversion: 0.1.0\n")
        .map_err(file)?;
    let random = tokio::fs::File::open("/dev/urandom").await.map_err(file)?;
    let mut bytes = Vec::new();
    let mut some = tokio::io::AsyncReadExt::take(random, TOO_MUCH as u64);
    tokio::io::AsyncReadExt::read_to_end(&mut some, &mut bytes).await.map_err(file)?;
    std::fs::write(folder.join("blob"), bytes).map_err(file)
}

fn values(number: u32) -> Value {
    json!({"workload": false, "number": number})
}

fn succeed(ran: Ran) -> Result<(), Error> {
    if ran.succeeded() { Ok(()) } else { Err(Error::Wrong(format!("{}\n{}", ran.report, ran.log))) }
}
