//! Refuses writes while this process does not lead.
use crate::{error::NotLeading, leader::Leadership};
use axum::http::{Method, Request};
use futures::future::{Either, Ready, ready};
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};

/// Puts the check on leadership directly before the connection: whatever a task decided earlier, and however long
/// the process was stopped since, no write leaves after the lease's deadline.
#[derive(Clone, Debug)]
pub struct Fence {
    leadership: Leadership,
}

impl Fence {
    /// Makes the layer.
    pub fn new(leadership: Leadership) -> Self {
        Self { leadership }
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, leadership: self.leadership.clone() }
    }
}

/// See [`Fence`].
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    inner: S,
    leadership: Leadership,
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<Ready<Result<S::Response, BoxError>>, futures::future::ErrInto<S::Future, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.method() == Method::GET || self.leadership.is_leading() {
            Either::Right(futures::TryFutureExt::err_into(self.inner.call(request)))
        } else {
            Either::Left(ready(Err(NotLeading.into())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, error::CallError};
    use axum::{body::Body, http::Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Client,
        api::{Api, DeleteParams, Patch, PatchParams, PostParams},
    };
    use std::{convert::Infallible, time::Duration};
    use tower::service_fn;

    fn api(leadership: &Leadership) -> Api<ConfigMap> {
        let echo = service_fn(|_| {
            let body = Body::from("{\"metadata\":{\"name\":\"a\"}}");
            std::future::ready(Ok::<_, Infallible>(Response::new(body)))
        });
        Api::namespaced(Client::new(Fence::new(leadership.clone()).layer(echo), "default"), "default")
    }

    async fn outcomes(api: &Api<ConfigMap>) -> Vec<bool> {
        let object = ConfigMap::default();
        let fenced = |error: kube::Error| matches!(CallError::from(error), CallError::NotLeading(_));
        vec![
            api.create(&PostParams::default(), &object).await.is_err_and(fenced),
            api.replace("a", &PostParams::default(), &object).await.is_err_and(fenced),
            api.patch("a", &PatchParams::default(), &Patch::Merge(&object)).await.is_err_and(fenced),
            api.delete("a", &DeleteParams::default()).await.is_err_and(fenced),
            api.get("a").await.is_err(),
        ]
    }

    #[tokio::test(start_paused = true)]
    async fn every_write_is_refused_before_leading_and_after_the_deadline_and_no_read_ever_is() {
        let leadership = Leadership::waiting(Clock);
        let api = api(&leadership);
        assert_eq!(outcomes(&api).await, [true, true, true, true, false]);
        leadership.lead(Clock.instant() + Duration::from_secs(10));
        assert_eq!(outcomes(&api).await, [false; 5]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(outcomes(&api).await, [true, true, true, true, false]);
    }
}
