//! The management namespace as the API server sees it: objects of one owner, and the one way in which they are written.
//!
//! A write is a compare-and-swap on the object as it was read (`resourceVersion`), not a server-side apply: an apply
//! removes what its manager no longer names, while here an absent field keeps its value. The operator writes the status
//! all the time, which moves the resourceVersion too; so a refused write is tried again while the *specification* is
//! still as it was read (same UID, generation and annotations), and is a conflict for the client otherwise.

use crate::{
    apiserver::{error::ApiError, identity::Principal, query::Page},
    client::{CALL_MAX, timed},
    error::CallError,
    telemetry::trace,
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, ObjectList, PostParams, Preconditions},
};
use petri_crds::{
    EnvironmentTemplate, EphemeralEnvironment,
    meta::{ANNOTATION_REPOSITORY, ANNOTATION_TRACEPARENT, LABEL_OWNER},
};
use serde_json::{Value, json};

/// How often a write is tried again because the operator wrote a status in between.
const ATTEMPTS_MAX: usize = 8;
/// Events of one environment that are shown.
const EVENTS_MAX: u32 = 500;

/// The objects that requests are about.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
    environments: Api<DynamicObject>,
    templates: Api<EnvironmentTemplate>,
    events: Api<Event>,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It did not exist.
    Created,
    /// It exists and is different now.
    Updated,
    /// It was so already.
    Unchanged,
}

impl Cluster {
    /// Looks at one namespace only.
    pub fn new(client: Client, namespace: &str) -> Self {
        let kind = ApiResource::erase::<EphemeralEnvironment>(&());
        Self {
            environments: Api::namespaced_with(client.clone(), namespace, &kind),
            templates: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client.clone(), namespace),
            namespace: namespace.to_owned(),
            client,
        }
    }

    /// Asks for one environment and one template, to know whether requests could be served.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn probe(&self) -> Result<(), CallError> {
        let one = ListParams::default().limit(1);
        call("list ephemeralenvironments", self.environments.list(&one)).await?;
        call("list environmenttemplates", self.templates.list(&one)).await.map(drop)
    }

    /// Lists a page of the environments that somebody may see.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn list(
        &self,
        principal: &Principal,
        page: &Page,
    ) -> Result<ObjectList<DynamicObject>, ApiError> {
        let params = params(page);
        let params = if principal.is_admin() {
            params
        } else {
            params.labels(&format!("{LABEL_OWNER}={}", principal.owner()))
        };
        Ok(call("list ephemeralenvironments", self.environments.list(&params)).await?)
    }

    /// Lists a page of the templates.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn templates(&self, page: &Page) -> Result<ObjectList<EnvironmentTemplate>, ApiError> {
        Ok(call("list environmenttemplates", self.templates.list(&params(page))).await?)
    }

    /// Reads an environment that somebody may see.
    ///
    /// # Errors
    /// There is none, or it is somebody else's: the two look alike.
    pub async fn get(&self, principal: &Principal, name: &str) -> Result<DynamicObject, ApiError> {
        let found = call("get ephemeralenvironments", self.environments.get_opt(name)).await?;
        found.filter(|object| may_see(principal, object)).ok_or_else(ApiError::no_environment)
    }

    /// Returns a typed view of the environments, for a watch.
    pub fn watched(&self) -> Api<EphemeralEnvironment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Asks for the deletion of an environment; again while it is on its way is as good.
    ///
    /// # Errors
    /// There is none that this identity may see, or another took its place meanwhile.
    pub async fn delete(&self, principal: &Principal, name: &str) -> Result<(), ApiError> {
        let found = self.get(principal, name).await?;
        if found.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let only_this = Preconditions { uid: found.metadata.uid, resource_version: None };
        let params = DeleteParams::default().preconditions(only_this);
        call("delete ephemeralenvironments", self.environments.delete(name, &params)).await?;
        Ok(())
    }

    /// Lists what was said about an environment.
    ///
    /// # Errors
    /// There is none that this identity may see.
    pub async fn events(&self, principal: &Principal, name: &str) -> Result<Vec<Event>, ApiError> {
        let found = self.get(principal, name).await?;
        let uid = found.metadata.uid.unwrap_or_default();
        let about = ListParams::default().fields(&format!("involvedObject.uid={uid}")).limit(EVENTS_MAX);
        Ok(call("list events", self.events.list(&about)).await?.items)
    }

    /// Creates an environment, or changes the one that is there.
    ///
    /// # Errors
    /// It is somebody else's, on its way out, or was changed or created at the same time.
    pub async fn upsert(
        &self,
        principal: &Principal,
        name: &str,
        parent: Option<&str>,
        change: impl Fn(&mut Value) -> Result<(), ApiError>,
    ) -> Result<(Written, DynamicObject), ApiError> {
        // The trace of the request becomes the parent of the rollout's, if there is a rollout; an earlier one's never is.
        let change = |object: &mut Value| {
            let before = object.get("spec").cloned();
            change(object)?;
            if object.get("spec") == before.as_ref() {
                return Ok(());
            }
            match parent {
                Some(parent) => annotate(object, ANNOTATION_TRACEPARENT, parent),
                None => {
                    let annotations = object.pointer_mut("/metadata/annotations");
                    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
                        annotations.remove(ANNOTATION_TRACEPARENT);
                    }
                    Ok(())
                }
            }
        };
        match call("get ephemeralenvironments", self.environments.get_opt(name)).await? {
            Some(found) if !may_see(principal, &found) => Err(ApiError::name_taken()),
            Some(found) => self.change(name, found, change).await,
            None => self.create(principal, name, change).await.map(|made| (Written::Created, made)),
        }
    }

    /// Changes an environment that is there.
    ///
    /// # Errors
    /// There is none that this identity may see, or it was changed at the same time.
    pub async fn amend(
        &self,
        principal: &Principal,
        name: &str,
        change: impl Fn(&mut Value) -> Result<(), ApiError>,
    ) -> Result<(Written, DynamicObject), ApiError> {
        let found = self.get(principal, name).await?;
        self.change(name, found, change).await
    }

    async fn create(
        &self,
        principal: &Principal,
        name: &str,
        change: impl Fn(&mut Value) -> Result<(), ApiError>,
    ) -> Result<DynamicObject, ApiError> {
        let mut annotations = json!({});
        if let Some(repository) = principal.repository() {
            annotations[ANNOTATION_REPOSITORY] = repository.into();
        }
        let mut object = json!({
            "apiVersion": format!("{}/{}", petri_crds::GROUP, petri_crds::VERSION),
            "kind": "EphemeralEnvironment",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": annotations,
                "labels": {LABEL_OWNER: principal.owner()}},
            "spec": {},
        });
        change(&mut object)?;
        if object.pointer("/spec/template").is_none() {
            return Err(ApiError::invalid("template: is needed for a new environment"));
        }
        let object = serde_json::from_value(object).map_err(|_| ApiError::internal())?;
        Ok(call("create ephemeralenvironments", self.environments.create(&PostParams::default(), &object))
            .await?)
    }

    async fn change(
        &self,
        name: &str,
        first: DynamicObject,
        change: impl Fn(&mut Value) -> Result<(), ApiError>,
    ) -> Result<(Written, DynamicObject), ApiError> {
        let asked_about = fingerprint(&first);
        let mut found = first;
        for _ in 0..ATTEMPTS_MAX {
            if found.metadata.deletion_timestamp.is_some() {
                return Err(ApiError::terminating());
            }
            let before = serde_json::to_value(&found).map_err(|_| ApiError::internal())?;
            let mut after = before.clone();
            change(&mut after)?;
            if after == before {
                return Ok((Written::Unchanged, found));
            }
            let wanted: DynamicObject = serde_json::from_value(after).map_err(|_| ApiError::internal())?;
            let params = PostParams::default();
            match call("update ephemeralenvironments", self.environments.replace(name, &params, &wanted))
                .await
            {
                Ok(stored) => return Ok((Written::Updated, stored)),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
            found = call("get ephemeralenvironments", self.environments.get_opt(name))
                .await?
                .ok_or_else(ApiError::conflict)?;
            if fingerprint(&found) != asked_about {
                return Err(ApiError::conflict());
            }
        }
        Err(ApiError::conflict())
    }
}

/// Makes one call, as a span named by verb and resource below the request's.
async fn call<T>(name: &'static str, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    trace::step(name, timed(CALL_MAX, call)).await
}

/// Sets an annotation.
///
/// # Errors
/// The object has metadata of another form than any.
pub fn annotate(object: &mut Value, name: &str, value: &str) -> Result<(), ApiError> {
    let metadata =
        object.get_mut("metadata").and_then(Value::as_object_mut).ok_or_else(ApiError::internal)?;
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    let annotations = annotations.as_object_mut().ok_or_else(ApiError::internal)?;
    annotations.insert(name.to_owned(), value.into());
    Ok(())
}

/// What changes when somebody writes anything but the status.
fn fingerprint(object: &DynamicObject) -> impl PartialEq + use<> {
    let metadata = &object.metadata;
    (metadata.uid.clone(), metadata.generation, metadata.annotations.clone(), metadata.labels.clone())
}

fn may_see(principal: &Principal, object: &DynamicObject) -> bool {
    let owner = object.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_OWNER));
    principal.is_admin() || owner.is_some_and(|owner| *owner == principal.owner())
}

fn params(page: &Page) -> ListParams {
    let params = ListParams::default().limit(page.limit);
    match &page.after {
        Some(after) => params.continue_token(after),
        None => params,
    }
}
